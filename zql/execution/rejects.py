"""Rows whose Python calls failed and that ON ERROR lets go: counted, limited, kept on request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from zql.errors import UdfError
from zql.execution.binding import CallError
from zql.execution.checksums import summed
from zql.execution.kept import KeptFile, KeptWriter
from zql.expr.expression import Column
from zql.expr.functions import ErrorPolicy
from zql.storage.files import shown
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

Places = Callable[[Sequence[int]], "list[tuple[str | None, int | None]]"]
"""Files, and rows in them (from 1), of rows of a task's input; in the order that is asked."""


class Failed(NamedTuple):
    """A call that failed, its row in the batch, and what it was handed, for people."""

    policy: ErrorPolicy
    row: int
    error: CallError
    given: str


class FailedGroup(NamedTuple):
    """A call for many rows that failed: all of them go. `place` says for people which they are.

    `kept` are those that INTO wants, in their order, beside their numbers in the task's input.
    """

    policy: ErrorPolicy
    error: CallError
    place: str
    rows: int
    kept: Iterable[tuple[pa.RecordBatch, pa.Array]] = ()


def is_failure(error: CallError) -> bool:
    """Whether ON ERROR is about it: a call that failed, and no rows that cannot be handed over."""
    return not error.fatal and error.code != "R712"


@node
class Rejected:
    """What one policy let go in a task, of `reached` rows; `first` tells the first failure.

    `file` has the rows themselves, when they are to be kept and there are any.
    """

    policy: int
    rows: int
    reached: int
    first: str = ""
    notes: tuple[str, ...] = ()
    file: KeptFile | None = None


class Rejections:
    """The failures of one task; `places` and `place` say where rows are, `folder` keeps them."""

    def __init__(self, places: Places, place: Callable[[int], str]) -> None:
        self.folder = ""
        self._places = places
        self._place = place
        self._found: dict[int, Rejected] = {}
        self._writers: dict[int, KeptWriter] = {}
        self._placed: set[int] = set()

    def reached(self, policies: Sequence[ErrorPolicy], rows: int) -> None:
        """Rows have come to the first call of these policies."""
        for policy in policies:
            found = self._of(policy.number)
            self._found[policy.number] = replace(found, reached=found.reached + rows)

    def take(self, failures: Sequence[Failed], batch: pa.RecordBatch, numbers: pa.Array) -> None:
        """Takes the failures of a batch, whose rows have these numbers in the task's input.

        Raises `UdfError` when there are more than their policy allows.
        """
        import pyarrow as pa

        by_policy: dict[ErrorPolicy, list[Failed]] = {}
        for failed in failures:
            by_policy.setdefault(failed.policy, []).append(failed)
        for policy, some in by_policy.items():
            first = "" if self._of(policy.number).rows else self._told(policy, some[0], numbers)
            self._count(policy, len(some), first, some[0].error)
            if policy.facts:
                rows = pa.array([failed.row for failed in some], pa.int64())
                errors = [failed.error for failed in some]
                self._keep(policy, errors, batch.take(rows), numbers.take(rows))

    def take_group(self, failed: FailedGroup) -> None:
        """Takes all rows of a call for many. Raises `UdfError` as `take` does."""
        policy, error = failed.policy, failed.error
        first = f"{error.function} on {failed.place} {error.message}"
        self._count(policy, failed.rows, first, error)
        if policy.facts:
            for batch, numbers in failed.kept:
                self._keep(policy, [error] * batch.num_rows, batch, numbers)

    def finished(self) -> tuple[Rejected, ...]:
        """What was let go, with the files of the rows."""
        return tuple(
            replace(found, file=summed(self._file(number))) if number in self._writers else found
            for number, found in self._found.items()
        )

    def _count(self, policy: ErrorPolicy, rows: int, first: str, error: CallError) -> None:
        """Counts failures; `first` tells the first of them all."""
        found = self._of(policy.number)
        if not found.rows:
            found = replace(found, first=first, notes=error.notes)
        found = replace(found, rows=found.rows + rows)
        self._found[policy.number] = found
        check_rows(policy, found.rows, found.first, found.notes)

    def _of(self, number: int) -> Rejected:
        return self._found.get(number) or Rejected(number, 0, 0)

    def _told(self, policy: ErrorPolicy, failed: Failed, numbers: pa.Array) -> str:
        """The first failure for a message; its place is looked up where a limit may tell it."""
        error = failed.error
        limited = policy.most_rows is not None or policy.most_percent is not None
        place = f" on {self._place(numbers[failed.row].as_py())}" if limited else ""
        return f"{error.function}{place} {error.message}, given {failed.given}"

    def _keep(
        self,
        policy: ErrorPolicy,
        errors: Sequence[CallError],
        batch: pa.RecordBatch,
        numbers: pa.Array,
    ) -> None:
        """Writes rows with their errors; the places are found at the end, all at once."""
        import pyarrow as pa

        record = batch.select([column.name for _, column in policy.record])
        error, operator, file, row = (column.name for column in policy.facts)
        messages = [e.message.removeprefix("raised ") for e in errors]
        operators = [f"{policy.operator} {e.function}" for e in errors]
        columns = {
            error: pa.array(messages, pa.string()),
            operator: pa.array(operators, pa.string()),
            file: pa.nulls(len(errors), pa.string()),
            row: numbers.cast(pa.int64()),
        }
        if policy.places:
            self._placed.add(policy.number)
            columns[file], columns[row] = _told(batch, policy.places)
        for name, column in columns.items():
            record = record.append_column(name, column)
        if policy.number not in self._writers:
            path = os.path.join(self.folder, f"rejects-{policy.number}-{os.urandom(6).hex()}.arrow")
            self._writers[policy.number] = KeptWriter(path, record.schema)
        self._writers[policy.number].write(record)

    def _file(self, number: int) -> KeptFile:
        """The rows with files and rows in place of the numbers."""
        import pyarrow as pa

        kept = self._writers.pop(number).close()
        if number in self._placed:
            return kept
        path = f"{kept.path}.placed"
        with pa.memory_map(kept.path) as source:
            rows = pa.ipc.open_file(source).read_all()
            file, row = rows.schema.names[-2:]
            files, numbers = zip(*self._places(rows.column(row).to_pylist()), strict=True)
            rows = rows.drop_columns([file, row])
            rows = rows.append_column(file, pa.array(files, pa.string()))
            rows = rows.append_column(row, pa.array(numbers, pa.int64()))
            writer = KeptWriter(path, rows.schema)
            for batch in rows.to_batches():
                writer.write(batch)
            done = writer.close()
        os.unlink(kept.path)
        return done


