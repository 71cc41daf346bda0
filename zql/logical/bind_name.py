"""Names in expressions: what a column, a parameter, an alias or a field is, or why it is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from zql.errors import BindError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.logical.context import Argument, Context, Given, Open, unknown
from zql.logical.scope import Scope, Visible, matching
from zql.source import Span
from zql.syntax.printer import expression_name
from zql.tree import record, walk

_SESSION_CONSTANTS = {
    "current_date": "today",
    "current_time": "get_current_time",
    "current_timestamp": "now",
    "localtime": "current_localtime",
    "localtimestamp": "current_localtimestamp",
}
"""SQL's functions without parentheses, and the names that DuckDB has for them."""


@record
class NameBinder:
    """Binds names over the scopes in reach, the innermost first.

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
        """The bound expression. Raises `BindError`."""
        raise NotImplementedError

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
                row_by_row = self.row_by_row
                binder = type(self)(self.context, over, depth=self.depth, row_by_row=row_by_row)
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
