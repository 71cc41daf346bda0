"""REDUCE and COMBINE: a call for each group of rows that stand together, rows handed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zql.execution import kinds
from zql.execution.binding import (
    Argument,
    AsText,
    Bound,
    CallError,
    Catch,
    Constants,
    bind,
    failed,
)
from zql.execution.held import Attempt
from zql.execution.kept import rechunked
from zql.execution.misfit import show
from zql.execution.records import (
    Given,
    as_batch,
    gathered,
    items_of,
    record_columns,
    with_constants,
)
from zql.execution.shard_calls import Rows
from zql.execution.udf import ORDINAL, is_record
from zql.logical.plan import Reduce
from zql.physical.exchange import STARTS

if TYPE_CHECKING:
    import pyarrow as pa


class _Group(NamedTuple):
    """A group by its key, and where its first row is; COMBINE finds the columns of keys there."""

    key: Any
    batch: pa.RecordBatch | None
    row: int


class _Segment(NamedTuple):
    """Rows of one group within a batch: `group` when it begins here; `ends` when it ends here."""

    rows: list[Any]
    group: _Group | None
    ends: bool
    batch: pa.RecordBatch | None = None


class GroupCaller:
    """Makes the calls of one `Reduce` over the rows of a task, in which groups stand together."""

    def __init__(
        self,
        call: Reduce,
        constants: Constants,
        as_text: AsText,
        *,
        catch: Catch = BaseException,
        most_rows: int = 8192,
        attempt: Attempt | None = None,
    ) -> None:
        """Loads the function; raises `CallError`. `most_rows` bounds the batches that come out.

        With `attempt` a group whose call fails is let go.
        """
        self.calls = 0
        self.seconds_waited = 0.0
        self._attempt = attempt
        self._call = call
        self._as_text = as_text
        self._catch = catch
        self._most_rows = most_rows
        self._function = with_constants(call.function, call.keywords, constants, catch)
        self._bound = bind(replace(call, keywords=()), constants, catch)
        keys = (Argument(k.name, None, kinds.parse(k.type), False) for k in call.keys)
        self._keys = Bound(call.function, self._function, tuple(keys), ())
        self._segments: Iterator[_Segment] = iter(())
        self._ahead: _Segment | None = None
        self._recent: dict[int, _Group] = {}
        self._numbered = False

    def run(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches that come of all groups. Raises `CallError`, and what `stream` raises."""
        call = self._call
        self._segments = self._cut(stream)
        if self._attempt is not None:
            yield from rechunked(self._attempts(self._attempt), self._most_rows)
            return
        for piece in gathered(call, self._given(), self._most_rows):
            columns = record_columns(call, piece)
            if call.kind == "COMBINE":
                columns = [*self._key_columns(piece), *columns]
            numbers = [0] * len(piece) if self._numbered else None
            yield as_batch(columns, [c.name for c in call.columns], numbers)
            for number in list(self._recent)[:-1]:
                del self._recent[number]

    def place(self, error: CallError) -> str:
        """Which group a failed call was about."""
        group = self._recent.get(error.row)
        if group is None or not self._call.keys:
            return "some of the rows" if self._call.kind == "COMBINE" else "all the rows"
        return self._place_of(group)

    def _place_of(self, group: _Group) -> str:
        return f"the group {show(group.key)}" if self._call.keys else "all the rows"

    def _begun(self) -> Iterator[tuple[_Segment, _Group]]:
        """The groups, each by the segment with which it begins; that must be read to its end."""
        self._ahead = next(self._segments, None)
        if self._ahead is None and not self._call.keys and self._call.kind == "REDUCE":
            self._ahead = _Segment([], _Group(None, None, 0), ends=True)
        while self._ahead is not None:
            segment, self._ahead = self._ahead, None
            if segment.group is None:
                raise AssertionError("rows before the first group")
            self.calls += 1
            yield segment, segment.group

    def _attempts(self, attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """The batches of one group after the other, without those of calls that fail."""
        for segment, group in self._begun():
            blocks = self._blocks(segment)
            rows = Rows(blocks)
            given = self._batches_of(group, rows)
            try:
                yield from attempt.results(given, blocks, partial(self._place_of, group))
            except CallError as error:
                self._recent[error.row] = group
                raise
            finally:
                self.seconds_waited += rows.seconds

    def _batches_of(self, group: _Group, rows: Rows) -> Iterator[pa.RecordBatch]:
        """The batches of one group."""
        names = [c.name for c in self._call.columns]
        given = (Given(item, 0) for item in self._items(group.key, rows))
        try:
            for piece in gathered(self._call, given, self._most_rows):
                numbers = [0] * len(piece) if self._numbered else None
                yield as_batch(record_columns(self._call, piece), names, numbers)
        except CallError:
            if rows.error is not None:
                raise rows.error from None
            raise
        if rows.error is not None:
            raise rows.error

    def _given(self) -> Iterator[Given]:
        """The records of all groups, with the groups' numbers."""
        for segment, group in self._begun():
            number = self.calls - 1
            self._recent[number] = group
            blocks = self._blocks(segment)
            rows = Rows(blocks)
            try:
                silent = True
                for item in self._items(group.key, rows):
                    silent = False
                    yield Given(item, number)
                for _ in blocks:  # what the function left
                    pass
            except CallError as error:
                if rows.error is not None:
                    raise rows.error from None
                error.row = number
                raise
            finally:
                self.seconds_waited += rows.seconds
            if rows.error is not None:
                raise rows.error
            if silent:
                del self._recent[number]

    def _items(self, key: Any, rows: Rows) -> Iterator[Any]:
        """What the function gives for one group, one by one."""
        function = self._call.function
        try:
            found = self._function(key, iter(rows))
        except self._catch as error:
            raise failed(function, 0, error) from None
        if is_record(found):
            yield found
        else:
            yield from items_of(function, found, self._call.kind, self._catch)

    def _blocks(self, segment: _Segment | None) -> Iterator[list[Any]]:
        """The rows of the group that begins with a segment; then the next one is ahead."""
        while segment is not None:
            if self._attempt is not None and segment.batch is not None:
                self._attempt.take(segment.batch)
            yield segment.rows
            ends = segment.ends
            segment = next(self._segments, None)
            if ends or segment is None or segment.group is not None:
                self._ahead = segment
                return

    def _cut(self, stream: Iterator[pa.RecordBatch]) -> Iterator[_Segment]:
        """The rows cut where groups begin."""
        alone = len(self._call.args) <= 1
        first = True
        for batch in stream:
            if not batch.num_rows:
                continue
            self._numbered = ORDINAL in batch.schema.names
            handed = self._bound.argument_rows(batch, self._as_text)
            rows = [row[0] for row in handed] if alone else list(handed)
            groups = self._groups(batch, first)
            first = False
            edges = [*(group.row for group in groups), len(rows)]
            if edges[0]:
                own = self._kept(batch, 0, edges[0])
                yield _Segment(rows[: edges[0]], None, bool(groups), own)
            for group, stop in zip(groups, edges[1:], strict=True):
                own = self._kept(batch, group.row, stop)
                yield _Segment(rows[group.row : stop], group, stop < len(rows), own)

    def _kept(self, batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch | None:
        """The rows of a segment, when they may be let go."""
        return batch.slice(start, stop - start) if self._attempt is not None else None

    def _groups(self, batch: pa.RecordBatch, first: bool) -> list[_Group]:
        """The groups that begin in a batch; with its first row when it is the `first`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._call.keys:
            return [_Group(None, None, 0)] if first else []
        starts = pc.indices_nonzero(batch.column(STARTS)).to_pylist()
        if first and starts[:1] != [0]:
            starts.insert(0, 0)
        if not starts:
            return []
        begun = batch.select([k.name for k in self._call.keys]).take(pa.array(starts, pa.int64()))
        keys = self._keys.argument_rows(begun, self._as_text)
        single = len(self._call.keys) == 1
        values = [key[0] for key in keys] if single else list(keys)
        home = batch if self._call.kind == "COMBINE" else None
        return [_Group(key, home, row) for key, row in zip(values, starts, strict=True)]

    def _key_columns(self, piece: list[Given]) -> list[pa.Array]:
        """The keys of the groups that gave the records, as they came."""
        import pyarrow as pa

        numbers = list(dict.fromkeys(giver for _, giver in piece))
        places = {number: place for place, number in enumerate(numbers)}
        taken = pa.array([places[giver] for _, giver in piece], pa.int64())
        columns = []
        for key in self._call.keys:
            firsts = [self._first(number).column(key.name) for number in numbers]
            columns.append(pa.concat_arrays(firsts).take(taken))
        return columns

    def _first(self, number: int) -> pa.RecordBatch:
        group = self._recent[number]
        if group.batch is None:
            raise AssertionError("a group without a row")
        return group.batch.slice(group.row, 1)
