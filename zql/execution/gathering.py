"""Small output files put together with their neighbours, so that a filter leaves no crumbs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise

from zql.execution.kept import KeptFile
from zql.execution.own_formats import format_of
from zql.execution.sink import Target
from zql.execution.sizes import least_file, runs
from zql.execution.writing import FileOutput, join_files
from zql.expr.expression import Column
from zql.storage import compression as packing
from zql.storage.format import Split

Sources = tuple[Split, ...]
"""The parts of the input of which a file was made, where they are parts of files."""


def can_gather(target: Target) -> bool:
    """Whether files of a target can be joined, and none has a folder of its own."""
    return target.own is None and "{" not in target.pattern[: target.pattern.rfind("/") + 1]


def gathered(
    parts: Sequence[KeptFile],
    sources: Sequence[Sources],
    columns: Sequence[Column],
    output: FileOutput,
    file_size: int | None,
) -> list[tuple[KeptFile, Sources]]:
    """The files of a sharded output, in order, of parts that have been written.

    `sources` are those of the parts; each file has those of the parts that it was made of, and of
    the parts without rows behind them. Which parts are put together depends on their sizes alone. A
    file without rows stands only where there are no rows at all.
    """
    least = least_file([part.bytes for part in parts], file_size)
    if least is None:
        return list(zip(parts, sources, strict=True))
    places = [n for n, part in enumerate(parts) if part.rows] or [0]
    full = [parts[place] for place in places]
    groups = runs([part.bytes for part in full], least)
    begins = [0, *(places[start] for start, _ in groups[1:]), len(parts)]
    return [
        (file, tuple(chain.from_iterable(sources[begin:end])))
        for file, (begin, end) in zip(
            joined(full, groups, columns, output, stay=True), pairwise(begins), strict=True
        )
    ]


def joined(
    parts: Sequence[KeptFile],
    groups: Sequence[tuple[int, int]],
    columns: Sequence[Column],
    output: FileOutput,
    *,
    stay: bool = False,
) -> list[KeptFile]:
    """A file for each range of parts. Raises `StorageError`.

    The parts that were joined are gone afterwards, unless they `stay` for a run that is resumed.
    """
    found = []
    for start, stop in groups:
        several = stop - start > 1
        found.append(
            _joined(parts[start:stop], columns, output, start, stay) if several else parts[start]
        )
    return found


def _joined(
    parts: Sequence[KeptFile],
    columns: Sequence[Column],
    output: FileOutput,
    number: int,
    stay: bool,
) -> KeptFile:
    format_ = format_of(output.format, output.own)
    plain = list(parts)
    if format_.part_compression(output.compression) != output.compression:
        plain = [_unpacked(part, output.compression) for part in parts]
    file = join_files(plain, columns, output, output.path(number))
    done = {part.path for part in parts}
    for path in ({part.path for part in plain} | done) - (done if stay else set()):
        os.unlink(path)
    return file


def _unpacked(part: KeptFile, compression: str | None) -> KeptFile:
    """The part with its bytes as they were before they were packed."""
    path = f"{part.path}.plain"
    with open(part.path, "rb") as source, open(path, "wb") as target:
        shutil.copyfileobj(packing.reader(source, packing.by_name(compression or "none")), target)
    return replace(part, path=path, bytes=os.path.getsize(path))
