"""Calls in expressions: DuckDB's functions, the script's own, those of modules, methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from zql.errors import BindError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical.bind_function import expand
from zql.logical.bind_python_aggregate import python_aggregate
from zql.logical.bind_python_call import PythonCallBinder
from zql.logical.catalog import TypeProblem
from zql.logical.context import UNKNOWN, Declarations, unknown
from zql.logical.conversion import kind_of
from zql.logical.declared import python_function, sql_function
from zql.logical.scope import Scope
from zql.logical.stable_hash import STABLE_HASH, arguments, hash_of
from zql.tree import map_children, walk

_COMPENSATED = {"sum": "fsum", "avg": "favg", "mean": "favg"}
_WRITTEN = {"fsum": "sum", "favg": "avg"}
_EVERY_ROW = "use |> AGGREGATE .. GROUP BY .., or add OVER () to keep every row"
_HINTS = {
    "SELECT": _EVERY_ROW,
    "EXTEND": _EVERY_ROW,
    "SET": _EVERY_ROW,
    "PARTITION BY": _EVERY_ROW,
    "ON": "|> AGGREGATE first, then |> JOIN its result",
    "WHEN": "|> AGGREGATE first, then |> SWITCH on its result",
    "VALUES": "rows are written out, and grouped behind: |> AGGREGATE",
    "ASSERT": "|> AGGREGATE first, or the statement ASSERT (FROM .. |> AGGREGATE ..) > 0",
}
"""What to write instead of an aggregate where rows are looked at one by one."""
_WITHOUT_WINDOWS = frozenset({"ON", "VALUES", "DISTINCT ON", "TABLESAMPLE"})


def aggregate_error(call: ex.Call, why: str, hint: str) -> BindError:
    """The error of an aggregate that stands where none can; it is called as the user called it."""
    name = _WRITTEN.get(call.name[-1], call.name[-1])
    if call.name_span is not None:
        name = call.name_span.text
    return BindError(f"{name}(..) is an aggregate: {why}", code="T309", span=call.span, hint=hint)


class CallBinder(PythonCallBinder):
    """Binds calls of any function."""

    def rebuilt(self, expr: ex.Expr) -> ex.Expr:
        return map_children(expr, self._child)

    def _child(self, node: object) -> object:
        if isinstance(node, ex.Expr):
            return self.bind(node)
        return map_children(node, self._child)  # type: ignore[type-var]

    def for_body(self) -> CallBinder:
        """The binder for the body of a function that is called here: no column has a name in it."""
        nameless = Scope(self.scope.plan, ())
        return type(self)(
            self.context, (nameless,), depth=self.depth + 1, row_by_row=self.row_by_row
        )

    def call(self, call: ex.Call) -> ex.Expr:
        if len(call.name) > 1:
            return self.dotted_call(call)
        name = call.name[0]
        function = python_function(self.context.declarations, call.name)
        if function is not None:
            return self.python_call(call, function)
        declared = sql_function(self.context.declarations, call.name)
        if declared is not None:
            return expand(self, call, *declared)
        if name.lower() == STABLE_HASH:
            return self.stable_hash(call)
        facts = self.context.catalog.function(name.lower())
        if facts is None and not self.is_special(name):
            raise self.unknown_function(call, name)
        if facts is None and name.lower() in ("grouping", "grouping_id"):
            return self.grouping(call)
        bound = map_children(replace(call, window=self.window(call.window)), self._child)
        if facts is None:
            return bound
        aggregate = "aggregate" in facts.kinds and "scalar" not in facts.kinds
        self.check_place(call, aggregate)
        if aggregate and bound.window is None:
            self.check_inner(bound)
        bound = replace(bound, volatile=facts.volatile, aggregate=aggregate)
        return self.compensated(bound) if name.lower() in _COMPENSATED else bound

    def python_call(self, call: ex.Call, function: PythonFunction) -> ex.Expr:
        if function.aggregate is None:
            return super().python_call(call, function)
        self.context.check_python(call.span)
        return python_aggregate(self, call, function, function.aggregate)

    def check_place(self, call: ex.Call, aggregate: bool, python: bool = False) -> None:
        """Raises `BindError` for an aggregate or a window function where none can stand.

        One of `python` has no OVER.
        """
        word = self.row_by_row
        if call.window is not None and word in _WITHOUT_WINDOWS:
            raise BindError(
                f"a window function cannot stand in {word}",
                code="T311",
                span=call.span,
                hint="make it a column before: |> EXTEND .. OVER (..) AS name",
            )
        if aggregate and call.window is None and word:
            hint = f"|> AGGREGATE first, then |> {word} on its result"
            hint = hint if python else _HINTS.get(word, hint)
            raise aggregate_error(call, f"{word} works row by row", hint)

    def check_inner(self, call: ex.Call) -> None:
        """Raises `BindError` for an aggregate over columns of an outer query and none of this one:
        DuckDB takes it for an aggregate of the outer query.
        """
        used = {n.name for n in walk(call) if isinstance(n, ex.Column)}
        body = bool(self.context.frame.function)
        if (
            len(self.scopes) > 1
            and used
            and not body
            and not used & {c.name for c in self.scope.plan.columns}
        ):
            raise aggregate_error(
                call,
                "here, it needs a column of this query, not of the outer one alone",
                "make the value a column before: |> EXTEND .. AS name",
            )

    def grouping(self, call: ex.Call) -> ex.Call:
        """`grouping(key, ..)`, of which `grouping_id` is another name."""
        if not self.grouped:
            raise BindError(
                f"{call.name[0]}(..) says which keys a row is grouped by: it stands in AGGREGATE",
                code="T329",
                span=call.span,
                hint="|> AGGREGATE grouping(key) AS name GROUP BY ROLLUP(key)",
            )
        bound = map_children(replace(call, name=("grouping",)), self._child)
        return replace(bound, aggregate=True)

    def compensated(self, call: ex.Call) -> ex.Call:
        """`sum` and `avg` of floats as DuckDB's forms that lose no small numbers beside large."""
        value = call.args[0] if len(call.args) == 1 else None
        if not isinstance(value, ex.Expr) or call.star or self.touches_unknown(value):
            return call
        try:
            type_ = self.context.types((value,))[0]
        except TypeProblem:
            return call
        better = _COMPENSATED[call.name[-1].lower()]
        return replace(call, name=(better,)) if type_ in ("DOUBLE", "FLOAT") else call

    def stable_hash(self, call: ex.Call) -> ex.Expr:
        """The call in DuckDB's functions."""
        value, seed = map(self.bind, arguments(call))
        type_, seed_type = self.types((value, seed))
        if kind_of(seed_type) != "integer" and seed_type != UNKNOWN:
            raise BindError(
                f"the seed of {STABLE_HASH} is a whole number, not {seed_type}",
                code="T303",
                span=seed.span or call.span,
            )
        return hash_of(value, type_, seed, call.span)

    @staticmethod
    def is_special(name: str) -> bool:
        """Functions that DuckDB's grammar knows and its catalog does not list."""
        return name.lower() in {
            "coalesce",
            "nullif",
            "ifnull",
            "if",
            "struct_extract",
            "row",
            "grouping",
            "grouping_id",
            "unnest",
            "position",
            "overlay",
            "try",
        }

    def unknown_function(self, call: ex.Call, name: str) -> BindError:
        modules = self.context.declarations.modules
        homes = [alias for alias, functions in modules.items() if name in functions]
        declarations = self.context.declarations
        names = [
            STABLE_HASH,
            *self.context.catalog.function_names(),
            *declarations.functions,
            *declarations.sql_functions,
        ]
        scripts = declarations.scripts
        homes += [alias for alias, script in scripts.items() if name in script.sql_functions]
        near = nearest(name, names)
        hint = did_you_mean(near)
        if homes:
            hint = f"did you mean {homes[0]}.{name}(..)?"
        span = call.name_span or call.span
        return BindError(
            f'unknown function "{name}"', code="N203", span=span, hint=hint, candidates=near
        )

    def dotted_call(self, call: ex.Call) -> ex.Expr:
        """`module.function(..)`, else the method form of a function on a column or struct."""
        module = self.context.declarations.modules.get(call.name[0])
        receiver = ex.Name(call.name[:-1], span=call.name_span or call.span)
        as_column = next((True for s in self.scopes if s.find(call.name[0])), False)
        script = self.context.declarations.scripts.get(call.name[0])
        if (module is not None or script is not None) and len(call.name) == 2:
            found = self.module_call(call, module, script)
            if as_column:
                raise BindError(
                    f'"{call.name[0]}" is an imported module and a column',
                    code="N204",
                    span=call.name_span or call.span,
                    hint="import the module under another name: "
                    f"IMPORT {'MODULE' if script is not None else 'PYTHON'} .. AS ..",
                )
            return found()
        try:
            self.name(receiver)
        except BindError:
            if script is not None:
                raise BindError(
                    f"{'.'.join(call.name)}: what {call.name[0]} imports is its own",
                    code="N205",
                    span=call.name_span or call.span,
                    hint="import that module here, too",
                ) from None
            known = [*self.context.declarations.modules, *self.context.declarations.scripts]
            near = nearest(call.name[0], known)
            raise BindError(
                f'unknown module or column "{call.name[0]}"',
                code="N205",
                span=call.name_span or call.span,
                hint=did_you_mean(near) or "import a file first: IMPORT PYTHON 'file.py' AS name;",
            ) from None
        return self.call(replace(call, name=call.name[-1:], args=(receiver, *call.args)))

    def module_call(
        self,
        call: ex.Call,
        module: Mapping[str, PythonFunction] | None,
        script: Declarations | None,
    ) -> Callable[[], ex.Expr]:
        """What binds `m.f(..)`, of Python or of ZQL. Raises `BindError` when there is no `f`."""
        name = call.name[1]
        known = [*script.sql_functions, *script.functions] if script else list(module or {})
        function = python_function(self.context.declarations, call.name)
        if function is not None:
            return lambda: self.python_call(call, function)
        declared = sql_function(self.context.declarations, call.name)
        if declared is not None:
            return lambda: expand(self, call, *declared)
        error = unknown("function", name, known, call.name_span or call.span, "N203")
        error.message = f'{call.name[0]} has no function "{name}"'
        error.args = (error.message,)
        if script and name in script.table_functions:
            error.hint = f"it is a table function: |> CALL {'.'.join(call.name)}(..)"
        raise error

    def window(self, window: ex.Window | None) -> ex.Window | None:
        if window is None or not window.name:
            return window
        found = self.windows.get(window.name)
        if found is None:
            raise unknown("window", window.name, list(self.windows), window.span, "N207")
        return replace(
            found,
            order=window.order or found.order,
            frame=window.frame or found.frame,
            span=window.span,
        )
