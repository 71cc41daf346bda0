"""Calls of Python functions: arguments in the types of the parameters, the type of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import FunctionParameter, PythonFunction
from zql.logical.bind_type import TypeBinder
from zql.logical.catalog import IN_EXPRESSION, ProbeWay
from zql.logical.context import UNKNOWN
from zql.logical.conversion import as_parameter, kind_of
from zql.logical.plan import Assign, Filter, Project
from zql.logical.python_arguments import (
    Keywords,
    bind_arguments,
    check_single_values,
    has_no_value,
    without_shared,
)
from zql.logical.scope import Names
from zql.source import Span
from zql.tree import walk


class PythonCallBinder(TypeBinder):
    """Binds calls of Python functions."""

    def python_call(self, call: ex.Call, function: PythonFunction) -> ex.Expr:
        self.context.check_python(call.span)
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

    def typed_arguments(
        self, args: tuple[ex.Expr, ...], keywords: Keywords
    ) -> tuple[tuple[ex.Expr, ...], Keywords]:
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
        keywords: Keywords,
    ) -> tuple[tuple[ex.Expr, ...], Keywords]:
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
        if has_no_value(value):
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
        keywords: Keywords,
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
