"""What is no mistake and is rarely meant: texts of the warnings of a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical import plan as lp
from zql.source import Span
from zql.tree import record, walk


@record
class Doubts:
    """The warnings of a script so far, each once, with its place behind it.

    `reads` are the places where tables are read whose rows differ from reading to reading.
    """

    texts: list[str] = field(default_factory=list)
    reads: dict[object, Span] = field(default_factory=dict)

    def add(self, text: str, span: Span | None) -> None:
        """One more; whoever reads it finds the place as an editor writes it."""
        shown = f"{text} ({span.source.name}:{span.line}:{span.column})" if span else text
        if shown not in self.texts:
            self.texts.append(shown)

    def take(self, other: Doubts) -> None:
        """What a part of the script gave."""
        self.texts += [text for text in other.texts if text not in self.texts]
        # Tables of WITH end with their statement, views do not.
        self.reads |= {key: span for key, span in other.reads.items() if isinstance(key, tuple)}

    def read(self, key: object, name: str, plan: lp.LogicalPlan, span: Span | None) -> None:
        """A table is read; where else it was, its rows may have been others (`random()`)."""
        what = volatile_function(plan)
        if span is None or what is None:
            return
        first = self.reads.setdefault(key, span)
        if first != span or first.source.name != span.source.name:
            self.add(
                f'"{name}" is read again, and {what}(..) in it gives other values than on line '
                f"{first.line}: CREATE TEMP TABLE {name} keeps one set of them",
                span,
            )


def volatile_function(plan: lp.LogicalPlan) -> str | None:
    """A function in the plan that gives another value each time; None without any."""
    for node in walk(plan):
        if isinstance(node, ex.Call) and node.volatile:
            return ".".join(node.name)
        if isinstance(node, PythonFunction) and node.volatile:
            return node.name
    return None


def swapped(doubts: Doubts, kind: str, left: Sequence[str], right: Sequence[str],
            span: Span | None) -> None:  # fmt: skip
    """Columns that are matched by their places, although their names say otherwise."""
    ours, theirs = [n.casefold() for n in left], [n.casefold() for n in right]
    if ours == theirs or sorted(ours) != sorted(theirs):
        return
    pair = next(i for i, name in enumerate(ours) if theirs[i] != name)
    doubts.add(
        f'{kind} goes by places, not by names: "{right[pair]}" comes into "{left[pair]}"; '
        "BY NAME goes by names",
        span,
    )


def never_true(doubts: Doubts, tested: ex.In) -> None:
    """`x NOT IN (.., NULL)`: no value is known to be different from NULL."""
    nulls = [i for i in tested.items if isinstance(i, ex.Literal) and i.value is None]
    if any(n.span is not None and n.span.text.upper() == "NULL" for n in nulls):
        doubts.add(
            "NOT IN with NULL in its list is never true: leave the NULL out, "
            "and write AND .. IS NOT NULL where that is meant",
            tested.span,
        )