def _told(batch: pa.RecordBatch, places: Sequence[Column]) -> tuple[pa.Array, pa.Array]:
    """The files of rows, and their numbers there (from 1), as their own columns tell them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files, rows = (batch.column(column.name) for column in places)
    names = [None if name is None else shown(name) for name in files.to_pylist()]
    return pa.array(names, pa.string()), pc.add(rows.cast(pa.int64()), 1)


class RejectWatch:
    """Adds up what the tasks of a stage let go, in the order in which they end."""

    def __init__(self, policies: Sequence[ErrorPolicy]) -> None:
        self._policies: Mapping[int, ErrorPolicy] = {p.number: p for p in policies}
        self._rows: dict[int, int] = {}
        self._first: dict[int, Rejected] = {}

    def add(self, rejected: Sequence[Rejected]) -> None:
        """Takes the figures of a task. Raises `UdfError` when all together are too many."""
        for each in rejected:
            self._rows[each.policy] = self._rows.get(each.policy, 0) + each.rows
            if each.rows:
                first = self._first.setdefault(each.policy, each)
                rows = self._rows[each.policy]
                check_rows(self._policies[each.policy], rows, first.first, first.notes)

    def finished(self, rejected: Sequence[Sequence[Rejected]]) -> dict[int, tuple[KeptFile, ...]]:
        """By policy the files of rows, in the order of the tasks; limits in percent are checked.

        Raises `UdfError`.
        """
        files: dict[int, tuple[KeptFile, ...]] = {}
        for number, policy in self._policies.items():
            found = list(_of(number, rejected))
            check_percent(policy, found)
            files[number] = tuple(each.file for each in found if each.file is not None)
        return files


def _of(number: int, rejected: Sequence[Sequence[Rejected]]) -> Iterator[Rejected]:
    return (each for task in rejected for each in task if each.policy == number)


def check_rows(policy: ErrorPolicy, rows: int, first: str, notes: tuple[str, ...]) -> None:
    """Raises `UdfError` when more rows failed than the policy allows."""
    most = policy.most_rows
    if most is None or rows <= most:
        return
    what = "a row" if most == 0 else f"more than {most:,} row{'s' * (most != 1)}"
    raise UdfError(
        f"{what} failed in {policy.operator}, and its ON ERROR allows {most or 'none'}",
        code="R719",
        span=policy.span,
        notes=(f"one of them: {first}", *notes),
        hint=f"raise the limit (LIMIT {max(10, most * 10)}), or leave it out; {_see_all(policy)}",
    )


def check_percent(policy: ErrorPolicy, rejected: Sequence[Rejected]) -> None:
    """Raises `UdfError` when a greater share of the rows failed than the policy allows."""
    most = policy.most_percent
    rows, reached = sum(r.rows for r in rejected), sum(r.reached for r in rejected)
    if most is None or rows * 100 <= most * reached:
        return
    first = next(each for each in rejected if each.rows)
    share = f"{rows * 100 / reached:.3g} %"
    raise UdfError(
        f"{rows:,} of {reached:,} rows ({share}) failed in {policy.operator}, and its ON ERROR "
        f"allows {most:g} PERCENT",
        code="R719",
        span=policy.span,
        notes=(f"one of them: {first.first}", *first.notes),
        hint=f"raise the limit, or leave it out; {_see_all(policy)}",
    )


def _see_all(policy: ErrorPolicy) -> str:
    into = "INTO" if policy.facts else "INTO 'rejects.jsonl'"
    return f"without a limit, {into} shows all of them"
