"""Names in expressions resolved to columns, calls to functions; then DuckDB is asked for types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zql.errors import BindError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.expr.functions import FunctionParameter, PythonFunction
from zql.logical.bind_function import expand
from zql.logical.bind_python_aggregate import python_aggregate
from zql.logical.catalog import IN_EXPRESSION, ProbeWay, Shared, TypeProblem
from zql.logical.context import (
    UNKNOWN,
    Argument,
    Context,
    Declarations,
    Given,
    Open,
    type_error,
    unknown,
)
from zql.logical.conversion import as_parameter, kind_of
from zql.logical.declared import python_function, sql_function
from zql.logical.doubts import never_true
from zql.logical.instances import inlined
from zql.logical.plan import Assign, Filter, Project
from zql.logical.scope import Names, Scope, Visible, matching
from zql.logical.stable_hash import STABLE_HASH, arguments, hash_of
from zql.source import Span
from zql.syntax.printer import expression_name
from zql.tree import Node, map_children, walk

_COMPENSATED = {"sum": "fsum", "avg": "favg", "mean": "favg"}
_WRITTEN = {"fsum": "sum", "favg": "avg"}
_SESSION_CONSTANTS = {
    "current_date": "today",
    "current_time": "get_current_time",
    "current_timestamp": "now",
    "localtime": "current_localtime",
    "localtimestamp": "current_localtimestamp",
}
"""SQL's functions without parentheses, and the names that DuckDB has for them."""


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


