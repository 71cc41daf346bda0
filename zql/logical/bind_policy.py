"""ON ERROR: what becomes of rows for which a Python call of an operator fails."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import BindError, ZqlError
from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy
from zql.logical import plan as lp
from zql.logical.bind_operator import check_inputs, write
from zql.logical.bind_source import unique
from zql.logical.context import Context
from zql.logical.error_policies import FACTS, FACTS_OF_LINES, check_fail, new_policy
from zql.logical.file_places import stand_in_files, with_file_places
from zql.logical.scope import Scope, Visible
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

Policed = ast.Where | ast.Select | ast.Extend | ast.Set | ast.MapRows | ast.Reduce
"""Operators that take ON ERROR."""

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
        check_fail(clause)
        return None
    if clause.action == "NULL" and word in _SKIP_ONLY:
        raise BindError(
            f"{word} gives any number of rows: there is none to put NULL into",
            code="P416",
            span=clause.span,
            hint=f"write ON ERROR SKIP: {_LOST.get(word, 'a row')} that fails gives nothing",
        )
    policy = new_policy(context, clause, word)
    if word in _WHOLE_ROW:
        policy = replace(policy, action="SKIP")
    return policy if clause.into is None else _kept(context, scope, policy, clause.span)


def bring_places(context: Context, scope: Scope, policy: ErrorPolicy) -> tuple[Scope, ErrorPolicy]:
    """Where rejects are kept, rows that leave their file's order bring file and number along."""
    if not policy.facts or (policy.operator != "REDUCE" and stand_in_files(scope.plan)):
        return scope, policy
    plan, places = with_file_places(scope.plan, context.names)
    return replace(scope, plan=plan), replace(policy, places=places)


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
        add_rejects(context, after.plan, policy, clause)


def add_readings(context: Context) -> None:
    """Makes outputs of the rows that the readers of a statement keep. Raises `BindError`."""
    for scan, clause in context.readings:
        if scan.on_error is not None:
            add_rejects(context, scan, scan.on_error, clause)


def add_rejects(
    context: Context, plan: lp.LogicalPlan, policy: ErrorPolicy, clause: ast.OnError
) -> None:
    """Makes the rejects of a policy an output of the statement. Raises `BindError`."""
    rejects = _output(context, policy, clause)
    check_inputs(plan, rejects.uri, rejects.format, clause.span, rejects.folders)
    own = any(option.name.lower() == "mode" for option in clause.options)
    context.rejects.append((rejects, own))


def in_mode(context: Context, rejects: lp.Write, mode: str) -> lp.Write:
    """The rejects in the mode of another output. Raises when their name cannot have it."""
    try:
        context.catalog.write_target(rejects.uri, {"format": rejects.format, "mode": mode})
    except ZqlError as error:
        error.span = rejects.span
        error.hint = error.hint or (
            "INTO 'rejects/' keeps those of each run, OPTIONS (mode = 'overwrite') behind INTO "
            "those of the last"
        )
        raise
    return replace(rejects, mode=mode)


def _has(node: object, policy: ErrorPolicy) -> bool:
    return isinstance(node, ex.PythonCall | lp.MapRows | lp.Reduce) and node.on_error == policy


def _kept(context: Context, scope: Scope, policy: ErrorPolicy, span: Span | None) -> ErrorPolicy:
    """The policy with the columns that INTO writes: those of the operator's input, and the facts.

    A column of the input that is called like a fact (rejects of an earlier run) gives way to it.
    """
    unique(scope, "in the rejects of ON ERROR .. INTO", span)
    taken = {name for name, _ in FACTS}
    record = tuple((v.name, v.column) for v in scope.visible if v.name not in taken)
    facts = tuple(context.names.column(name, type_) for name, type_ in FACTS)
    return replace(policy, record=record, facts=facts)


def _output(context: Context, policy: ErrorPolicy, clause: ast.OnError) -> lp.Write:
    facts = FACTS_OF_LINES if policy.operator == "FROM" else FACTS
    names = (*(name for name, _ in policy.record), *(name for name, _ in facts))
    columns = zip(names, policy.columns, strict=True)
    rows = Scope(
        lp.Rejects(policy.number, policy.columns), tuple(Visible(n, c) for n, c in columns)
    )
    span = clause.span
    target = ast.Write(ex.Literal(clause.into, span=span), clause.options, span=span)
    try:
        return write(context, rows, target)
    except ZqlError as error:
        if error.code != _NO_FORMAT:
            raise
    jsonl = ast.Option("format", ex.Literal("jsonl"))
    return write(context, rows, ast.Write(target.uri, (*clause.options, jsonl), span=span))


_NO_FORMAT = "U633"
