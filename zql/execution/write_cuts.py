"""The ways to write for which all rows are kept first, and then cut into files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from zql.execution.kept import KeptFile
from zql.execution.native import exchanged
from zql.execution.sizes import cuts, files_of_share
from zql.execution.stages import columns_of, kept_stage, reading
from zql.execution.write_files import OutputFiles, Waiting, waiting
from zql.logical.plan import StageResult
from zql.physical.plan import Stage

if TYPE_CHECKING:
    from zql.execution.exchange import Exchange


def cut(outputs: OutputFiles, stage: Stage, shards: int) -> Waiting:
    """All rows kept, then cut into shards: by their own number, or of equal numbers of rows."""
    kept = outputs.publisher.kept(shards)
    if len(kept) == shards:
        return waiting([], list(kept.values()))
    paths = outputs.paths(range(shards), shards)
    outputs.run.keep(kept_stage(stage))
    began = time.perf_counter()
    with outputs.run.native(reading(stage)) as native:
        files = native.write_cuts(
            [outputs.output(path) for path in paths],
            outputs.run.results[stage.id],
            outputs.sink.shard,
        )
    count, size = sum(f.rows for f in files), sum(f.bytes for f in files)
    outputs.run.report(stage, shards, count, began, native, size)
    return waiting(list(zip(paths, files, strict=True)))


def pieces(outputs: OutputFiles, stage: Stage) -> Waiting:
    """All rows kept, then cut into files that have so many rows or bytes at most."""
    kept, every = outputs.kept_of(0)
    if every and kept:
        return waiting([], list(kept.values()))
    outputs.run.keep(kept_stage(stage))
    began = time.perf_counter()
    rows = outputs.run.results[stage.id]
    total, size = sum(file.rows for file in rows), sum(file.bytes for file in rows)
    pieces = cuts(total, size, outputs.target.max_rows, outputs.target.file_size)
    bounds = [0, *(stop for each in pieces for stop in each[1:])]
    output = outputs.output(outputs.target.path(outputs.publisher.first_shard, 1))
    with outputs.run.native(reading(stage)) as native:
        parts = iter(native.write_cuts([output] * (len(bounds) - 1), rows, bounds=bounds))
        files: list[KeptFile] = []
        for each in pieces:
            mine = list(islice(parts, len(each) - 1))
            files += outputs.put_together(mine, native.columns, output)
    written = sum(file.bytes for file in files)
    outputs.run.report(stage, len(files), total, began, native, written)
    return outputs.named(files)


def shuffled(outputs: OutputFiles, stage: Stage, size: int) -> Waiting:
    """Rows in an order by chance, made of `size` bytes, in as many files as others of that size."""
    kept, every = outputs.kept_of(0)
    if every and kept:
        return waiting([], list(kept.values()))
    split_size = outputs.run.host.settings.split_size
    source = exchanged(stage)
    exchange = None if source is None else outputs.run.exchanges.of(source.stage)
    if source is not None and exchange is not None:
        count = files_of_share(size, exchange.rows, exchange.rows, split_size)
        paths = outputs.paths(range(count), count)
        files = _of_exchange(outputs, stage, source, exchange, paths)
    else:
        outputs.run.keep(kept_stage(stage))
        began = time.perf_counter()
        found = outputs.run.results[stage.id]
        rows = sum(file.rows for file in found)
        count = files_of_share(size, rows, rows, split_size)
        paths = outputs.paths(range(count), count)
        with outputs.run.native(reading(stage)) as native:
            files = native.write_cuts([outputs.output(path) for path in paths], found)
        outputs.run.report(stage, count, rows, began, native, sum(f.bytes for f in files))
    return outputs.gathered(paths, files, columns_of(stage), None)


def from_exchange(
    outputs: OutputFiles, stage: Stage, source: StageResult, exchange: Exchange, count: int
) -> Waiting:
    """The rows of an exchange in shards of equal numbers of rows, as they are put in order."""
    kept = outputs.publisher.kept(count)
    if len(kept) == count:
        return waiting([], list(kept.values()))
    paths = outputs.paths(range(count), count)
    files = _of_exchange(outputs, stage, source, exchange, paths)
    return waiting(list(zip(paths, files, strict=True)))


def _of_exchange(
    outputs: OutputFiles,
    stage: Stage,
    source: StageResult,
    exchange: Exchange,
    paths: Sequence[str],
) -> list[KeptFile]:
    began = time.perf_counter()
    with outputs.run.unsettled(stage) as native:
        files = native.write_exchange([outputs.output(p) for p in paths], exchange, source)
    size = sum(file.bytes for file in files)
    outputs.run.report(stage, len(paths), exchange.rows, began, native, size)
    return files
