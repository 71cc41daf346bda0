"""ON ERROR: what becomes of rows for which a Python call of an operator fails."""

from __future__ import annotations

from zql.errors import BindError, ZqlError
from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy
from zql.logical import plan as lp
from zql.logical.bind_operator import check_inputs, write
from zql.logical.bind_source import unique
from zql.logical.context import Context
from zql.logical.scope import Scope, Visible
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

Policed = ast.Where | ast.Select | ast.Extend | ast.Set | ast.MapRows | ast.Reduce
"""Operators that take ON ERROR."""

FACTS = (
    ("_error", "VARCHAR"),
    ("_operator", "VARCHAR"),
    ("_file", "VARCHAR"),
    ("_row", "BIGINT"),
)
"""What a rejected row gets beside its own columns."""

_WHOLE_ROW = ("WHERE",)
_SKIP_ONLY = ("FLATMAP", "MAP BATCHES", "MAP SHARDS", "REDUCE")
_LOST = {"MAP SHARDS": "a shard", "REDUCE": "a group"}


def error_policy(context: Context, scope: Scope, op: ast.Operator) -> ErrorPolicy | None:
    """The policy that an operator asks for; None when failures end the run. Raises `BindError`."""
    clause = op.on_error if isinstance(op, Policed) else None
    if clause is None:
        return None
    word = op.kind if isinstance(op, ast.MapRows) else type(op).__name__.upper()
    if clause.action == "FAIL":
        if clause.into is not None or clause.limit:
            raise BindError(
                "ON ERROR FAIL stops at the first row: it takes neither INTO nor LIMIT",
                code="P416",
                span=clause.span,
                hint="write ON ERROR SKIP, which goes on with the other rows",
            )
        return None
    if clause.action == "NULL" and word in _SKIP_ONLY:
        raise BindError(
            f"{word} gives any number of rows: there is none to put NULL into",
            code="P416",
            span=clause.span,
            hint=f"write ON ERROR SKIP: {_LOST.get(word, 'a row')} that fails gives nothing",
        )
    context.policies += 1
    most_rows, most_percent = _limit(clause)
    policy = ErrorPolicy(
        context.policies,
        "SKIP" if word in _WHOLE_ROW else clause.action,
        word,
        most_rows,
        most_percent,
        span=clause.span,
    )
    return policy if clause.into is None else _kept(context, scope, policy, clause.span)


def check_policy(context: Context, after: Scope, op: ast.Operator, policy: ErrorPolicy) -> None:
    """Makes sure that a policy is for something; its rejects then are an output of the statement.

    Raises `BindError`.
    """
    clause = op.on_error if isinstance(op, Policed) else None
    if clause is None:
        return
    if not any(_has(node, policy) for node in walk(after.plan)):
        raise BindError(
            f"ON ERROR is about Python functions, and this {policy.operator} calls none",
            code="P417",
            span=clause.span,
            hint="SQL that may fail has TRY(..) and TRY_CAST, which give NULL instead",
        )
    if clause.into is not None:
        rejects = _output(context, policy, clause.into, clause.span)
        check_inputs(after.plan, rejects.uri, rejects.format, clause.span)
        context.rejects.append(rejects)


def _has(node: object, policy: ErrorPolicy) -> bool:
    return isinstance(node, ex.PythonCall | lp.MapRows | lp.Reduce) and node.on_error == policy


def _limit(clause: ast.OnError) -> tuple[int | None, float | None]:
    """How many rows may fail, or how many in a hundred."""
    if not clause.limit:
        return None, None
    number, _, percent = clause.limit.replace("_", "").partition(" ")
    if percent:
        share = float(number)
        if share > 100:
            raise BindError(
                f"{number} PERCENT is more than all rows",
                code="P416",
                span=clause.span,
                hint="a number from 0 to 100, or no LIMIT at all",
            )
        return None, share
    if not number.isdecimal():
        raise BindError(
            f"LIMIT takes a whole number of rows, not {number}",
            code="P416",
            span=clause.span,
            hint=f"LIMIT {number} PERCENT is a share of the rows",
        )
    return int(number), None


def _kept(context: Context, scope: Scope, policy: ErrorPolicy, span: Span | None) -> ErrorPolicy:
    """The policy with the columns that INTO writes: those of the operator's input, and the facts.

    A column of the input that is called like a fact (rejects of an earlier run) gives way to it.
    """
    unique(scope, "in the rejects of ON ERROR .. INTO", span)
    taken = {name for name, _ in FACTS}
    record = tuple((v.name, v.column) for v in scope.visible if v.name not in taken)
    facts = tuple(context.names.column(name, type_) for name, type_ in FACTS)
    return ErrorPolicy(
        policy.number,
        policy.action,
        policy.operator,
        policy.most_rows,
        policy.most_percent,
        record,
        facts,
        policy.span,
    )


def _output(context: Context, policy: ErrorPolicy, uri: str, span: Span | None) -> lp.Write:
    names = (*(name for name, _ in policy.record), *(name for name, _ in FACTS))
    columns = zip(names, policy.columns, strict=True)
    rows = Scope(
        lp.Rejects(policy.number, policy.columns), tuple(Visible(n, c) for n, c in columns)
    )
    target = ast.Write(ex.Literal(uri, span=span), span=span)
    try:
        return write(context, rows, target)
    except ZqlError as error:
        if error.code != _NO_FORMAT:
            raise
    jsonl = ast.Option("format", ex.Literal("jsonl"))
    return write(context, rows, ast.Write(target.uri, (jsonl,), span=span))


_NO_FORMAT = "U633"