@dataclass
class ExpressionBinder:
    """Binds the expressions of one operator over the scopes in reach, the innermost first.

    `variables` are those of the lambdas around, and the names that they have in SQL; `depth` is the
    number of SQL functions whose bodies are open, so that these names never meet.
    """

    context: Context
    scopes: tuple[Scope, ...]
    windows: Mapping[str, ex.Window] = field(default_factory=dict)
    siblings: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    depth: int = 0
    outputs: Mapping[str, ex.Expr] = field(default_factory=dict)
    """Columns of a SELECT's list by name, for the clauses behind it: a column of the input wins."""
    grouped: bool = False
    """Whether rows are being grouped, so that `grouping(..)` has a meaning."""
    row_by_row: str = ""
    """The word of the operator, when it looks at one row at a time: an aggregate is an error."""

    @property
    def scope(self) -> Scope:
        return self.scopes[0]

    def bind(self, expr: ex.Expr) -> ex.Expr:
        """The bound expression, not yet checked for types. Raises `BindError`."""
        match expr:
            case ex.Name():
                return self.name(expr)
            case ex.Parameter():
                return self.parameter(expr)
            case ex.Call():
                return self.call(expr)
            case ex.Method():
                args = (expr.receiver, *expr.args)
                return self.call(ex.Call((expr.name,), args, span=expr.span))
            case ex.Lambda():
                inner = self.inner(expr.parameters)
                names = tuple(inner.variables[p] for p in expr.parameters)
                return replace(expr, parameters=names, body=inner.bind(expr.body))
            case ex.Comprehension():
                inner = self.inner((expr.variable,))
                return replace(
                    expr,
                    variable=inner.variables[expr.variable],
                    items=self.bind(expr.items),
                    element=inner.bind(expr.element),
                    condition=inner.bind(expr.condition) if expr.condition else None,
                )
            case ex.Subquery():
                return self.subquery(expr)
            case ex.Try():
                with self.context.inside_try():
                    return self.rebuilt(expr)
            case ex.Cast(type="VARCHAR", safe=False):
                return self.cast_to_text(expr)
            case ex.In(negated=True) | ex.Unary(op="NOT", operand=ex.In(negated=False)):
                tested = expr if isinstance(expr, ex.In) else expr.operand
                never_true(self.context.doubts, tested)  # type: ignore[arg-type]
                return self.rebuilt(expr)
            case ex.Star() | ex.Columns():
                raise BindError(
                    "a star can only stand by itself in a select list", code="N209", span=expr.span
                )
            case _:
                return self.rebuilt(expr)

    def rebuilt(self, expr: ex.Expr) -> ex.Expr:
        return map_children(expr, self._child)

    def _child(self, node: object) -> object:
        if isinstance(node, ex.Expr):
            return self.bind(node)
        return map_children(node, self._child)  # type: ignore[type-var]

    def inner(self, variables: Sequence[str]) -> ExpressionBinder:
        """The binder for the body of a lambda or comprehension."""
        named = {v: f"{v}:{self.depth}" if self.depth else v for v in variables}
        return replace(self, variables={**self.variables, **named})

    def for_body(self) -> ExpressionBinder:
        """The binder for the body of a function that is called here: no column has a name in it."""
        nameless = Scope(self.scope.plan, ())
        return ExpressionBinder(
            self.context, (nameless,), depth=self.depth + 1, row_by_row=self.row_by_row
        )

    # ---- names ---------------------------------------------------------------------------------

    def name(self, name: ex.Name) -> ex.Expr:
        first = name.parts[0]
        if first in self.variables:
            variable = ex.Variable(self.variables[first], span=name.span)
            return self.fields(variable, name.parts[1:], name.span)
        argument = self.context.frame.arguments.get(first)
        if argument is not None:
            return self.fields(self.argument(name, argument), name.parts[1:], name.span)
        for scope in self.scopes:
            found = self.in_scope(scope, name)
            if found is None and scope is self.scope:
                found = self.outputs.get(first)
                found = found and self.fields(found, name.parts[1:], name.span)
            if found is not None:
                return found
        function = _SESSION_CONSTANTS.get(first.lower())
        if function is not None and len(name.parts) == 1 and not any(name.quoted):
            return ex.Call((function,), span=name.span)
        raise self.not_found(name)

    def argument(self, name: ex.Name, argument: Argument) -> ex.Expr:
        """What a parameter of the function around stands for."""
        if isinstance(argument, Given):
            return argument.value
        found = []
        for instance in argument.table.instances:
            with self.context.within(argument.place):
                over = (instance, *argument.outer)
                binder = ExpressionBinder(
                    self.context, over, depth=self.depth, row_by_row=self.row_by_row
                )
                bound = binder.bind(argument.expr)
            columns = {c.name for c in instance.plan.columns}
            used = {n.name for n in walk(bound) if isinstance(n, ex.Column)} & columns
            found.append((bound, used))
        for scope in self.scopes:
            here = {c.name for c in scope.plan.columns}
            fitting = [bound for bound, used in found if used <= here]
            if len(fitting) > 1 and fitting[0] != fitting[1]:
                raise BindError(
                    f'"{name.parts[0]}" is ambiguous: its table is read {len(fitting)} times here',
                    code="N202",
                    span=name.span,
                    hint="|> EXTEND it under a name of its own before the tables meet",
                )
            if fitting:
                return fitting[0]
        raise BindError(
            f'"{name.parts[0]}" is an expression over rows that are not here',
            code="N219",
            span=name.span,
            hint=f"keep its value: |> EXTEND {name.parts[0]} AS other before this operator",
            notes=(f"it is {expression_name(argument.expr)}",),
        )

    def column_name(self, expr: ex.Expr) -> str:
        """What a column without AS is called: for a parameter, as what it stands for."""
        argument = None
        if isinstance(expr, ex.Name) and len(expr.parts) == 1:
            argument = self.context.frame.arguments.get(expr.parts[0])
        if not isinstance(argument, Open):
            return expression_name(expr)
        with self.context.within(argument.place):
            return self.column_name(argument.expr)

    def in_scope(self, scope: Scope, name: ex.Name) -> ex.Expr | None:
        """`alias.column` first, then a column and its fields, then an alias as a record."""
        first, rest = name.parts[0], name.parts[1:]
        alias = scope.alias(first)
        columns = scope.find(first)
        if alias is not None and rest:
            below = matching(alias, rest[0])
            if below and columns and self.has_field(columns[0].column, rest[0]):
                raise BindError(
                    f'"{first}.{rest[0]}" is a column of the table {first} and a field of the '
                    f"column {first}",
                    code="N204",
                    span=name.span,
                    hint="give the table another alias with AS",
                )
            if below:
                column = self.single(below, rest[0], name.span)
                return self.fields(replace(column, span=name.span), rest[1:], name.span)
        if columns:
            column = self.single(columns, first, name.span)
            return self.fields(replace(column, span=name.span), rest, name.span)
        if alias is not None and not rest:
            entries = tuple((v.name, v.column) for v in alias if not v.hidden)
            return ex.Struct(entries, span=name.span)
        return None

    def has_field(self, column: ex.Column, field_name: str) -> bool:
        fields = self.context.catalog.fields(column.type).names
        return any(f.casefold() == field_name.casefold() for f in fields)

    def single(self, found: Sequence[Visible], name: str, span: Span | None) -> ex.Column:
        if len(found) == 1:
            return found[0].column
        table = found[0].origin
        if table and len({(v.origin, v.name) for v in found}) == 1:
            raise BindError(
                f'two columns of {table} are called "{found[0].name}"',
                code="N202",
                span=span,
                hint=f"|> SELECT or |> RENAME tells them apart, before |> AS {table}",
            )
        origins = " and ".join(
            f"{v.origin}.{v.name}" if v.origin else "one without an alias" for v in found
        )
        raise BindError(
            f'"{name}" is ambiguous: {origins}',
            code="N202",
            span=span,
            hint="write " + " or ".join(f"{v.origin}.{v.name}" for v in found)
            if all(v.origin for v in found)
            else "give each table an alias with AS, and write it before the name",
        )

    def fields(self, expr: ex.Expr, names: Sequence[str], span: Span | None) -> ex.Expr:
        for name in names:
            expr = ex.FieldAccess(expr, name, span=span)
        return expr

    def not_found(self, name: ex.Name) -> BindError:
        first = name.parts[0]
        if len(name.parts) > 1:
            return self.no_path(name)
        error = unknown("column", first, list(self.scope.names), name.span)
        error.label = "not a column here"
        if any(s.casefold() == first.casefold() for s in self.siblings):
            error.hint = f'"{first}" is made by this same operator: use it in another |> EXTEND'
        elif self.context.frame.function and not self.scope.visible:
            known = ", ".join(self.context.frame.arguments)
            error.hint = error.hint or "a SQL function sees its parameters only"
            error.label = "no parameter of the function"
            error.notes = (f"parameters: {known}",) if known else ()
        elif name.quoted and name.quoted[0]:
            error.hint = error.hint or f"text needs single quotes: '{first}'"
        gone = self.context.gone.get(first)
        if gone is not None:
            word = gone.text.split(None, 1)[0].upper()
            error.notes += (f'{word} on line {gone.line} has left "{first}" out',)
        return error

    def no_path(self, name: ex.Name) -> BindError:
        """The error of `a.b`: of a table that lacks the column, or of no table and no column."""
        first, second = name.parts[:2]
        alias = next((a for s in self.scopes if (a := s.alias(first)) is not None), None)
        added = bool(matching(self.scope.visible, second))
        if alias is not None:
            error = unknown("column", second, [v.name for v in alias if not v.hidden], name.span)
            error.label = f'not a column of "{first}"'
            if added:
                error.hint = f'"{second}" came later than the alias: write it without "{first}."'
            return error
        if first in self.context.declarations.modules:
            text = ".".join(name.parts)
            return BindError(
                f"{text} is a Python function, and no column",
                code="N201",
                span=name.span,
                hint=f"call it: {text}(..)",
            )
        error = unknown("table or column", first, list(self.scope.names), name.span)
        error.notes = (f"columns here: {', '.join(self.scope.names[:12])}",)
        aliases = [a for a, _ in self.scope.aliases]
        if aliases:
            error.notes += (f"tables here: {', '.join(aliases)}",)
        if added:
            error.hint = f'write "{second}" alone' + (
                f", or {aliases[0]}.{second}" if len(aliases) == 1 else ""
            )
        return error

    def parameter(self, parameter: ex.Parameter) -> ex.Expr:
        found = self.context.declarations.parameters.get(parameter.name)
        if found is None:
            known = list(self.context.declarations.parameters)
            near = nearest(parameter.name, known)
            raise BindError(
                f"the parameter ${parameter.name} has no value",
                code="A501",
                span=parameter.span,
                hint=did_you_mean(tuple(f"${n}" for n in near))
                or f"give one: -p {parameter.name}=.. or params={{'{parameter.name}': ..}}",
            )
        if isinstance(found, ex.SharedObject):
            raise BindError(
                f"${parameter.name} is a shared object: only a Python function can take it",
                code="T340",
                span=parameter.span,
                hint=f"hand it over as an argument of its own: module.f(text, ${parameter.name})",
            )
        return replace(found, span=parameter.span)

    def python_argument(self, argument: ex.Expr) -> ex.Expr:
        """An argument of a Python function, which may be a shared object."""
        if isinstance(argument, ex.Parameter):
            found = self.context.declarations.parameters.get(argument.name)
            if isinstance(found, ex.SharedObject):
                return replace(found, span=argument.span)
        return self.bind(argument)

    def cast_to_text(self, cast: ex.Cast) -> ex.Expr:
        """A JSON string as text has no quotes; DuckDB's own CAST would keep them."""
        operand = self.bind(cast.operand)
        near_json = any(isinstance(n, ex.Column) and "JSON" in n.type for n in walk(operand))
        if near_json and self.types((operand,))[0] == "JSON":
            return ex.Binary("->>", operand, ex.Literal("$"), span=cast.span)
        return replace(cast, operand=operand)

    # ---- calls ---------------------------------------------------------------------------------

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

    def python_call(self, call: ex.Call, function: PythonFunction) -> ex.Expr:
        self.context.check_python(call.span)
        if function.aggregate is not None:
            return python_aggregate(self, call, function, function.aggregate)
        if call.window or call.distinct or call.order or call.filter or call.star:
            raise BindError(
                f"{'.'.join(call.name)} is a Python function: OVER, DISTINCT, FILTER and * are for "
                "aggregates",
                code="T305",
                span=call.span,
                hint="aggregate its results instead: |> EXTEND the call first, then |> AGGREGATE",
            )
        function = self.context.limited(function)
        args, keywords = bind_arguments(self, call.args, function, call.span)
        if function.batch_size is not None:
            check_single_values(function, args, keywords)
        if any(isinstance(n, ex.Variable) for a in args for n in walk(a)):
            raise BindError(
                "a Python function cannot be called inside a lambda",
                code="P407",
                span=call.span,
                hint="|> UNNEST the list, call the function on its elements, and collect them with "
                "list(..) in |> AGGREGATE",
            )
        args, keywords = self.typed_arguments(args, keywords)
        args, keywords = self.as_declared(function, args, keywords)
        if not function.returns:
            function = self.probed(function, args, keywords, call.span)
        elif not self.is_type(function.returns):
            raise BindError(
                f"{function.name} is declared to return {function.returns}, which is no type",
                code="T323",
                span=call.span,
                hint="types are DuckDB's: BIGINT, DOUBLE, VARCHAR, DATE, VARCHAR[], ..",
            )
        return ex.PythonCall(
            function,
            args,
            keywords,
            function.returns,
            on_error=self.context.policy,
            span=call.span,
        )

    def given(
        self,
        args: Sequence[ex.Expr | ex.NamedArgument],
        function: PythonFunction,
        span: Span | None,
    ) -> tuple[tuple[ex.Expr, ...], Keywords]:
        """Arguments bound, and checked against a Python function's parameters."""
        return bind_arguments(self, args, function, span)

    def is_type(self, type: str) -> bool:
        """Whether DuckDB knows a type."""
        try:
            self.context.types((ex.Cast(ex.Literal(None), type),))
        except TypeProblem:
            return False
        return True

    def typed_arguments(
        self, args: tuple[ex.Expr, ...], keywords: tuple[tuple[str, ex.Expr], ...]
    ) -> tuple[tuple[ex.Expr, ...], tuple[tuple[str, ex.Expr], ...]]:
        """Arguments that are more than a column carry their type with a CAST to it."""
        types = self.types((*args, *(v for _, v in keywords)))
        typed = tuple(
            e if isinstance(e, ex.Column) or not t or t == '"NULL"' else ex.Cast(e, t, span=e.span)
            for e, t in zip((*args, *(v for _, v in keywords)), types, strict=True)
        )
        names = tuple(k for k, _ in keywords)
        return typed[: len(args)], tuple(zip(names, typed[len(args) :], strict=True))

    def as_declared(
        self,
        function: PythonFunction,
        args: tuple[ex.Expr, ...],
        keywords: tuple[tuple[str, ex.Expr], ...],
    ) -> tuple[tuple[ex.Expr, ...], tuple[tuple[str, ex.Expr], ...]]:
        """Arguments in the types that the parameters are annotated with.

        `1.5` is a DECIMAL in SQL, a `float` parameter gets a float. Raises `BindError` for what
        only loses or guesses could make fit: text for a number, a fraction for an `int`.
        """
        parameters = [p for p in function.parameters if not p.variadic]
        by_name = {p.name: p for p in parameters}
        positional = [
            self.converted(function, parameters[i], a) if i < len(parameters) else a
            for i, a in enumerate(args)
        ]
        named = [
            (k, self.converted(function, by_name[k], v) if k in by_name else v) for k, v in keywords
        ]
        return tuple(positional), tuple(named)

    def converted(
        self, function: PythonFunction, parameter: FunctionParameter, value: ex.Expr
    ) -> ex.Expr:
        """One argument in its parameter's type. Raises `BindError`."""
        if function.declared and parameter.type:
            return self.as_argument(function, parameter, value)
        type_, wanted = getattr(value, "type", ""), parameter.type
        have, want = kind_of(type_), kind_of(wanted)
        if not have or not want or type_ == wanted:
            return value
        if have == want or (want == "float" and have == "integer"):
            exact = have == "integer" and want == "integer"
            return value if exact else ex.Cast(value, wanted, span=value.span)
        raise BindError(
            f"{function.name} wants {wanted} for {parameter.name}, this is {type_}",
            code="T321",
            span=value.span,
            hint=f"CAST(.. AS {wanted})",
        )

    def as_argument(
        self, function: PythonFunction, parameter: FunctionParameter, value: ex.Expr
    ) -> ex.Expr:
        """One argument in the type that a statement declares. Raises `BindError`."""
        if isinstance(value, _NO_VALUE):
            return value
        have, written = getattr(value, "type", ""), value
        if isinstance(value, ex.Cast) and isinstance(value.operand, ex.Literal):
            written = value.operand  # text as it is written may mean a value of another type
        name = (function.name, parameter.name)
        return as_parameter(self.context, written, have, parameter.type, *name)

    def probed(
        self,
        function: PythonFunction,
        args: tuple[ex.Expr, ...],
        keywords: tuple[tuple[str, ex.Expr], ...],
        span: Span | None,
        way: ProbeWay = IN_EXPRESSION,
        condition: ex.Expr | None = None,
    ) -> PythonFunction:
        """The function with its type, seen on the first rows of the input that pass a condition."""
        args, keywords, shared = without_shared(args, keywords)
        exprs = args + tuple(value for _, value in keywords)
        types = self.types(exprs)
        if UNKNOWN in types:
            return replace(function, returns='"NULL"')
        names = Names()
        assigns = tuple(
            Assign(names.column(f"argument_{i}", t), e)
            for i, (e, t) in enumerate(zip(exprs, types, strict=True))
        )
        rows = self.scope.plan if condition is None else Filter(self.scope.plan, condition)
        plan = Project(rows, assigns)
        keys = tuple(key for key, _ in keywords)
        return self.context.at(
            span, lambda: self.context.probe(function, plan, (), keys, shared, way)
        )

    # ---- subqueries ------------------------------------------------------------------------------

    def subquery(self, subquery: ex.Subquery) -> ex.Expr:
        inner = self.context.bind_query(subquery.query, self.scopes)  # type: ignore[arg-type]
        inner = inlined(self.context, inner, subquery.span)
        plan, columns = inner.plan, tuple(v.column for v in inner.visible)
        if plan.columns != columns and columns:
            plan = Project(plan, tuple(Assign(c, c) for c in columns))
        if not columns and self.context.errors:
            raise self.context.errors[-1]  # which has left it without
        if subquery.kind in ("SCALAR", "IN") and len(columns) != 1:
            raise BindError(
                f"the subquery gives {len(columns)} columns where one is wanted",
                code="T304",
                span=subquery.span,
                hint="end it with |> SELECT of one column",
            )
        operand = self.bind(subquery.operand) if subquery.operand else None
        type_ = columns[0].type if subquery.kind == "SCALAR" else "BOOLEAN"
        return replace(subquery, query=plan, operand=operand, type=type_)

    # ---- types -----------------------------------------------------------------------------------

    def types(self, exprs: Sequence[ex.Expr]) -> tuple[str, ...]:
        """The types of bound expressions; UNKNOWN for those over columns that had errors.

        Each expression that DuckDB refuses is reported with the smallest part that it refuses.
        """
        asks = [not isinstance(e, ex.Column) and not self.touches_unknown(e) for e in exprs]
        asked = [e for e, ask in zip(exprs, asks, strict=True) if ask]
        try:
            found = list(self.asked(asked))
        except TypeProblem:
            found = [self.type_or_report(e) for e in asked]
        answers = iter(found)
        return tuple(
            next(answers) if ask else e.type if isinstance(e, ex.Column) else UNKNOWN
            for e, ask in zip(exprs, asks, strict=True)
        )

    def asked(self, exprs: Sequence[ex.Expr]) -> tuple[str, ...]:
        """The catalog's answer; `grouping(..)` has a type only where there are groups."""
        if self.grouped:
            exprs = [_without_grouping(e) for e in exprs]
        return self.context.types(exprs)

    def type_or_report(self, expr: ex.Expr) -> str:
        try:
            return self.asked((expr,))[0]
        except TypeProblem as problem:
            self.context.errors.append(self.located(expr, problem))
            return UNKNOWN

    def located(self, expr: ex.Expr, problem: TypeProblem) -> BindError:
        """The error at the smallest subexpression that fails by itself."""
        for part in reversed(list(walk(expr))):
            if not isinstance(part, ex.Expr) or not stands_alone(part):
                continue
            try:
                self.asked((part,))
            except TypeProblem as inner:
                if isinstance(part, ex.FieldAccess):
                    return self.no_field(part, expr.span)
                return type_error(inner, part.span or expr.span)
        return type_error(problem, expr.span)

    def no_field(self, access: ex.FieldAccess, span: Span | None) -> BindError:
        """The error of a field that a value does not have."""
        type_ = self.types((access.operand,))[0]
        fields = list(self.context.catalog.fields(type_).names)
        span = access.span or span
        if fields:
            return unknown("field", access.field_name, fields, span)
        return BindError(
            f'a {type_} has no field "{access.field_name}"',
            code="T303",
            span=span,
            hint="fields are those of a STRUCT; JSON is read with -> and ->>",
        )

    @staticmethod
    def touches_unknown(expr: ex.Expr) -> bool:
        return any(isinstance(n, ex.Column) and n.type == UNKNOWN for n in walk(expr))

    def boolean(self, expr: ex.Expr, what: str) -> ex.Expr:
        """A bound predicate; anything but BOOLEAN is an error, and so is `= NULL`."""
        self.no_null_comparison(expr)
        if compares_alike(expr):
            return expr
        type_ = self.types((expr,))[0]
        if type_ not in ("BOOLEAN", UNKNOWN, '"NULL"', "NULL"):
            hint = "compare it with something, or CAST it to BOOLEAN"
            if type_.endswith("INT") or type_ == "INTEGER":
                hint = f"write {expr.span.text if expr.span else '..'} <> 0"
            raise BindError(
                f"{what} needs a BOOLEAN, this is {type_}", code="T302", span=expr.span, hint=hint
            )
        return expr

    def no_null_comparison(self, predicate: ex.Expr) -> None:
        """Reports comparisons with a NULL that is written out: no row could pass them."""
        todo = [predicate]
        while todo:
            expr = todo.pop()
            match expr:
                case ex.Logical():
                    todo += reversed(expr.operands)
                case ex.Unary(op="NOT"):
                    todo.append(expr.operand)
                case ex.Binary(op="=" | "==" | "<>" | "!="):
                    sides = (expr.left, expr.right)
                    if any(_is_null(s) for s in sides):
                        other = next((s for s in sides if not _is_null(s)), expr.left)
                        self.context.errors.append(_null_comparison(expr, other))
                case _:
                    pass


