"""Which names an operator sees: visible columns in order, and table aliases beside them.

An alias keeps the columns it had when it was given: after `SET x = ..`, `t.x` is still the old
value (GoogleSQL pipe syntax, range variables).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from zql.expr.expression import Column
from zql.logical.plan import LogicalPlan
from zql.source import Span
from zql.tree import node, record


@node
class Visible:
    """A column under the user's name; `origin` says where it came from, for messages.

    A hidden one (`filename` of a scan) is found by its name, but is no part of a star.
    """

    name: str
    column: Column
    origin: str = ""
    hidden: bool = False


@node
class Shards:
    """What SHUFFLE or DISTRIBUTE says to the WRITE behind: how many files, and which rows go where.

    A row goes to the shard `number` modulo the count; without such a column all get as many rows.
    """

    count: int | None
    number: Column | None = None
    span: Span | None = None


@node
class Scope:
    """The columns and aliases in reach, and the plan that gives them.

    `virtual` columns (`filename`, `file_row_number`) are no part of `*`: only their name gets them.
    `carried` ones have no name at all: expressions that a table function was given may use them.
    """

    plan: LogicalPlan
    visible: tuple[Visible, ...]
    aliases: tuple[tuple[str, tuple[Visible, ...]], ...] = ()
    virtual: tuple[Visible, ...] = ()
    carried: tuple[str, ...] = ()
    shards: Shards | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The users' names of the visible columns, in order."""
        return tuple(v.name for v in self.visible)

    def find(self, name: str) -> tuple[Visible, ...]:
        """Visible columns of that name: exact ones, else those equal but for case.

        Virtual columns (`filename`) are found when no visible one has the name.
        """
        return matching(self.visible, name) or matching(self.virtual, name)

    def alias(self, name: str) -> tuple[Visible, ...] | None:
        """The columns of a table alias; None when there is no such alias."""
        exact = [columns for alias, columns in self.aliases if alias == name]
        if exact:
            return exact[-1]
        folded = [columns for alias, columns in self.aliases if alias.casefold() == name.casefold()]
        return folded[-1] if len(folded) == 1 else None

    def with_alias(self, name: str) -> Scope:
        """The same rows under one alias; earlier ones vanish."""
        renamed = tuple(replace(v, origin=name) for v in self.visible)
        everything = renamed + tuple(replace(v, origin=name) for v in self.virtual)
        return replace(self, visible=renamed, aliases=((name, everything),))

    def over(self, plan: LogicalPlan) -> Scope:
        """The same names over a plan that still has all their columns."""
        return replace(self, plan=plan)

    def kept_columns(self) -> tuple[Column, ...]:
        """Every column that a name can still reach, or the WRITE that divides rows into shards."""
        wanted = {v.column.name for v in (*self.visible, *self.virtual)} | set(self.carried)
        for _, columns in self.aliases:
            wanted.update(v.column.name for v in columns)
        if self.shards is not None and self.shards.number is not None:
            wanted.add(self.shards.number.name)
        return tuple(c for c in self.plan.columns if c.name in wanted)


def matching(columns: Iterable[Visible], name: str) -> tuple[Visible, ...]:
    """Columns of exactly that name, else those that differ in case only."""
    columns = tuple(columns)
    exact = tuple(v for v in columns if v.name == name)
    return exact or tuple(v for v in columns if v.name.casefold() == name.casefold())


@record
class Names:
    """Gives each column of a statement's plan a name of its own, whatever the case."""

    taken: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when a column has that name already."""
        base = wanted or "_"
        key = base.casefold()
        name, number = base, self.numbers.get(key, 0)
        while name.casefold() in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.numbers[key] = number
        self.taken.add(name.casefold())
        return name

    def column(self, wanted: str, type: str) -> Column:
        """A new column."""
        return Column(self.fresh(wanted), type)
