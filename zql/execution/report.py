"""What a run did: its outputs, how much went through, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field
from typing import Any

from zql.execution.profile import OperatorCount
from zql.execution.tallies import Number, Tallies, added_up
from zql.storage.format import WrittenFile
from zql.tree import node, record


@record
class StepCount:
    """What went through a step; `seconds` are its own, `calls` those of Python functions.

    `rejected` are the rows that failed and that ON ERROR let go, or gave NULLs to.
    """

    operator: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    calls: int = 0
    rejected: int = 0


@node
class StageReport:
    """One stage. `kind` is `native` (one DuckDB) or `tasks`; figures of steps are sums.

    `bytes_read` are those of its input, `bytes_written` those of the file or of the rows that it
    left; a task that spills does so in its first statement. `retries` are tasks begun again, and
    `reused` those that an earlier run had finished: their figures are those of that run.
    `operators` are DuckDB's own, and are only there when the run was to be measured.
    """

    id: int
    kind: str
    tasks: int
    rows: int
    seconds: float
    records_in: int = 0
    steps: tuple[StepCount, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_spilled: int = 0
    retries: int = 0
    reused: int = 0
    operators: tuple[OperatorCount, ...] = ()


@node
class RunReport:
    """The result of a run; `elapsed` is in seconds.

    `counters`: `records_in` (rows that the readers of files handed over), `records_out` (rows of
    the result), `records_written` and `bytes_written` (rows and bytes of the outputs made by this
    run), `records_kept` (rows of outputs that were there already, with mode skip), `tasks`,
    `tasks_reused` (those among them that an earlier run had finished), `retries` (tasks begun again
    after a worker died), `python_calls`, and where a script has ON
    ERROR `rows_rejected` (`StepCount.rejected` has them by operator). Then there are those that
    functions keep by their `ctx`, of which `tallies` know how they add up with those of other runs.
    """

    outputs: tuple[WrittenFile, ...] = ()
    counters: dict[str, Number] = field(default_factory=dict)
    stages: tuple[StageReport, ...] = ()
    elapsed: float = 0.0
    warnings: tuple[str, ...] = ()
    tallies: Tallies = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "outputs": [{"path": f.path, "rows": f.rows, "bytes": f.bytes} for f in self.outputs],
            "counters": dict(self.counters),
            "stages": [asdict(stage) for stage in self.stages],
            "elapsed": self.elapsed,
            "warnings": list(self.warnings),
        }


def merged(reports: Sequence[RunReport]) -> RunReport:
    """Several runs as one: outputs and warnings in order, counters and times added up."""
    counters: dict[str, Number] = {}
    tallies = added_up(report.tallies for report in reports)
    for report in reports:
        for name, value in report.counters.items():
            known = name in tallies
            counters[name] = tallies[name].value if known else counters.get(name, 0) + value
    return RunReport(
        tuple(f for report in reports for f in report.outputs),
        counters,
        tuple(stage for report in reports for stage in report.stages),
        sum(report.elapsed for report in reports),
        tuple(w for report in reports for w in report.warnings),
        tallies,
    )


def summed(steps: Sequence[Sequence[StepCount]]) -> tuple[StepCount, ...]:
    """The same steps of several tasks added up."""
    total: list[StepCount] = []
    for counts in steps:
        for i, count in enumerate(counts):
            if i == len(total):
                total.append(StepCount(count.operator))
            total[i].rows_in += count.rows_in
            total[i].rows_out += count.rows_out
            total[i].seconds += count.seconds
            total[i].calls += count.calls
            total[i].rejected += count.rejected
    return tuple(total)
