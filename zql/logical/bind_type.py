"""Types of bound expressions: DuckDB is asked, and what it refuses is found and told."""

from __future__ import annotations

from collections.abc import Sequence

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical.bind_name import NameBinder
from zql.logical.catalog import TypeProblem
from zql.logical.context import UNKNOWN, type_error, unknown
from zql.source import Span
from zql.tree import Node, map_children, walk


class TypeBinder(NameBinder):
    """Finds the types of expressions."""

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

    def is_type(self, type: str) -> bool:
        """Whether DuckDB knows a type."""
        try:
            self.context.types((ex.Cast(ex.Literal(None), type),))
        except TypeProblem:
            return False
        return True

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


def element_type(binder: TypeBinder, items: ex.Expr, span: Span | None) -> str:
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
