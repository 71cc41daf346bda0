"""EXPLAIN as data: what JSON shows, and what Mermaid draws. docs/explain.md describes its shape.

`VERSION` grows when a field changes its meaning or goes; new fields may come at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zql.errors import masked
from zql.explain.labels import inputs, keys_text, label, word
from zql.explain.notes import Note
from zql.explain.text import is_sharded, outputs, passes_on, shown_columns, step_sql
from zql.expr.functions import ErrorPolicy, PythonFormat, PythonFunction
from zql.logical import plan as lp
from zql.optimizer.optimizer import Rewrite
from zql.physical.plan import (
    CallPython,
    Collect,
    Drop,
    Keep,
    PhysicalPlan,
    RunSql,
    Stage,
    StoreTable,
    WriteFiles,
)
from zql.tree import walk

VERSION = 1

Document = dict[str, Any]


def syntax_document(text: str) -> Document:
    """The canonical text."""
    return _document("syntax", text=text)


def logical_document(plan: lp.LogicalPlan) -> Document:
    """The bound plan as a tree, and the columns of each of the query's outputs."""
    shown = [
        [{"name": name, "type": type_} for name, type_ in shown_columns(output)]
        for output in outputs(plan)
    ]
    return _document("logical", plan=_node(plan), outputs=shown)


def trace_document(plan: lp.LogicalPlan, trace: Iterable[Rewrite]) -> Document:
    """The bound plan, and the plan behind each rule that changed it."""
    rewrites = [{"rule": rewrite.rule, "plan": _node(rewrite.plan)} for rewrite in trace]
    return _document("trace", plan=_node(plan), rewrites=rewrites)


def stages_document(plan: PhysicalPlan, notes: Sequence[Note]) -> Document:
    """The stages and the notes."""
    return _document(
        "stages",
        stages=[_stage(stage) for stage in plan.stages],
        notes=[{"kind": n.kind, "text": n.text, "line": n.line} for n in notes],
    )


def _document(level: str, **parts: Any) -> Document:
    document: Document = _without_secrets({"version": VERSION, "level": level, **parts})
    return document


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _without_secrets(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_secrets(part) for part in value]
    return value


def _node(plan: lp.LogicalPlan) -> Document:
    return {
        "operator": type(plan).__name__,
        "label": label(plan),
        "columns": [{"name": c.name, "type": c.type} for c in plan.columns],
        "inputs": [_node(below) for below in inputs(plan)],
    }


def _stage(stage: Stage) -> Document:
    source: Document | None = None
    if isinstance(stage.source, lp.Scan):
        source = {"files": stage.source.name}
    elif isinstance(stage.source, lp.StageResult):
        source = {"stage": stage.source.stage}
    native = stage.source is None
    return {
        "id": stage.id,
        "kind": "native" if native else "tasks",
        "source": source,
        "by_split": not native or (stage.row_local and is_sharded(stage)),
        "inputs": list(stage_inputs(stage)),
        "steps": [_step(step) for step in stage.steps],
        "sink": _sink(stage),
    }


def stage_inputs(stage: Stage) -> tuple[int, ...]:
    """Ids of the stages whose rows a stage reads."""
    source = stage.source
    own = (source.stage,) if isinstance(source, lp.StageResult) else ()
    read = (number for number in stage.inputs if number > 0)  # others are rejects
    return tuple(dict.fromkeys((*own, *read)))


def _step(step: RunSql | CallPython) -> Document:
    if isinstance(step, CallPython):
        return {"kind": "python", "label": word(step.call), "calls": _calls(step.call)}
    reads = [
        {
            "name": scan.name,
            "format": scan.format,
            "files": len(scan.files),
            "columns": [c.source for c in scan.columns_read if c.kind != "place"],
            **_policy(scan.on_error),
            **_code(scan.own),
        }
        for scan in walk(step.plan)
        if isinstance(scan, lp.Scan)
    ]
    sql = None if passes_on(step.plan) else step_sql(step)
    return {"kind": "sql", "label": sql_label(step), "reads": reads, "sql": sql}


def _code(own: PythonFormat | None) -> Document:
    """Whose code a format is, when it is not ZQL's."""
    return {} if own is None else {"code": own.code.name, "in_parts": own.cuts}


def sql_label(step: RunSql) -> str:
    """What a step of SQL does, in a few words."""
    names = [n.name for n in walk(step.plan) if isinstance(n, lp.Scan)]
    read = f"read {', '.join(dict.fromkeys(names))}" if names else ""
    if passes_on(step.plan):
        return read or "pass on"
    return f"{read}, SQL" if read else "SQL"


def _calls(call: lp.PythonOperator) -> list[Document]:
    if isinstance(call, lp.Reduce):
        return [
            {
                "operator": call.kind,
                **_function(call.function),
                "keys": [key.name for key in call.keys],
                "record": [name for name, _ in call.record],
                "columns": [
                    {"name": name, "type": column.type}
                    for name, column in zip(call.names, call.made, strict=True)
                ],
                **_policy(call.on_error),
            }
        ]
    if isinstance(call, lp.Fold):
        return [
            {
                "operator": call.kind,
                **_function(aggregate.function),
                "keys": [key.name for key in call.keys],
                "record": [],
                "columns": [{"name": aggregate.column.name, "type": aggregate.column.type}],
            }
            for aggregate in call.aggregates
        ]
    if isinstance(call, lp.MapRows):
        columns = zip(call.names, call.made, strict=True)
        return [
            {
                "operator": call.kind,
                **_function(call.function),
                "record": [name for name, _ in call.record],
                "columns": [{"name": name, "type": c.type} for name, c in columns],
                **_policy(call.on_error),
            }
        ]
    return [
        {
            "operator": "CALL",
            **_function(column.function),
            "record": [],
            "columns": [{"name": column.column.name, "type": column.column.type}],
            **_policy(column.on_error),
        }
        for column in call.calls
    ]


def _policy(policy: ErrorPolicy | None) -> Document:
    if policy is None:
        return {}
    limit = {"rows": policy.most_rows, "percent": policy.most_percent}
    kept = [name for name, _ in policy.record] if policy.facts else None
    return {"on_error": {"action": policy.action, "limit": limit, "rejects": kept}}


def _function(function: PythonFunction) -> Document:
    way = {
        "async": function.is_async or None,
        "concurrency": function.concurrency,
        "batch_size": function.batch_size,
        "timeout": function.timeout,
    }
    said = {name: value for name, value in way.items() if value is not None}
    return {"function": function.name, "volatile": function.volatile, **said}


def _sink(stage: Stage) -> Document:
    match stage.sink:
        case Keep(spread=spread):
            if spread is None:
                return {"kind": "keep"}
            told = {"kind": "exchange", "by": spread.ticket.name, "partitions": spread.parts}
            if spread.order:
                return {**told, "order": keys_text(spread.order)}
            if not spread.hash:
                return told
            return {**told, "hash": spread.hash, "keys": [key.name for key in spread.keys]}
        case Collect(names=names):
            return {"kind": "result", "columns": list(names)}
        case WriteFiles() as sink:
            return {
                "kind": "write",
                "uri": sink.uri,
                "format": sink.format,
                "mode": sink.mode,
                "options": {name: _plain(value) for name, value in sink.options},
                "columns": list(sink.names),
                **_code(sink.own),
            }
        case Drop(counter=counter):
            return {"kind": "drop", "counter": counter or None}
        case StoreTable() as table:
            return {"kind": "table", "table": table.table, "columns": list(table.names)}


def _plain(value: object) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)
