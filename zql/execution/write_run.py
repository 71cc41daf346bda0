"""The end of a run that writes: which files there are to be, and who writes each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from zql.errors import RunError
from zql.execution.called import functions_of
from zql.execution.engine import EngineError
from zql.execution.fingerprint import fingerprint
from zql.execution.kept import KeptFile
from zql.execution.native import NativeStage, exchanged
from zql.execution.own_formats import format_of
from zql.execution.publish import Publisher
from zql.execution.report import RunReport
from zql.execution.run import Run
from zql.execution.sink import Target, target_of
from zql.execution.stages import columns_of, is_python, kept_stage, reading
from zql.execution.task import TaskResult
from zql.execution.writing import FileOutput, join_files
from zql.expr.expression import Column
from zql.logical.plan import Scan, StageResult
from zql.physical.plan import Collect, Drop, Keep, Stage, StoreTable, WriteFiles
from zql.schema import DataType
from zql.storage import threads
from zql.storage.format import WrittenFile

if TYPE_CHECKING:
    from zql.execution.sources import Input

_WORTH_PARTS = 2

Waiting = tuple[list[tuple[str, KeptFile]], list[WrittenFile]]
"""Finished files and the names they will get, and files that were there already and stay."""

Written = tuple[list[WrittenFile], list[WrittenFile]]
"""Files that were written, and files that were there already and stay."""


def write(run: Run) -> RunReport:
    """Does all stages of a plan; the files of all its outputs appear at the end, or none.

    Rows for the caller stay in the run's folder. Raises `ZqlError`.
    """
    began = time.perf_counter()
    counters: dict[str, int] = {}
    inputs = {stage.id: stage.inputs for stage in run.plan.outputs}
    with ExitStack() as stack:
        writings = {
            stage.id: stack.enter_context(WriteRun(run, stage.sink))
            for stage in run.plan.outputs
            if isinstance(stage.sink, WriteFiles)
        }
        for stage in run.plan.stages:
            match stage.sink:
                case WriteFiles():
                    writings[stage.id].finish(stage)
                case Drop(counter):
                    rows = run.drop(stage)
                    if counter:
                        counters[counter] = counters.get(counter, 0) + rows
                case StoreTable():
                    run.store(stage, stage.sink)
                case Keep() | Collect():
                    run.keep(stage)
        published = [writing.publish() for writing in writings.values()]
    results = [
        written
        for stage, written in zip(writings, published, strict=True)
        if not any(number < 0 for number in inputs[stage])
    ]
    outputs = [file for files, _ in results for file in files]
    kept = [file for _, files in results for file in files]
    ordered = [
        file
        for writing, (new, old) in zip(writings.values(), published, strict=True)
        for file in sorted([*new, *old], key=writing.place_of)
    ]
    report = run.finished(began, outputs, kept, counters)
    return replace(report, outputs=tuple(ordered))


class WriteRun:
    """The outputs of one run. A context manager: leaving it removes all that is not published."""

    def __init__(self, run: Run, sink: WriteFiles) -> None:
        """Raises `StorageError` when what is there forbids to write."""
        self._run = run
        self._sink = sink
        self._target: Target = target_of(sink)
        threads.limit(run.host.settings.thread_count())
        version = run.host.engine.version()
        options = run.host.settings.storage_options.reveal()
        staging = run.folder("out") if self._target.remote else ""
        plan = fingerprint(run.plan, version)
        self._publisher = Publisher(self._target, plan, staging, options)
        self._publisher.check()
        self._waiting: Waiting = ([], [])
        self._columns: list[tuple[str, DataType]] = []

    def __enter__(self) -> WriteRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._publisher.clean()

    def place_of(self, file: WrittenFile) -> int:
        """Where a file stands among the shards."""
        return self._target.shard_of(file.path) or 0

    def finish(self, stage: Stage) -> None:
        """Does the stage whose rows are written; its files wait for `publish`."""
        types = (c.type for c in columns_of(stage) if c != self._sink.shard)
        self._columns = list(zip(self._sink.names, types, strict=True))
        try:
            python = is_python(stage)
            self._waiting = self._from_tasks(stage) if python else self._from_sql(stage)
        except EngineError as error:
            raise self._run.explained(error, stage) from None
        except RunError as error:
            if error.code == "R751":
                names = [f.name for s in self._run.plan.stages for f in functions_of(s)]
                error.notes += tuple(f"{name} is called by the script" for name in names)
            raise

    def publish(self) -> Written:
        """Gives the finished files their names."""
        files, kept = self._waiting
        published = self._publisher.publish(files, kept, self._columns)
        names = {file.path for file in kept}
        return [f for f in published if f.path not in names], kept

    # ---- tasks ---------------------------------------------------------------------------------

    def _from_tasks(self, stage: Stage) -> Waiting:
        shards = self._target.shards
        if self._target.sharded and shards is not None and shards > 1:
            return self._cut(stage, shards)
        inputs = self._run.inputs(stage)
        if not inputs:
            self._run.results[stage.id] = ()
            return self._from_sql(reading(stage))
        if self._target.sharded and shards is None:
            return self._shard_each(stage, inputs)
        return self._join(stage, inputs)

    def _shard_each(self, stage: Stage, inputs: Sequence[Input]) -> Waiting:
        """Each task writes a shard."""
        count = len(inputs)
        first = self._publisher.first_shard
        kept = self._publisher.kept(count)
        numbers = [number for number in range(count) if number not in kept]
        paths = [self._target.path(first + number, count) for number in numbers]
        outputs = [self._output(path) for path in paths]
        done = self._run.tasks(stage, [inputs[n] for n in numbers], outputs, numbers, count)
        files = [_file_of(result) for result in done]
        return _waiting(list(zip(paths, files, strict=True)), list(kept.values()))

    def _join(self, stage: Stage, inputs: Sequence[Input]) -> Waiting:
        """The tasks write parts of the one file."""
        path = self._target.path(self._publisher.first_shard, 1)
        kept = self._publisher.kept(1)
        if kept:
            return _waiting([], list(kept.values()))
        if self._sink.own is not None:
            # Who writes it takes all of its rows in one call.
            self._run.keep(kept_stage(stage))
            return self._from_sql(reading(stage))
        output = self._output(path)
        format_ = format_of(output.format, output.own)
        part = replace(output, compression=format_.part_compression(output.compression))
        done = self._run.tasks(stage, inputs, [part] * len(inputs))
        parts = [_file_of(result) for result in done]
        return _waiting([(path, self._joined(parts, columns_of(stage), output))])

    # ---- SQL -----------------------------------------------------------------------------------

    def _from_sql(self, stage: Stage) -> Waiting:
        shards = self._target.shards
        source = exchanged(stage)
        if source is not None and source.stage in self._run.exchanges and self._sink.shard is None:
            return self._from_exchange(stage, source, shards if self._target.sharded else 1)
        if self._target.sharded and shards is not None and shards > 1:
            return self._cut(stage, shards)
        with self._run.native(stage) as native:
            scans = native.scans
            if self._target.sharded and shards is None and stage.row_local and len(scans) == 1:
                inputs = self._splits(scans[0])
                if len(inputs) > 1:
                    return self._shard_splits(stage, native, inputs)
            path = self._target.path(self._publisher.first_shard, 1)
            kept = self._publisher.kept(1)
            if kept:
                return _waiting([], list(kept.values()))
            began = time.perf_counter()
            file = self._whole(stage, native, path)
            self._run.report(stage, 1, file.rows, began, native, file.bytes)
            return _waiting([(path, file)])

    def _whole(self, stage: Stage, native: NativeStage, path: str) -> KeptFile:
        """One file: by one COPY, or in parts at a time where DuckDB cannot write it."""
        output = self._output(path)
        format_ = format_of(output.format, output.own)
        columns = output.columns(native.columns)
        options = dict(output.options)
        scans = native.scans
        by_copy = format_.copy("SELECT 1", columns, options, output.compression) is not None
        if by_copy or output.own is not None or not stage.row_local or len(scans) != 1:
            return native.write(output)
        inputs = self._splits(scans[0])
        if len(inputs) < _WORTH_PARTS:
            return native.write(output)
        part = replace(output, compression=format_.part_compression(output.compression))
        parts = native.write_parts([(part, n, one) for n, one in enumerate(inputs)])
        return self._joined(parts, native.columns, output)

    def _joined(
        self, parts: Sequence[KeptFile], columns: Sequence[Column], output: FileOutput
    ) -> KeptFile:
        joined = join_files(parts, columns, output, output.path(len(parts)))
        for file in parts:
            os.unlink(file.path)
        return joined

    def _shard_splits(self, stage: Stage, native: NativeStage, inputs: Sequence[Input]) -> Waiting:
        """Each split of the scan gives a shard."""
        began = time.perf_counter()
        count = len(inputs)
        first = self._publisher.first_shard
        kept = self._publisher.kept(count)
        numbers = [number for number in range(count) if number not in kept]
        paths = [self._target.path(first + number, count) for number in numbers]
        calls = [(self._output(p), n, inputs[n]) for p, n in zip(paths, numbers, strict=True)]
        files = native.write_parts(calls)
        rows = sum(file.rows for file in files)
        self._run.report(stage, len(calls), rows, began, native, sum(f.bytes for f in files))
        return _waiting(list(zip(paths, files, strict=True)), list(kept.values()))

    def _splits(self, scan: Scan) -> list[Input]:
        host = self._run.host
        format_ = format_of(scan.format, scan.own)
        options = dict(scan.options)
        return list(format_.splits(scan.files, options, host.settings.split_size, host.engine))

    def _cut(self, stage: Stage, shards: int) -> Waiting:
        """All rows kept, then cut into shards: by their own number, or of equal numbers of rows."""
        kept = self._publisher.kept(shards)
        if len(kept) == shards:
            return _waiting([], list(kept.values()))
        self._run.keep(kept_stage(stage))
        began = time.perf_counter()
        first = self._publisher.first_shard
        paths = [self._target.path(first + number, shards) for number in range(shards)]
        outputs = [self._output(path) for path in paths]
        with self._run.native(reading(stage)) as native:
            files = native.write_cuts(outputs, self._run.results[stage.id], self._sink.shard)
        rows, size = sum(f.rows for f in files), sum(f.bytes for f in files)
        self._run.report(stage, shards, rows, began, native, size)
        return _waiting(list(zip(paths, files, strict=True)))

    def _from_exchange(self, stage: Stage, source: StageResult, shards: int | None) -> Waiting:
        """The rows of an exchange in shards of equal numbers of rows, as they are put in order."""
        count = shards or 1
        kept = self._publisher.kept(count)
        if len(kept) == count:
            return _waiting([], list(kept.values()))
        began = time.perf_counter()
        first = self._publisher.first_shard
        paths = [self._target.path(first + number, count) for number in range(count)]
        exchange = self._run.exchanges[source.stage]
        with self._run.unsettled(stage) as native:
            files = native.write_exchange([self._output(p) for p in paths], exchange, source)
        self._run.report(stage, count, exchange.rows, began, native, sum(f.bytes for f in files))
        return _waiting(list(zip(paths, files, strict=True)))

    # ---- files ---------------------------------------------------------------------------------

    def _output(self, path: str) -> FileOutput:
        """How the file for a path is written first."""
        target = self._target
        return FileOutput(
            self._publisher.folder_for(path),
            self._publisher.prefix,
            target.format,
            self._sink.names,
            target.compression,
            target.format_options,
            target.own,
            path,
        )


def _waiting(files: Sequence[tuple[str, KeptFile]], kept: Sequence[WrittenFile] = ()) -> Waiting:
    return list(files), list(kept)


def _file_of(result: TaskResult) -> KeptFile:
    if result.file is None:
        raise RunError("a task left no file", code="X903")
    return result.file
