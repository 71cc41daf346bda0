"""EXPLAIN ANALYZE: what a run measured, beside the stages that it ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zql.explain.document import Document, sql_label
from zql.explain.labels import word
from zql.explain.text import branch, sink_line, stage_kind
from zql.physical.plan import PhysicalPlan, RunSql, Stage

if TYPE_CHECKING:
    from zql.execution.profile import OperatorCount
    from zql.execution.report import RunReport, StageReport, StepCount


def by_stage(plan: PhysicalPlan, report: RunReport) -> list[tuple[Stage, StageReport | None]]:
    """Each stage with its report; what a stage did in two goes is added up."""
    found: list[tuple[Stage, StageReport | None]] = []
    for stage in plan.stages:
        mine = [r for r in report.stages if r.id == stage.id]
        found.append((stage, _added(mine) if mine else None))
    return found


def rows_out(plan: PhysicalPlan, report: RunReport) -> int:
    """Rows of the outputs, those that a measured query throws away among them."""
    outputs = {stage.id for stage in plan.outputs}
    found = by_stage(plan, report)
    return sum(r.rows for stage, r in found if r is not None and stage.id in outputs)


def _added(reports: Sequence[StageReport]) -> StageReport:
    first = reports[0]
    return replace(
        first,
        rows=reports[-1].rows,
        seconds=sum(r.seconds for r in reports),
        bytes_read=sum(r.bytes_read for r in reports),
        bytes_written=sum(r.bytes_written for r in reports),
        bytes_spilled=sum(r.bytes_spilled for r in reports),
        retries=sum(r.retries for r in reports),
    )


# ---- JSON ---------------------------------------------------------------------------------------


def with_figures(document: Document, plan: PhysicalPlan, report: RunReport) -> Document:
    """The document of the stages with what was measured."""
    stages = []
    for shown, (_, measured) in zip(document["stages"], by_stage(plan, report), strict=True):
        stages.append({**shown, "figures": _figures(measured)} if measured else shown)
    return {
        **document,
        "level": "analyze",
        "stages": stages,
        "total": {
            "seconds": round(report.elapsed, 6),
            **report.counters,
            "records_out": rows_out(plan, report),
            "bytes_spilled": sum(r.bytes_spilled for r in report.stages),
        },
        "outputs": [{"path": f.path, "rows": f.rows, "bytes": f.bytes} for f in report.outputs],
    }


def _figures(report: StageReport) -> Document:
    return {
        "tasks": report.tasks,
        "retries": report.retries,
        "rows_in": report.records_in,
        "rows_out": report.rows,
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "bytes_spilled": report.bytes_spilled,
        "seconds": round(report.seconds, 6),
        "steps": [
            {
                "label": step.operator,
                "rows_in": step.rows_in,
                "rows_out": step.rows_out,
                "calls": step.calls,
                "seconds": round(step.seconds, 6),
            }
            for step in report.steps
        ],
        "operators": [_operator(operator) for operator in report.operators],
    }


def _operator(operator: OperatorCount) -> Document:
    return {
        "operator": operator.name,
        "detail": operator.detail,
        "rows_out": operator.rows,
        "rows_read": operator.rows_read,
        "bytes_read": operator.bytes_read,
        "seconds": round(operator.seconds, 6),
        "inputs": [_operator(below) for below in operator.inputs],
    }


# ---- text ---------------------------------------------------------------------------------------


def analyzed_text(plan: PhysicalPlan, report: RunReport) -> str:
    """Each stage with a table of its steps or operators, and the sums."""
    here = not plan.writes
    parts = []
    for stage, measured in by_stage(plan, report):
        lines = [f"Stage {stage.id}: {stage_kind(stage, here)}"]
        if measured is not None:
            table = _operator_rows(measured) or _step_rows(stage, measured.steps)
            lines += [f"  {line}" for line in _aligned(table)]
            lines.append(f"  {_stage_sums(measured)}")
        else:
            lines.append("  (not run: its outputs were there)")
        parts.append("\n".join([*lines, f"  {sink_line(stage)}"]))
    return "\n\n".join([*parts, _sums(plan, report)])


def _operator_rows(report: StageReport) -> list[tuple[str, ...]]:
    if not report.operators:
        return []
    rows: list[tuple[str, ...]] = [("operator", "rows in", "rows out", "read", "seconds")]
    for operator in report.operators:
        rows += [(line, *cells) for line, cells in _operator_lines(operator)]
    return rows


def _operator_lines(operator: OperatorCount) -> list[tuple[str, tuple[str, ...]]]:
    given = sum(below.rows for below in operator.inputs) or operator.rows_read
    cells = (
        f"{given:,}" if given else "",
        f"{operator.rows:,}",
        size(operator.bytes_read) if operator.bytes_read else "",
        seconds(operator.seconds),
    )
    detail = f" {_short(operator.detail)}" if operator.detail else ""
    lines: list[tuple[str, tuple[str, ...]]] = [(f"{operator.name}{detail}", cells)]
    for i, below in enumerate(operator.inputs):
        found = _operator_lines(below)
        texts = branch([text for text, _ in found], last=i == len(operator.inputs) - 1)
        lines += [(text, cell) for text, (_, cell) in zip(texts, found, strict=True)]
    return lines


def _step_rows(stage: Stage, steps: Sequence[StepCount]) -> list[tuple[str, ...]]:
    labels = [s.operator for s in steps]
    own = [sql_label(s) if isinstance(s, RunSql) else word(s.call) for s in stage.steps]
    if len(own) == len(labels):
        labels = own
    rows: list[tuple[str, ...]] = [("step", "rows in", "rows out", "calls", "seconds")]
    for name, step in zip(labels, steps, strict=True):
        calls = f"{step.calls:,}" if step.calls else ""
        cells = (f"{step.rows_in:,}", f"{step.rows_out:,}", calls, seconds(step.seconds))
        rows.append((_short(name), *cells))
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    lines = []
    for row in rows:
        cells = [row[i].ljust(widths[i]) if i == 0 else row[i].rjust(widths[i]) for i in used]
        lines.append("   ".join(cells).rstrip())
    return lines


def _stage_sums(report: StageReport) -> str:
    parts = [f"{report.tasks:,} task{'s' * (report.tasks != 1)}"] if report.kind == "tasks" else []
    if report.retries:
        parts.append(f"{report.retries:,} begun again")
    parts.append(f"read {size(report.bytes_read)}")
    if report.bytes_written:
        parts.append(f"wrote {size(report.bytes_written)}")
    parts.append(f"spilled {size(report.bytes_spilled)}")
    return f"{', '.join(parts)}; {seconds(report.seconds)} s"


def _sums(plan: PhysicalPlan, report: RunReport) -> str:
    counters = report.counters
    given, out = counters["records_in"], rows_out(plan, report)
    parts = [f"{n:,} row{'s' * (n != 1)} {what}" for n, what in ((given, "read"), (out, "out"))]
    if report.outputs:
        count = len(report.outputs)
        total = size(sum(f.bytes for f in report.outputs))
        parts.append(f"{count:,} file{'s' * (count != 1)} of {total}")
    if counters["python_calls"]:
        parts.append(f"{counters['python_calls']:,} Python calls")
    if counters["retries"]:
        parts.append(f"{counters['retries']:,} begun again")
    return f"Total: {', '.join(parts)}; {seconds(report.elapsed)} s"


_LONGEST = 60


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."


def seconds(value: float) -> str:
    """A time in seconds, rounded to what is worth reading."""
    if value < 0.0005:
        return "0.000"
    return f"{value:,.3f}" if value < 1 else f"{value:,.2f}"


def size(count: int) -> str:
    """Bytes in the largest unit of which there is one."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