def _is_null(expr: ex.Expr) -> bool:
    """Whether it is the word NULL; a parameter may have the value and mean it."""
    word = expr.span.text.upper() if expr.span else ""
    return isinstance(expr, ex.Literal) and expr.value is None and word == "NULL"


def _null_comparison(expr: ex.Binary, other: ex.Expr) -> BindError:
    equal = expr.op in ("=", "==")
    name = other.span.text if other.span else ".."
    return BindError(
        f"a comparison with NULL is never true, whatever {name} is",
        code="T322",
        span=expr.span,
        hint=f"write {name} IS {'' if equal else 'NOT '}NULL",
    )


def is_grouping(node: Node) -> bool:
    """Whether it is a bound `grouping(..)`."""
    return isinstance(node, ex.Call) and node.aggregate and node.name == ("grouping",)


def _without_grouping(expr: ex.Expr) -> ex.Expr:
    def visit(node: Node) -> Node:
        return ex.Cast(ex.Literal(0), "BIGINT") if is_grouping(node) else map_children(node, visit)

    return visit(expr)  # type: ignore[return-value]


_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})


def compares_alike(expr: ex.Expr) -> bool:
    """Whether it only compares columns of one type, as joins do: DuckDB need not be asked."""
    if isinstance(expr, ex.Logical):
        return all(compares_alike(e) for e in expr.operands)
    if not isinstance(expr, ex.Binary) or expr.op not in _COMPARISONS:
        return False
    a, b = expr.left, expr.right
    return isinstance(a, ex.Column) and isinstance(b, ex.Column) and a.type == b.type != UNKNOWN


