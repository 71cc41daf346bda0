"""Rows written as they come, a file after the other: how many there will be is not known before."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zql.execution import gathering
from zql.execution.kept import KeptFile
from zql.execution.native import NativeStage, plan_of
from zql.execution.own_formats import format_of
from zql.execution.sink import target_of
from zql.execution.sizes import SMALLEST_SPLIT, file_of_rows
from zql.execution.stages import columns_of
from zql.execution.write_files import OutputFiles, Waiting, waiting
from zql.execution.writing import FileOutput
from zql.logical.plan import (
    Check,
    DuckdbQuery,
    Filter,
    MemoryScan,
    Project,
    RecursiveUnion,
    Scan,
    Sort,
    TableFunction,
    Unnest,
)
from zql.physical.plan import Stage, WriteFiles
from zql.tree import walk

if TYPE_CHECKING:
    from zql.execution.exchange import Exchange

SHARES = "shares"
"""In the key of the files: the same rows in one file are another result."""
_UNKNOWN = (MemoryScan, TableFunction, DuckdbQuery, RecursiveUnion)
"""What gives rows of which nobody knows how many they are."""


def in_shares(stage: Stage) -> bool:
    """Whether a stage of SQL is written into as many files as its rows fill: several are wanted,
    and neither the statement says how many, nor do the splits of one scan, nor a SHUFFLE.
    """
    if stage.source is not None or not isinstance(stage.sink, WriteFiles):
        return False
    target = target_of(stage.sink)
    said = target.shards or target.max_rows or target.file_size or target.partition_by
    plan = plan_of(stage)
    scans = {node for node in walk(plan) if isinstance(node, Scan)}
    if said or not target.sharded or (stage.row_local and len(scans) == 1):
        return False
    while isinstance(plan, Filter | Project | Unnest | Check):
        plan = plan.input
    return not isinstance(plan, Sort) or not plan.shuffles


def write(outputs: OutputFiles, stage: Stage, exchange: Exchange | None = None) -> Waiting:
    """The rows of a stage of SQL in files of about a size each; it may read an `exchange`."""
    kept, every = outputs.kept_of(0)
    if every and kept:
        return waiting([], list(kept.values()))
    output = outputs.output(outputs.target.path(outputs.publisher.first_shard, 1))
    if exchange is not None:
        files = _of_exchange(outputs, stage, output, exchange)
    else:
        files = _finished(outputs, stage, output) or _made(outputs, stage, output)
    if gathering.can_gather(outputs.target):
        file_size = outputs.run.host.settings.file_size
        sources: list[gathering.Sources] = [()] * len(files)
        found = gathering.gathered(files, sources, columns_of(stage), output, file_size)
        files = tuple(file for file, _ in found)
    return outputs.named(files)


def _finished(
    outputs: OutputFiles, stage: Stage, output: FileOutput
) -> tuple[KeptFile, ...] | None:
    """The files that an earlier run has finished."""
    outputs.run.exchanges.settle(stage)
    outputs.run.look_for_rejects(stage)
    return outputs.run.known_work(stage, _key(outputs, stage, output), output.folder)


def _key(outputs: OutputFiles, stage: Stage, output: FileOutput) -> str | None:
    return outputs.reuse.key_of(stage, outputs.run.results, output, SHARES)


def _made(outputs: OutputFiles, stage: Stage, output: FileOutput) -> tuple[KeptFile, ...]:
    run = outputs.run
    most = file_of_rows(0, run.host.settings.split_size).size
    if outputs.input_bytes(stage) <= min(most, SMALLEST_SPLIT) and _has_copy(stage, output):
        # A COPY needs no Arrow, which takes a while to load. Few bytes that are read seldom become
        # many: then it was in vain.
        began = time.perf_counter()
        with run.native(stage) as native:
            file = native.write(output)
            if file.bytes <= most:
                return _noted(outputs, stage, output, began, native, [file])
        os.unlink(file.path)
    began = time.perf_counter()
    with run.native(stage) as native:
        return _noted(outputs, stage, output, began, native, native.write_shares(output))


def _of_exchange(
    outputs: OutputFiles, stage: Stage, output: FileOutput, exchange: Exchange
) -> tuple[KeptFile, ...]:
    began = time.perf_counter()
    with outputs.run.unsettled(stage) as native:
        files = native.write_shares(output, exchange)
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    outputs.run.report(stage, len(files), rows, began, native, size)
    return tuple(files)


def _noted(
    outputs: OutputFiles,
    stage: Stage,
    output: FileOutput,
    began: float,
    native: NativeStage,
    files: Sequence[KeptFile],
) -> tuple[KeptFile, ...]:
    """The files put down for other runs and for the report."""
    done = outputs.reuse.add(_key(outputs, stage, output), files, native.records_in)
    rows, size = sum(file.rows for file in done), sum(file.bytes for file in done)
    outputs.run.report(stage, len(done), rows, began, native, size)
    return done


def _has_copy(stage: Stage, output: FileOutput) -> bool:
    """Whether DuckDB can write the rows by itself, and is known to read files alone."""
    plan = plan_of(stage)
    if any(isinstance(node, _UNKNOWN) for node in walk(plan)):
        return False
    columns, options = output.columns(plan.columns), dict(output.options)
    format_ = format_of(output.format, output.own)
    return format_.copy("SELECT 1", columns, options, output.compression) is not None
