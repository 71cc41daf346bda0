"""`WRITE .. OPTIONS (partition_by = ..)`: a folder of files for each value of some columns.

All rows are kept, then dealt to their folders in one pass; the files are written folder by folder,
so that no more of them are open at a time than there are threads.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING

from zql.execution.dealt_folders import Dealt, DealtPartition, PartitionColumns, folders_of
from zql.execution.kept import KeptFile
from zql.execution.sizes import cuts, files_of_share
from zql.execution.stages import columns_of, kept_stage, reading
from zql.execution.write_files import OutputFiles, Waiting, waiting
from zql.expr import expression as ex
from zql.logical.plan import Assign, Project, StageResult
from zql.physical.plan import RunSql, Stage
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.native import NativeStage


@node
class _File:
    """A file to be: rows of a partition, in pieces that are put together as they fit."""

    folders: str
    number: int
    partition: DealtPartition | None
    bounds: tuple[int, ...] = (0, 0)


@node
class _Totals:
    """All rows, the bytes of what they were made of, and those that they have while they are kept.

    They are the same wherever the rows are dealt, which the bytes of dealt batches are not.
    """

    rows: int
    read: int
    kept: int


def write(outputs: OutputFiles, stage: Stage) -> Waiting:
    """All rows of a stage in the folders of their values.

    Raises `RunError` for more folders than `max_partitions`, or a value that cannot name one.
    """
    kept = outputs.publisher.kept_all()
    if kept:
        return waiting([], kept)
    read = outputs.input_bytes(stage)
    rows = outputs.run.keep(kept_stage(stage))
    totals = _Totals(sum(f.rows for f in rows), read, sum(f.bytes for f in rows))
    began = time.perf_counter()
    most = outputs.run.host.settings.max_partitions
    path = os.path.join(outputs.run.folder(f"dealt-{stage.id}"), "rows.arrow")
    dealing, columns = _with_texts(outputs, stage)
    with outputs.run.native(dealing) as native:
        dealt = native.deal(path, columns, most)
        planned = list(_planned(outputs, dealt, columns, totals))
        named = _written(outputs, dealt, planned, native, stage)
        written = sum(file.bytes for _, file in named)
        outputs.run.report(stage, len(named), dealt.rows, began, native, written)
    os.unlink(path)
    stay = outputs.publisher.kept_of({path for path, _ in named})
    new = [(path, file) for path, file in named if path not in stay]
    return waiting(new, list(stay.values()))


def _with_texts(outputs: OutputFiles, stage: Stage) -> tuple[Stage, PartitionColumns]:
    """The kept rows of a stage with the texts that name their folders."""
    rows = StageResult(stage.id, columns_of(stage))
    named = dict(outputs.named_columns(rows.columns))
    names = outputs.target.partition_by
    taken = {column.name.casefold() for column in rows.columns}
    free = (name for n in count() if (name := f"folder {n}") not in taken)
    texts = tuple(ex.Column(name, "VARCHAR") for name in islice(free, len(names)))
    made = tuple(
        Assign(text, ex.Cast(named[name], "VARCHAR"))
        for text, name in zip(texts, names, strict=True)
    )
    plan = Project(rows, (*(Assign(c, c) for c in rows.columns), *made))
    shard = outputs.sink.shard
    columns = PartitionColumns(
        names, tuple(text.name for text in texts), None if shard is None else shard.name
    )
    return replace(reading(stage), steps=(RunSql(plan),)), columns


def _planned(
    outputs: OutputFiles, dealt: Dealt, columns: PartitionColumns, totals: _Totals
) -> Iterator[_File]:
    """The files to be, folder by folder.

    A result without rows is a file without rows, where a reader finds its columns.
    """
    if not dealt.partitions:
        yield _File(folders_of(columns.names, [None] * len(columns.names)), 0, None)
    for each in dealt.partitions:
        if each.shard is not None:
            yield _File(each.folders, each.shard, each, (0, each.rows))
            continue
        for number, bounds in enumerate(_bounds(outputs, each.rows, totals)):
            yield _File(each.folders, number, each, tuple(bounds))


def _bounds(outputs: OutputFiles, rows: int, totals: _Totals) -> list[list[int]]:
    """Where the rows of a partition are cut into files, and these into pieces."""
    target = outputs.target
    if target.max_rows or target.file_size:
        size = totals.kept * rows // totals.rows
        return cuts(rows, size, target.max_rows, target.file_size)
    split_size = outputs.run.host.settings.split_size
    files = min(target.shards, rows) if target.shards else 0
    files = files or files_of_share(totals.read or totals.kept, rows, totals.rows, split_size)
    return [[rows * n // files, rows * (n + 1) // files] for n in range(files)]


def _written(
    outputs: OutputFiles, dealt: Dealt, planned: Sequence[_File], native: NativeStage, stage: Stage
) -> list[tuple[str, KeptFile]]:
    """The files with the names that they will get."""
    forms = [outputs.output(_path(outputs, file, file.number)) for file in planned]
    pieces = [
        (file, form, *ends)
        for file, form in zip(planned, forms, strict=True)
        for ends in pairwise(file.bounds)
    ]
    columns = [column for _, column in outputs.written(columns_of(stage))]

    def rows(number: int) -> pa.Table | None:
        file, _, start, stop = pieces[number]
        return None if file.partition is None else dealt.table(file.partition, start, stop)

    parts = iter(native.write_tables([form for _, form, *_ in pieces], rows, columns))
    found: list[tuple[str, KeptFile]] = []
    numbers: Counter[str] = Counter()
    for file, form in zip(planned, forms, strict=True):
        mine = [next(parts) for _ in pairwise(file.bounds)]
        for one in outputs.put_together(mine, columns, form):
            asked = file.partition is not None and file.partition.shard is not None
            number = file.number if asked else numbers[file.folders]
            numbers[file.folders] += 1
            found.append((_path(outputs, file, number), one))
    return found


def _path(outputs: OutputFiles, file: _File, number: int) -> str:
    return outputs.target.path(outputs.publisher.first_shard + number, 0, file.folders)