def stands_alone(expr: ex.Expr) -> bool:
    """Whether a part of an expression means something by itself (a lambda does not)."""
    if isinstance(expr, ex.Lambda | ex.Variable | ex.NamedArgument):
        return False
    return not any(isinstance(n, ex.Variable) for n in walk(expr)) or isinstance(expr, ex.Call)


def bind_arguments(
    binder: ExpressionBinder,
    args: Sequence[ex.Expr | ex.NamedArgument],
    function: PythonFunction,
    span: Span | None,
    record: int = 0,
) -> tuple[tuple[ex.Expr, ...], tuple[tuple[str, ex.Expr], ...]]:
    """Positional and named arguments checked against a Python function's parameters.

    The first `record` parameters are taken by the record itself, or by what else the operator
    hands over, when there is no positional argument.
    """
    positional = tuple(
        binder.python_argument(a) for a in args if not isinstance(a, ex.NamedArgument)
    )
    named = [a for a in args if isinstance(a, ex.NamedArgument)]
    parameters = [p for p in function.parameters if not p.variadic]
    variadic = any(p.variadic for p in function.parameters)
    taken = len(positional) or record
    if taken > len(parameters) and not variadic:
        raise BindError(
            f"{function.name} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
            f"{taken} are given",
            code="T307",
            span=span,
            hint=f"parameters: {', '.join(p.name for p in parameters) or 'none'}",
        )
    names = [p.name for p in parameters]
    for argument in named:
        if argument.name not in names and not variadic:
            error = unknown("parameter", argument.name, names, argument.span or span, "N206")
            error.notes = (f"parameters of {function.name}: {', '.join(names) or 'none'}",)
            raise error
        if argument.name in names[:taken]:
            raise BindError(
                f'"{argument.name}" is given twice',
                code="N206",
                span=argument.span or span,
                hint="its place among the arguments gives it a value already",
            )
    given = {a.name for a in named} | set(names[:taken])
    missing = [p.name for p in parameters if p.required and p.name not in given]
    if missing:
        raise BindError(
            f"{function.name} needs {', '.join(missing)}",
            code="T307",
            span=span,
            hint=f"parameters: {', '.join(names)}",
        )
    if function.needs:
        raise BindError(
            f"{function.name} is a class, and is made with {', '.join(function.needs)}",
            code="P448",
            span=span,
            hint=f"CREATE TEMP FUNCTION .. LANGUAGE python OPTIONS (library = '..', entry_point = "
            f"'{function.qualname}', init = {{{function.needs[0]}: ..}})",
        )
    keywords = [(a.name, binder.python_argument(a.value)) for a in named]
    if function.declared:
        positional, keywords = with_defaults(function, positional, keywords, record)
    if function.context:
        values = binder.context.declarations.parameters.values()
        asks = function.asks
        objects = tuple(
            v for v in values if isinstance(v, ex.SharedObject) and (asks is None or v.name in asks)
        )
        keywords.append(("ctx", ex.TaskContext(objects)))
    return positional, tuple(keywords)


