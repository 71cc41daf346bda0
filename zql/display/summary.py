"""What a run did, for people: files written, warnings, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from zql.display.style import PLAIN, Style
from zql.display.text import count, duration, number, pad, safe_text, size, width

if TYPE_CHECKING:
    from zql.execution.report import RunReport

LISTED_FILES = 8
"""Files that are listed one by one; of more than these only the first and the last are."""


class Written(Protocol):
    """An output file: its path, rows and bytes."""

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def rows(self) -> int:
        """How many rows it holds."""

    @property
    def bytes(self) -> int:
        """Its size."""


def _aligned(files: Sequence[Written]) -> list[str]:
    cells = [(safe_text(f.path), count(f.rows, "row"), size(f.bytes)) for f in files]
    widths = [max(width(row[i]) for row in cells) for i in range(3)]
    return [
        f"  {pad(path, widths[0])}   {pad(rows, widths[1], '>')}   {pad(bytes, widths[2], '>')}"
        for path, rows, bytes in cells  # noqa: A001 - what they are
    ]


def written_lines(files: Sequence[Written], elapsed: float | None = None) -> list[str]:
    """`wrote …` with rows, bytes and time; the files in order below when they are several."""
    took = "" if elapsed is None else f" in {duration(elapsed)}"
    rows, total = sum(f.rows for f in files), sum(f.bytes for f in files)
    amount = f"{count(rows, 'row')}, {size(total)}{took}"
    if not files:
        return [f"wrote nothing{took}"]
    if len(files) == 1:
        return [f"wrote {safe_text(files[0].path)}: {amount}"]
    lines = [f"wrote {len(files):,} files in {safe_text(common_folder(files))}: {amount}"]
    if len(files) <= LISTED_FILES + 1:  # a line that stands for one says less than the one
        return lines + _aligned(files)
    half = LISTED_FILES // 2
    shown = _aligned([*files[: half + 1], *files[1 - half :]])
    more = f"  … {len(files) - LISTED_FILES:,} more files"
    return [*lines, *shown[: half + 1], more, *shown[half + 1 :]]


def common_folder(files: Sequence[Written]) -> str:
    """The folder that all the files are in, with its slash; `./` for the current one."""
    shared = files[0].path.split("/")[:-1]
    for file in files[1:]:
        parts = file.path.split("/")[:-1]
        same = [a == b for a, b in zip(shared, parts, strict=False)]
        shared = shared[: [*same, False].index(False)]
    return "/".join([*shared, ""]) or "./"


def summary_lines(result: RunReport) -> list[str]:
    """The files that a run wrote or kept, and rows that failed or that nothing took."""
    dropped = int(result.counters.get("rows_dropped", 0))
    lost = [f"dropped {count(dropped, 'row')} that no branch of SWITCH takes"] if dropped else []
    rejected = int(result.counters.get("rows_rejected", 0))
    them = "it" if rejected == 1 else "them"
    lost += [f"{count(rejected, 'row')} failed, and ON ERROR let {them} go"] if rejected else []
    if not result.outputs:
        return lost
    lines = written_lines(result.outputs, result.elapsed)
    kept, written = int(result.counters.get("records_kept", 0)), result.counters["records_written"]
    if kept:
        lines[0] = lines[0].replace("wrote", "kept" if not written else "wrote or kept", 1)
        lines.append(f"  {count(kept, 'row')} of them were there already")
    reused, tasks = int(result.counters.get("tasks_reused", 0)), result.counters.get("tasks", 0)
    if reused:
        word = "was" if reused == 1 else "were"
        lines.append(f"  {reused:,} of {tasks:,} tasks {word} done by an earlier run")
    return lines + lost


def warning_lines(warnings: Sequence[str], style: Style = PLAIN) -> Iterator[str]:
    """Warnings, one on each line."""
    for warning in warnings:
        yield f"{style.warning('warning:')} {safe_text(warning)}"


def stage_lines(result: RunReport) -> list[str]:
    """Where the time went: each stage with its steps, then the counters."""
    lines = []
    for stage in result.stages:
        how = count(stage.tasks, "task") if stage.kind == "tasks" else "one DuckDB statement"
        lines.append(
            f"stage {stage.id}: {how}, {count(stage.rows, 'row')} in {duration(stage.seconds)}"
        )
        for step in stage.steps:
            rows = f"{step.rows_in:,} -> {count(step.rows_out, 'row')}"
            calls = f", {count(step.calls, 'call')}" if step.calls else ""
            calls += f", {step.rejected:,} failed" if step.rejected else ""
            took = f", {duration(step.seconds)}" if step.seconds else ""
            lines.append(f"  {safe_text(step.operator, 100)}: {rows}{calls}{took}")
    shown = ", ".join(
        f"{safe_text(name)} {number(n)}"
        for name, n in result.counters.items()
        if n or name in result.tallies
    )
    return [*lines, f"counters: {shown}"] if shown else lines
