"""What binding carries along: the catalog, declared names, fresh column names, and found errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields, replace
from typing import Any, TypeVar

from zql.errors import (
    BindError,
    Interrupted,
    ParameterError,
    ZqlError,
    did_you_mean,
    nearest,
)
from zql.expr.expression import Array, Expr, Literal, Struct
from zql.expr.functions import ErrorPolicy, PythonFunction
from zql.logical import plan as lp
from zql.logical.catalog import (
    IN_EXPRESSION,
    NOTHING,
    Catalog,
    ObjectTable,
    ProbeWay,
    Shared,
    TypeProblem,
)
from zql.logical.doubts import Doubts
from zql.logical.scope import Names, Scope
from zql.resources import Resources
from zql.source import Span
from zql.syntax import ast
from zql.tree import Node, node, record, rewrite_up

UNKNOWN = ""
"""The type of a column whose expression had an error: it causes no further ones."""

MOST_GROWN = 3_000
"""Operators and calls that views, tables of WITH and functions may bring into one plan."""
TOO_LARGE = "P446"

T = TypeVar("T")


@record
class Declarations:
    """What the statements before have declared, by exact name.

    `scripts` are the modules of IMPORT MODULE, `library` has for the name of each function that
    ZQL brings along, written in ZQL, the module that it stands in: what the script declares under
    the same name comes first.
    """

    views: dict[str, ast.CreateView] = field(default_factory=dict)
    modules: dict[str, Mapping[str, PythonFunction]] = field(default_factory=dict)
    functions: dict[str, PythonFunction] = field(default_factory=dict)
    parameters: dict[str, Expr] = field(default_factory=dict)
    tables: dict[str, ObjectTable] = field(default_factory=dict)
    shared: dict[str, ObjectTable] = field(default_factory=dict)
    sql_functions: dict[str, ast.CreateFunction] = field(default_factory=dict)
    table_functions: dict[str, ast.CreateTableFunction] = field(default_factory=dict)
    scripts: dict[str, Declarations] = field(default_factory=dict)
    library: Mapping[str, Declarations] = field(default_factory=dict)

    def copy(self) -> Declarations:
        """The same names, to which others can be added."""
        names = [item.name for item in fields(self) if item.name != "library"]
        dicts = {name: dict(getattr(self, name)) for name in names}
        return Declarations(**dicts, library=self.library)


@record
class LocalTable:
    """A table that a part of a script knows by name: one of WITH, or a parameter.

    `instances` are the scopes that FROM got of it: the first is the table as it was bound, the
    others copies with columns of their own.
    """

    scope: Scope
    instances: list[Scope] = field(default_factory=list)


@node
class Frame:
    """What names mean in the text that is being bound, beside what statements have declared.

    `here` are the tables that this very query has named, `defining` those whose own queries are
    being bound. `function` is the function whose body it is.
    """

    tables: Mapping[str, LocalTable] = field(default_factory=dict)
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    here: frozenset[str] = frozenset()
    defining: tuple[str, ...] = ()
    function: str = ""


@node
class Place:
    """A text and what its names mean: an expression that moves elsewhere is bound in its own."""

    frame: Frame
    declarations: Declarations
    opened: tuple[tuple[int, str], ...]
    rounds: Mapping[str, Callable[[], Scope]] = field(default_factory=dict)


@node
class Given:
    """A parameter's value: a bound expression, the same wherever the name stands."""

    value: Expr


@node
class Open:
    """An expression over the rows of a table function's table, bound where the name stands.

    `expr` is unbound; its names are columns of `table`, else of `outer`, else what `place` says.
    """

    expr: Expr
    table: LocalTable
    outer: tuple[Scope, ...]
    place: Place


Argument = Given | Open