def with_defaults(
    function: PythonFunction,
    positional: tuple[ex.Expr, ...],
    keywords: list[tuple[str, ex.Expr]],
    record: int,
) -> tuple[tuple[ex.Expr, ...], list[tuple[str, ex.Expr]]]:
    """Arguments of a declared function with its defaults; by place where Python takes them so."""
    given = dict(keywords)
    places = [] if record and not positional else list(positional)
    by_place = not (record and not positional)
    named: list[tuple[str, ex.Expr]] = []
    for parameter in function.parameters[record if not by_place else len(positional) :]:
        value = given.pop(parameter.name, parameter.default)
        if value is None:
            continue
        if by_place and not parameter.keyword_only:
            places.append(value)
        else:
            named.append((parameter.name, value))
    return tuple(places), [*named, *given.items()]


Keywords = tuple[tuple[str, ex.Expr], ...]


def check_single_values(
    function: PythonFunction, args: Sequence[ex.Expr], keywords: Keywords
) -> None:
    """Raises `BindError` where a parameter that takes no list is given more than one value."""
    places = dict(enumerate(function.parameters))
    given = [(places.get(i), value) for i, value in enumerate(args)]
    given += [(next((p for p in places.values() if p.name == k), None), v) for k, v in keywords]
    for parameter, value in given:
        if parameter is None or parameter.form:
            continue
        if any(isinstance(n, ex.Column | ex.PythonCall | ex.Subquery) for n in walk(value)):
            raise BindError(
                f"{function.name} has a batch_size, and its {parameter.name} takes one value for "
                "all rows",
                code="P461",
                span=value.span,
                hint=f"annotate it as a list of them: {parameter.name}: list[..]",
            )


_NO_VALUE = (ex.SharedObject, ex.TaskContext)


def without_shared(
    args: tuple[ex.Expr, ...], keywords: Keywords
) -> tuple[tuple[ex.Expr, ...], Keywords, Shared]:
    """The arguments that come from rows, and shared objects by their place or name."""
    every: list[tuple[int | str, ex.Expr]] = [*enumerate(args), *keywords]
    shared = tuple((at, value) for at, value in every if isinstance(value, _NO_VALUE))
    return (
        tuple(value for value in args if not isinstance(value, _NO_VALUE)),
        tuple((k, value) for k, value in keywords if not isinstance(value, _NO_VALUE)),
        shared,
    )


def element_type(binder: ExpressionBinder, items: ex.Expr, span: Span | None) -> str:
    """The type of a list's elements; anything but a list is an error."""
    type_ = binder.types((items,))[0]
    if not type_:
        return type_
    if not type_.endswith("]"):
        raise BindError(
            f"UNNEST needs a list, this is {type_}",
            code="T303",
            span=span,
            hint="split text into a list first: string_split(text, ' ')",
        )
    return type_[: type_.rindex("[")]
