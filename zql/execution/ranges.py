"""Ranges of keys that are sorted by, of about as many rows each, learned from a sample of the keys.

A key that many rows have gets a range of its own: its rows are in order as they come.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

Key = bytes | int
"""What DuckDB's `create_sort_key` makes of the keys of a row: it is compared as it is."""

Pieces = tuple["pa.RecordBatch", list[int]]
"""Rows by partition, and where each partition begins and the last one ends."""

_OF_A_RANGE = 64
"""So many keys of a sample are enough for a range: it then has up to a third more rows, or less."""
_LEAST_DISTANCE = 1 << 10
_VALUE_BYTES = 8
_MOST_KEYS = 1 << 16
_MOST_BYTES = 32 << 20
"""Of keys that are held; those of long texts are as long as the texts."""


@node
class Ranges:
    """Where ranges end: before all rows with a key, or behind them (True)."""

    ends: tuple[tuple[Key, bool], ...]

    @property
    def parts(self) -> int:
        """How many ranges there are."""
        return len(self.ends) + 1

    def is_of_one(self, number: int) -> bool:
        """Whether a range has the rows of one key."""
        if not 0 < number < self.parts - 1:
            return False
        (first, behind), (last, ends_behind) = self.ends[number - 1 : number + 1]
        return first == last and not behind and ends_behind

    def dealt(self, batches: list[pa.RecordBatch], ticket: str) -> Pieces:
        """The rows of batches in order of their keys, equal ones as they came, and their ranges."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.concat_batches(batches) if batches[1:] else batches[0]
        batches.clear()
        rows = rows.take(pc.array_sort_indices(rows.column(ticket)))
        keys, cuts = rows.column(ticket), [0]
        for key, behind in self.ends:
            find = bisect_right if behind else bisect_left
            cuts.append(find(keys, key, cuts[-1], key=_value))
        return rows, [*cuts, rows.num_rows]


class Sample:
    """Keys of rows at even distances, which grow with the number of rows."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._bytes = 0
        self._every = 1
        self._next = 0

    def add(self, keys: pa.Array) -> None:
        """The next rows."""
        while self._next < len(keys):
            at, self._next = self._next, self._next + self._every
            self._take(keys[at].as_py())
        self._next -= len(keys)

    def add_by_bytes(self, rows: pa.RecordBatch, ticket: str) -> None:
        """The next rows, of which the distances are in bytes: ranges have about as many each."""
        import pyarrow.compute as pc

        keys, ends = rows.column(ticket), pc.cumulative_sum(_widths(rows))
        if self._every == 1:
            self._every = _LEAST_DISTANCE
        while (at := bisect_right(ends, self._next, key=_number)) < len(keys):
            self._next += self._every
            self._take(keys[at].as_py())
        self._next -= ends[-1].as_py() if len(ends) else 0

    def _take(self, key: Key) -> None:
        self._keys.append(key)
        self._bytes += _size(key)
        if len(self._keys) == _MOST_KEYS or self._bytes > _MOST_BYTES:
            # The next one is at an even distance from the last that stays.
            self._next += self._every * (len(self._keys) % 2)
            self._keys, self._every = self._keys[::2], 2 * self._every
            self._bytes = sum(map(_size, self._keys))

    def from_first(
        self, batches: Iterator[pa.RecordBatch], ticket: str, parts: int, most: int
    ) -> Iterator[pa.RecordBatch]:
        """The batches; keys of the first, of `most` bytes, are added when there are too few."""
        first: list[pa.RecordBatch] = []
        if len(self._keys) < parts * _OF_A_RANGE:
            for batch in batches:
                self.add(batch.column(ticket))
                first.append(batch)
                most -= batch.nbytes
                if most <= 0:
                    break
        return chain(first, batches)

    def ranges(self, parts: int) -> Ranges:
        """Up to so many ranges. Where one would be of one key alone, it is."""
        return ranges_of(sorted(self._keys), parts)


def ranges_of(keys: Sequence[Key], parts: int) -> Ranges:
    """Ranges of about as many of the sorted `keys` each."""
    parts = min(parts, len(keys))
    wanted: Iterable[Key] = (keys[len(keys) * number // parts] for number in range(1, parts))
    ends: list[tuple[Key, bool]] = []
    for key, same in groupby(wanted):
        often = len(list(same)) > 1
        ends += [(key, False), (key, True)] if often else [(key, False)]
    return Ranges(tuple(ends))


def _widths(rows: pa.RecordBatch) -> pa.Array:
    """About how many bytes each row has: those of its texts, and some for every other value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    widths = pa.repeat(pa.scalar(_VALUE_BYTES * rows.num_columns, pa.int64()), rows.num_rows)
    is_ = pa.types
    for column in rows.columns:
        if is_.is_string(column.type) or is_.is_binary(column.type):
            widths = pc.add(widths, pc.fill_null(pc.binary_length(column), 0))
    return widths


def _number(scalar: pa.Scalar) -> int:
    number: int = scalar.as_py()
    return number


def _size(key: Key) -> int:
    return len(key) if isinstance(key, bytes) else 8


def _value(scalar: pa.Scalar) -> Key:
    key: Key = scalar.as_py()
    return key