@record
class Context:
    """The state of binding one statement."""

    catalog: Catalog
    declarations: Declarations
    bind_query: Callable[[ast.Query, tuple[Scope, ...]], Scope]
    names: Names = field(default_factory=Names)
    errors: list[ZqlError] = field(default_factory=list)
    commons: list[lp.Common] = field(default_factory=list)
    outputs: list[lp.Output] = field(default_factory=list)
    rejects: list[tuple[lp.Write, bool]] = field(default_factory=list)
    """Where ON ERROR keeps rows, and whether that has a mode of its own."""
    reading: ast.OnError | None = None
    """What ON ERROR says of the files that the FROM item reads that is being bound."""
    readings: list[tuple[lp.Scan, ast.OnError]] = field(default_factory=list)
    """Scans whose rejects are kept, and where that is said."""
    checks: int = 0
    policies: int = 0
    policy: ErrorPolicy | None = None
    """What ON ERROR says of the Python calls of the operator that is being bound."""
    timeout: float | None = None
    resources: Resources | None = None
    """What the operator's hint says of them."""
    tried: bool = False
    """Whether a TRY is around what is being bound."""
    gone: dict[str, Span] = field(default_factory=dict)
    """Names of columns that an operator has left out, and that operator's place."""
    rounds: Mapping[str, Callable[[], Scope]] = field(default_factory=dict)
    """The rows of a RECURSIVE UNION's last round, by the names its step has for them."""
    python_refused: str = ""
    """What is being bound, when no Python function can be called in it."""
    frame: Frame = field(default_factory=Frame)
    opened: tuple[tuple[int, str], ...] = ()
    doubts: Doubts = field(default_factory=Doubts)
    grown: int = 0
    """How many operators and calls have come into the plan by the names of views and the like."""
    only_named: bool = True
    columns: frozenset[str] | None = None

    def note_gone(self, before: Sequence[str], after: Sequence[str], span: Span | None) -> None:
        """Remembers which names an operator has left out, for those who look for them later."""
        if span is not None:
            self.gone.update(dict.fromkeys(set(before) - set(after), span))

    def grow(self, name: str, by: int, span: Span | None) -> None:
        """A name is about to be replaced by what it stands for. Raises `BindError` when the plan
        grows too large, as it does where each of thirty views reads the one before twice.
        """
        self.grown += by
        if self.grown > MOST_GROWN:
            raise BindError(
                f'the query grows too large: "{name}" and what it is made of are read too often',
                code=TOO_LARGE,
                span=span,
                hint="CREATE TEMP TABLE computes a query once, and reading it is one operator",
            )

    @property
    def place(self) -> Place:
        """Where binding is now."""
        return Place(self.frame, self.declarations, self.opened, self.rounds)

    @contextmanager
    def within(self, place: Place) -> Iterator[None]:
        """Binds another text, whose names mean other things; afterwards all is as before."""
        before, columns = self.place, self.columns
        self.frame, self.declarations, self.opened = place.frame, place.declarations, place.opened
        self.rounds, self.columns = place.rounds, None
        try:
            yield
        finally:
            self.frame, self.declarations, self.opened = (
                before.frame,
                before.declarations,
                before.opened,
            )
            self.rounds, self.columns = before.rounds, columns

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """A query or subpipe of its own: the tables that it names end with it."""
        before = self.frame
        self.frame = replace(before, here=frozenset())
        try:
            with self.policed(None):
                yield
        finally:
            self.frame = before

    @contextmanager
    def policed(
        self,
        policy: ErrorPolicy | None,
        timeout: float | None = None,
        resources: Resources | None = None,
    ) -> Iterator[None]:
        """Python calls that are bound in it have this policy, limit in seconds, and resources.

        Afterwards they have those from before.
        """
        before = self.policy, self.timeout, self.resources, self.tried
        self.policy, self.timeout, self.resources, self.tried = policy, timeout, resources, False
        try:
            yield
        finally:
            self.policy, self.timeout, self.resources, self.tried = before

    @contextmanager
    def inside_try(self) -> Iterator[None]:
        """Python calls that are bound in it may fail."""
        before, self.tried = self.tried, True
        try:
            yield
        finally:
            self.tried = before

    def limited(self, function: PythonFunction) -> PythonFunction:
        """A function with what its operator asks for, and its time limit, which wins."""
        if self.timeout is not None:
            function = replace(function, timeout=self.timeout)
        return function if self.resources is None else replace(function, resources=self.resources)

    def attempt(self, action: Callable[[], T]) -> T | None:
        """Runs a part of the binding; its error is kept and None returned, so others show too."""
        try:
            return action()
        except Interrupted:
            raise
        except ZqlError as error:
            self.errors.append(error)
            return None

    @contextmanager
    def rounds_of(self, names: Mapping[str, Callable[[], Scope]]) -> Iterator[None]:
        """While it lasts, these names stand for the rows of the last round."""
        before = self.rounds
        self.rounds = {**before, **names}
        try:
            yield
        finally:
            self.rounds = before

    @contextmanager
    def without_python(self, where: str) -> Iterator[None]:
        """While it lasts, a call of a Python function is an error."""
        before = self.python_refused
        self.python_refused = where
        try:
            yield
        finally:
            self.python_refused = before

    def check_python(self, span: Span | None) -> None:
        """Raises `BindError` where no Python function can be called."""
        if self.python_refused:
            raise BindError(
                f"a Python function cannot be called in {self.python_refused}",
                code="P408",
                span=span,
                hint="call it before or behind: DuckDB runs this part by itself, row after row",
            )

    def at(self, span: Span | None, action: Callable[[], T], label: str = "") -> T:
        """Runs a question to the catalog; an error without a place gets this one."""
        try:
            return action()
        except TypeProblem as problem:
            raise type_error(problem, span) from None
        except ZqlError as error:
            if error.span is None:
                error.span, error.label = span, error.label or label
            raise

    def probe(
        self,
        function: PythonFunction,
        plan: lp.LogicalPlan,
        record: Sequence[str],
        keywords: Sequence[str],
        shared: Shared = (),
        way: ProbeWay = IN_EXPRESSION,
    ) -> PythonFunction:
        """The function with its result type, seen on the first rows of a plan."""
        commons = {common.number: common for common in self.commons}

        def inline(node: Node) -> Node:
            if not isinstance(node, lp.CommonRows):
                return node
            assigns = tuple(lp.Assign(c, c) for c in node.columns)
            return rewrite_up(lp.Project(commons[node.number].input, assigns), inline)  # type: ignore[no-any-return]

        tolerant = self.policy is not None or self.tried
        seen = rewrite_up(plan if plan.columns else _rows_alone(plan), inline)
        return self.catalog.probe(function, seen, record, keywords, tolerant, shared, way)

    def types(self, exprs: Sequence[Expr]) -> tuple[str, ...]:
        """Types of bound expressions; `TypeProblem` passes through."""
        return self.catalog.types(exprs) if exprs else ()


