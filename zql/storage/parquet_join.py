"""Joins Parquet files of one schema by copying their row groups, without reading a value.

Only the footers are taken apart: every place in the file moves by the number of bytes before it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

from zql.errors import InternalError
from zql.storage import thrift

_MAGIC = b"PAR1"
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4  # of FileMetaData
_COLUMNS, _GROUP_ROWS, _GROUP_START, _ORDINAL = 1, 3, 5, 7  # of RowGroup
_CHUNK_START, _CHUNK_META, _OFFSET_INDEX, _COLUMN_INDEX = 2, 3, 4, 6  # of ColumnChunk
_PAGE_PLACES = (9, 10, 11, 14)  # of ColumnMetaData: data, index, dictionary page, bloom filter
_COPY = 1 << 20
_PAGE_INDEXES = ((_COLUMN_INDEX, 7), (_OFFSET_INDEX, 5))  # the place and the length beside it


def read_footer(file: BinaryIO) -> tuple[thrift.Struct, int]:
    """The footer of a file and where it begins."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length + 12 > size:
        raise InternalError("no Parquet file to join")
    file.seek(size - 8 - length)
    return thrift.Reader(file.read(length)).struct(), size - 8 - length


class Joiner:
    """Writes one file from the row groups of others; `finish` writes the footer."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._out.write(_MAGIC)
        self._footer: thrift.Struct | None = None

    def append(self, source: BinaryIO) -> None:
        """Adds the row groups of a file; those without rows are left out."""
        footer, stop = read_footer(source)
        if self._footer is None:
            nothing = thrift.ThriftList(thrift.STRUCT, [])
            self._footer = footer | {_GROUPS: (thrift.LIST, nothing), _ROWS: (thrift.I64, 0)}
        elif self._footer[_SCHEMA] != footer[_SCHEMA]:
            raise InternalError("Parquet files of different schemas cannot be joined")
        shift = self._out.tell() - len(_MAGIC)
        groups = [g for g in footer[_GROUPS][1] if g[_GROUP_ROWS][1]]
        if groups:
            _copy(source, self._out, len(_MAGIC), stop)
            _append(self._footer, groups, shift)

    def finish(self) -> None:
        """Writes the footer; at least one file must have been appended."""
        if self._footer is None:
            raise InternalError("no Parquet file to join")
        _write_footer(self._out, self._footer)


def concatenate(parts: Sequence[str], target: str) -> None:
    """Writes one file with the row groups of all parts in order, synced to disk."""
    with open(target, "wb") as out:
        joiner = Joiner(out)
        for part in parts:
            with open(part, "rb") as source:
                joiner.append(source)
        joiner.finish()
        out.flush()
        os.fsync(out.fileno())


def _append(joined: thrift.Struct, groups: list[thrift.Struct], shift: int) -> None:
    for group in groups:
        _move(group, shift)
        if _ORDINAL in group:
            group[_ORDINAL] = (thrift.I16, len(joined[_GROUPS][1]))
        joined[_GROUPS][1].append(group)
        joined[_ROWS] = (thrift.I64, joined[_ROWS][1] + group[_GROUP_ROWS][1])


def _write_footer(out: BinaryIO, footer: thrift.Struct) -> None:
    writer = thrift.Writer()
    writer.struct({number: footer[number] for number in sorted(footer)})
    out.write(writer.data + len(writer.data).to_bytes(4, "little") + _MAGIC)


def _move(group: thrift.Struct, shift: int) -> None:
    _shift(group, _GROUP_START, shift)
    for chunk in group[_COLUMNS][1]:
        _shift(chunk, _CHUNK_START, shift)
        for place, _ in _PAGE_INDEXES:
            _shift(chunk, place, shift)
        for place in _PAGE_PLACES:
            _shift(chunk[_CHUNK_META][1], place, shift)


def _shift(fields: thrift.Struct, number: int, shift: int) -> None:
    # Zero means that there is none: the file begins with four bytes of magic.
    if number in fields and fields[number][1]:
        kind, place = fields[number]
        fields[number] = (kind, place + shift)


def _copy(source: BinaryIO, out: BinaryIO, start: int, stop: int) -> None:
    source.seek(start)
    left = stop - start
    room = memoryview(bytearray(min(left, _COPY)))  # one for all: new memory costs more than a copy
    while left:
        count = source.readinto(room[: min(left, _COPY)])  # type: ignore[attr-defined]
        out.write(room[:count])
        left -= count
