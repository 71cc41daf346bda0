"""Which words of the script a failure of DuckDB is about.

DuckDB tells an offset in the SQL that it was given, for casts at least: the SQL is written once
more, with a mark around each expression, and the innermost one around the offset is it. Other
failures tell what was done (an overflow in a multiplication): when one expression of the plan does
that, it is the one; when several do, all of them are handed on as `suspects`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from zql.execution.engine import EngineError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import has_window, is_volatile
from zql.physical.sql import render
from zql.source import Span
from zql.tree import Node, children, walk

_OPEN, _END, _CLOSE = "\ue0a0", "\ue0a1", "\ue0a2"
_MARKS = re.compile(f"{_OPEN}([0-9]+){_END}|{_CLOSE}")


@contextmanager
def placing(plan: Node, relations: Mapping[Node, str]) -> Iterator[None]:
    """Gives a failure of the plan's SELECT its place in the script, when it can be told."""
    try:
        yield
    except EngineError as error:
        place(error, plan, relations)
        raise


def place(error: EngineError, plan: Node, relations: Mapping[Node, str]) -> None:
    """Sets the error's span, or its suspects; `relations` are those that the SELECT was made of."""
    if error.span is not None or error.suspects:
        return
    error.cause = _at_offset(error, plan, relations)
    error.span = error.cause.span if error.cause is not None else None
    if error.span is None:
        found = _suspects(error, plan)
        if len(found) == 1:
            error.span = found[0]
        else:
            error.suspects = found


def _at_offset(error: EngineError, plan: Node, relations: Mapping[Node, str]) -> ex.Expr | None:
    if error.position is None:
        return None
    marked_exprs: list[ex.Expr] = []

    def mark(expr: ex.Expr, text: str) -> str:
        if expr.span is None:
            return text
        marked_exprs.append(expr)
        return f"{_OPEN}{len(marked_exprs) - 1}{_END}{text}{_CLOSE}"

    marked = render(plan, relations, mark)
    start = error.sql.find(_MARKS.sub("", marked))
    before = error.sql.encode()[: error.position].decode(errors="ignore")
    number = _innermost(marked, len(before) - start) if start >= 0 else None
    return None if number is None else marked_exprs[number]


def _innermost(marked: str, offset: int) -> int | None:
    """The mark that is open at an offset of the text without marks."""
    opened: list[int] = []
    at = done = 0
    for found in _MARKS.finditer(marked):
        at += found.start() - done
        done = found.end()
        # A mark that opens right at the offset is around it, one that closes there is not.
        if at > offset:
            break
        if found[1] is None:
            opened.pop()
        else:
            opened.append(int(found[1]))
    return opened[-1] if opened and at + len(marked) > offset >= 0 else None


def rows_that_fail(cause: ex.Expr, plan: lp.LogicalPlan) -> lp.LogicalPlan | None:
    """The rows of the input for which a cast fails; None when it cannot be told from outside.

    A cast that is not made for every row (in CASE, behind AND) may fail for rows that it never saw.
    """
    if not isinstance(cause, ex.Cast) or is_volatile(cause) or has_window(cause):
        return None
    for node in walk(plan):
        if not isinstance(node, lp.Project | lp.Filter | lp.Aggregate):
            continue
        if any(_always_made(cause, root) for root in _roots(node)):
            given = ex.Is(cause.operand, "NULL", negated=True)
            failed = ex.Is(ex.Try(cause), "NULL")
            return lp.Filter(node.input, ex.Logical("AND", (given, failed)))
    return None


def _roots(plan: lp.Project | lp.Filter | lp.Aggregate) -> list[ex.Expr]:
    match plan:
        case lp.Filter():
            return [plan.predicate]
        case lp.Project():
            return [a.expr for a in plan.assigns]
        case lp.Aggregate():
            return [a.expr for a in plan.keys + plan.aggregates]


_LAZY = frozenset({"coalesce", "ifnull", "if", "nullif", "try"})


def _always_made(cause: ex.Expr, node: Node) -> bool:
    """Whether an expression is a part of another that is computed for every row."""
    match node:
        case _ if node is cause:
            return True
        case ex.Logical():
            return _always_made(cause, node.operands[0])
        case ex.Case() | ex.Try() | ex.Lambda() | ex.Comprehension() | ex.Subquery():
            return False
        case ex.Call() if node.filter is not None or node.name[-1].lower() in _LAZY:
            return False
        case _:
            return any(_always_made(cause, child) for child in children(node))


def _calls(*names: str) -> Callable[[Node], bool]:
    return lambda n: isinstance(n, ex.Call) and n.name[-1].lower() in names


def _operators(*signs: str) -> Callable[[Node], bool]:
    return lambda n: isinstance(n, ex.Binary | ex.Unary) and n.op in signs


def _is_pattern(node: Node) -> bool:
    by_name = isinstance(node, ex.Call) and node.name[-1].lower().startswith("regexp")
    return by_name or (isinstance(node, ex.Like) and node.op in ("~", "SIMILAR TO"))


_DOERS: tuple[tuple[str, Callable[[Node], bool]], ...] = (
    (r"Overflow in HUGEINT|in sum", _calls("sum")),
    (r"in multiplication", _operators("*")),
    (r"in addition", _operators("+")),
    (r"in subtraction", _operators("-")),
    (r"in negation", _operators("-")),
    (r"More than one row returned", lambda n: isinstance(n, ex.Subquery) and n.kind == "SCALAR"),
    (r"according to format specifier", _calls("strptime")),
    (r"\A(missing|invalid|bad|no argument|unexpected|trailing|pattern)\b", _is_pattern),
    (r"extract specifier", lambda n: isinstance(n, ex.Extract) or _calls("date_trunc")(n)),
    (r"cast|convert|out of range for the destination", lambda n: isinstance(n, ex.Cast)),
)
"""What the message says was done, and the expressions that do that."""


def _suspects(error: EngineError, plan: Node) -> tuple[Span, ...]:
    """Places of the expressions that do what the error says, each place once."""
    nodes = [n for n in walk(plan) if isinstance(n, ex.Expr) and n.span is not None]
    for pattern, does in _DOERS:
        found = [n for n in nodes if does(n)]
        if found and re.search(pattern, error.message, re.IGNORECASE):
            most = max(_named_digits(error, n) for n in found)
            return _spans(n for n in found if _named_digits(error, n) == most)
    if error.kind == "Invalid Input":
        return _spans(n for n in nodes if _calls("error")(n)) or _spans(map(_called, nodes))
    return _spans(map(_called, nodes)) if error.kind in _OF_VALUES else ()


def _named_digits(error: EngineError, node: ex.Expr) -> int:
    """How much of the message are constants that the expression works with."""
    values = [n.text or str(n.value) for n in children(node) if isinstance(n, ex.Literal)]
    return sum(len(v) for v in values if re.search(rf"\b{re.escape(v)}\b", error.message))


_OF_VALUES = ("Conversion", "Out of Range", "Invalid Input", "Invalid Configuration")


def _called(node: ex.Expr) -> ex.Expr | None:
    """An expression that computes something by name or sign, and so might fail."""
    return node if isinstance(node, ex.Call | ex.Binary | ex.Cast) else None


def _spans(nodes: object) -> tuple[Span, ...]:
    places = (n.span for n in nodes if n is not None and n.span is not None)  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(places))