def _rows_alone(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """For calls that take nothing of the rows: as many rows as those of a projection's input."""
    below = plan.input if isinstance(plan, lp.Project) else plan
    return lp.Project(below, (lp.Assign(NOTHING, Literal(True)),))


def type_error(problem: TypeProblem, span: Span | None) -> BindError:
    """DuckDB's refusal as an error of the script."""
    message = problem.message.split("\n")[0].strip().rstrip(".")
    candidates = tuple(c for c in problem.candidates if c.replace("_", "").isalnum())
    signatures = [
        line.strip()
        for line in problem.message.split("\n")
        if line.startswith("\t") and "->" in line
    ]
    code = "T301"
    hint = did_you_mean(candidates)
    if "Function with name" in message and "does not exist" in message:
        name = message.split("name", 1)[1].split("does not")[0].strip().strip('"')
        return BindError(
            f'unknown function "{name}"', code="N203", span=span, hint=hint, candidates=candidates
        )
    message = message.split(" You might need")[0].rstrip(".").replace("_LITERAL", "")
    if called := _CALLED.search(message):
        return _no_function(called[1], called[2].split(", "), signatures, span)
    if compared := _COMPARED.search(message):
        return BindError(
            f"{compared[1]} and {compared[2]} cannot be compared",
            code=code,
            span=span,
            hint=f"CAST one of them; TRY_CAST(.. AS {compared[2]}) gives NULL where that fails",
        )
    if message[1:2].islower():
        message = message[:1].lower() + message[1:]
    return BindError(message, code=code, span=span, hint=hint)


_CALLED = re.compile(r"o function matches the given name and argument types '(.+?)\((.*)\)'")
_COMPARED = re.compile(r"annot compare values of type (.+) and type (.+?) - an explicit cast")
_MOST_SIGNATURES = 4


def _no_function(
    name: str, types: list[str], signatures: list[str], span: Span | None
) -> BindError:
    """The error for a function, or a sign between operands, that does not take such values."""
    if name[:1].isalpha() or name[:1] == "_":
        notes = tuple(f"it takes {s.replace(', /', '')}" for s in signatures[:_MOST_SIGNATURES])
        if signatures[_MOST_SIGNATURES:]:
            notes += (f"and {len(signatures) - _MOST_SIGNATURES} more",)
        return BindError(
            f"{name}(..) does not take {', '.join(types)}",
            code="T301",
            span=span,
            hint="CAST what does not fit to the type that it takes",
            notes=notes,
        )
    words = f" {name} ".join(types) if len(types) > 1 else f"{name} {types[0]}"
    text = name == "+" and "VARCHAR" in types
    hint = "texts are joined with ||; to add numbers, CAST the text" if text else "CAST an operand"
    return BindError(f"there is no {words}", code="T301", span=span, hint=hint)


def unknown(
    kind: str, name: str, candidates: Sequence[str], span: Span | None, code: str = "N201"
) -> BindError:
    """The error of a name that is not there, with the near ones and all that could stand."""
    near = nearest(name, candidates)
    shown = ", ".join(candidates[:12]) + (", ..." if len(candidates) > 12 else "")
    return BindError(
        f'unknown {kind} "{name}"',
        code=code,
        span=span,
        hint=did_you_mean(near),
        notes=(f"{kind}s here: {shown}",) if shown else (),
        candidates=near,
    )


def not_yet(op: ast.Syntax) -> BindError:
    """The error of an operator that the language has and this version does not."""
    words = op.span.text.split()[:2] if op.span else [type(op).__name__]
    return BindError(
        f"{' '.join(w for w in words if w.isupper())} is not supported yet",
        code="P404",
        span=op.span,
    )


def constant(value: Any, span: Span | None = None) -> Expr:
    """A Python value as an expression; lists, tuples and dicts by their parts."""
    import datetime as dt
    from decimal import Decimal

    if value is None or isinstance(value, bool | int | str | bytes | float | Decimal):
        return Literal(value, span=span)
    if isinstance(value, dt.datetime):
        return Literal(
            value.isoformat(" "), "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP", span=span
        )
    if isinstance(value, dt.date):
        return Literal(value.isoformat(), "DATE", span=span)
    if isinstance(value, dt.time):
        return Literal(value.isoformat(), "TIME", span=span)
    if isinstance(value, list | tuple):
        return Array(tuple(constant(v, span) for v in value), span=span)
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return Struct(tuple((k, constant(v, span)) for k, v in value.items()), span=span)
    kind = type(value).__name__
    raise ParameterError(
        f"a Python value of type {kind} cannot be a parameter",
        code="A504",
        span=span,
        hint="numbers, texts, dates, lists and dicts can; tables can be read: FROM $name",
    )
