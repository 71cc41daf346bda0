"""The end of a run that writes: which files there are to be, and who writes each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zql.errors import RunError
from zql.execution import write_cuts, write_shares
from zql.execution.called import functions_of
from zql.execution.engine import EngineError
from zql.execution.kept import KeptFile
from zql.execution.native import NativeStage, exchanged
from zql.execution.own_formats import format_of
from zql.execution.report import RunReport
from zql.execution.run import Run
from zql.execution.sizes import files_of_share, split_of_files
from zql.execution.stages import columns_of, is_python, kept_stage, reading
from zql.execution.task import TaskResult
from zql.execution.write_files import OutputFiles, Waiting, waiting
from zql.execution.writing import FileOutput, join_files
from zql.expr.expression import Column
from zql.failpoints import hit
from zql.logical.plan import Scan
from zql.physical.plan import Collect, Drop, Keep, Stage, StoreTable, WriteFiles
from zql.schema import DataType
from zql.storage import threads
from zql.storage.format import WrittenFile

if TYPE_CHECKING:
    from zql.execution.sources import Input

_WORTH_PARTS = 2

Written = tuple[list[WrittenFile], list[WrittenFile]]
"""Files that were written, and files that were there already and stay."""


def write(run: Run) -> RunReport:
    """Does all stages of a plan; the files of all its outputs appear at the end, or none.

    Rows for the caller stay in the run's folder. Raises `ZqlError`.
    """
    began = time.perf_counter()
    counters: dict[str, int] = {}
    inputs = {stage.id: stage.inputs for stage in run.plan.outputs}
    writings = {
        stage.id: WriteRun(run, stage.sink)
        for stage in run.plan.outputs
        if isinstance(stage.sink, WriteFiles)
    }
    if run.reuse is not None:
        run.reuse.open()
        if run.host.notes is not None and run.plan.writes:
            run.host.notes.begin(run.reuse.work.places, run.host.settings.cache)

    done = len(writings) == len(run.plan.outputs) and all(
        writings[stage.id].keep_all(stage) for stage in run.plan.outputs
    )

    def do(stage: Stage) -> None:
        hit("stage_begun")
        run.sorts.done(stage, finish)
        hit("stage_ended")

    def finish(stage: Stage) -> None:
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

    if not done:
        run.do_all(do)
    hit("publish_begun")
    published = [writing.publish() for writing in writings.values()]
    if run.reuse is not None:
        run.reuse.work.published = True
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
    hit("run_ended")
    return replace(report, outputs=tuple(ordered))


class WriteRun:
    """The outputs of one WRITE of a run."""

    def __init__(self, run: Run, sink: WriteFiles) -> None:
        """Raises `StorageError` when what is there forbids to write."""
        self._run = run
        self._sink = sink
        threads.limit(run.host.settings.thread_count())
        self._files = OutputFiles(run, sink)
        self._target = self._files.target
        self._publisher = self._files.publisher
        self._reuse = self._files.reuse
        self._waiting: Waiting = ([], [])
        self._columns: list[tuple[str, DataType]] = []

    def place_of(self, file: WrittenFile) -> tuple[str, int]:
        """Where a file stands among the others."""
        folder = file.path[: file.path.rfind("/")] if self._target.partition_by else ""
        return folder, self._target.shard_of(file.path) or 0

    def keep_all(self, stage: Stage) -> bool:
        """Whether all files are there that this very plan gives: then they stay, as they are."""
        if self._target.sharded or self._target.partition_by:
            kept = self._publisher.kept_all() if self._target.mode != "append" else []
        else:
            kept = list(self._publisher.kept(1).values())
        if kept:
            self._columns = [(n, c.type) for n, c in self._files.written(columns_of(stage))]
            self._waiting = waiting([], kept)
        return bool(kept)

    def finish(self, stage: Stage) -> None:
        """Does the stage whose rows are written; its files wait for `publish`."""
        self._columns = [(n, c.type) for n, c in self._files.written(columns_of(stage))]
        try:
            self._waiting = self._way(stage)(stage)
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
        hit("output_published")
        if self._run.host.notes is not None:
            self._run.host.notes.wrote(self._publisher.plan, published)
        names = {file.path for file in kept}
        return [f for f in published if f.path not in names], kept

    def _way(self, stage: Stage) -> Callable[[Stage], Waiting]:
        if self._target.partition_by:
            from zql.execution import write_folders

            return partial(write_folders.write, self._files)
        return self._from_tasks if is_python(stage) else self._from_sql

    # ---- tasks ---------------------------------------------------------------------------------

    def _from_tasks(self, stage: Stage) -> Waiting:
        shards = self._target.shards
        if self._target.sharded and shards is not None and shards > 1:
            return write_cuts.cut(self._files, stage, shards)
        if self._target.max_rows or self._target.file_size:
            return write_cuts.pieces(self._files, stage)
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
        kept, every = self._files.kept_of(count)
        if every:
            return waiting([], list(kept.values()))
        numbers = [number for number in range(count) if number not in kept]
        paths = self._files.paths(numbers, count)
        outputs = [self._files.output(path) for path in paths]
        self._files.tell_sources(paths, [inputs[n] for n in numbers])
        done = self._run.tasks(stage, [inputs[n] for n in numbers], outputs, numbers, count)
        files = [_file_of(result) for result in done]
        return self._files.gathered(paths, files, columns_of(stage), kept)

    def _join(self, stage: Stage, inputs: Sequence[Input]) -> Waiting:
        """The tasks write parts of the one file."""
        path = self._target.path(self._publisher.first_shard, 1)
        kept = self._publisher.kept(1)
        if kept:
            return waiting([], list(kept.values()))
        if self._sink.own is not None:
            # Who writes it takes all of its rows in one call.
            self._run.keep(kept_stage(stage))
            return self._from_sql(reading(stage))
        output = self._files.output(path)
        format_ = format_of(output.format, output.own)
        part = replace(
            output, compression=format_.part_compression(output.compression), summed=True
        )
        done = self._run.tasks(stage, inputs, [part] * len(inputs))
        parts = [_file_of(result) for result in done]
        return waiting([(path, self._joined(parts, columns_of(stage), output))])

    # ---- SQL -----------------------------------------------------------------------------------

    def _from_sql(self, stage: Stage) -> Waiting:
        shards = self._target.shards
        source = exchanged(stage)
        cut = self._sink.shard or self._target.max_rows or self._target.file_size
        if self._target.sharded and shards is None and not cut:
            size = self._files.shuffled_bytes(stage)
            if files_of_share(size, size, size, self._run.host.settings.split_size) > 1:
                return write_cuts.shuffled(self._files, stage, size)
        exchange = None if source is None or cut else self._run.exchanges.of(source.stage)
        if exchange is not None and exchange.spread.order and write_shares.in_shares(stage):
            return write_shares.write(self._files, stage, exchange)
        if source is not None and exchange is not None:
            count = shards if self._target.sharded else 1
            return write_cuts.from_exchange(self._files, stage, source, exchange, count or 1)
        if self._target.sharded and shards is not None and shards > 1:
            return write_cuts.cut(self._files, stage, shards)
        if self._target.max_rows or self._target.file_size:
            return write_cuts.pieces(self._files, stage)
        if write_shares.in_shares(stage):
            return write_shares.write(self._files, stage)
        with self._run.native(stage) as native:
            scans = native.scans
            if self._target.sharded and shards is None and stage.row_local and len(scans) == 1:
                inputs = self._splits(scans[0])
                if len(inputs) > 1:
                    return self._shard_splits(stage, native, inputs)
            path = self._target.path(self._publisher.first_shard, 1)
            kept = self._publisher.kept(1)
            if kept:
                return waiting([], list(kept.values()))
            known = self._run.finished_work(stage, self._files.output(path))
            if known is not None:
                return waiting([(path, known[0])])
            began = time.perf_counter()
            file = self._whole(stage, native, path)
            if self._target.sharded or self._lasting:
                (file,) = self._reuse.add(self._key(stage, path), [file], native.records_in)
            self._run.report(stage, 1, file.rows, began, native, file.bytes)
            return waiting([(path, file)])

    def _whole(self, stage: Stage, native: NativeStage, path: str) -> KeptFile:
        """One file: by one COPY, or in parts at a time where DuckDB cannot write it."""
        output = self._files.output(path)
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
        hit("files_joined")
        return joined

    def _shard_splits(self, stage: Stage, native: NativeStage, inputs: Sequence[Input]) -> Waiting:
        """Each split of the scan gives a shard."""
        began = time.perf_counter()
        count = len(inputs)
        kept, every = self._files.kept_of(count)
        if every:
            return waiting([], list(kept.values()))
        numbers = [number for number in range(count) if number not in kept]
        paths = self._files.paths(numbers, count)
        self._files.tell_sources(paths, [inputs[n] for n in numbers])
        files, reused = self._written_parts(stage, native, paths, numbers, inputs)
        rows = sum(file.rows for file in files)
        size = sum(file.bytes for file in files)
        self._run.report(stage, len(files), rows, began, native, size, reused)
        return self._files.gathered(paths, files, native.columns, kept)

    def _written_parts(
        self,
        stage: Stage,
        native: NativeStage,
        paths: Sequence[str],
        numbers: Sequence[int],
        inputs: Sequence[Input],
    ) -> tuple[list[KeptFile], int]:
        """A file for each split of these numbers, and how many earlier runs had finished."""
        outputs = [self._files.output(path) for path in paths]
        common = self._reuse.key_of(stage, self._run.results, outputs[0]) if outputs else None
        keys = [self._reuse.key_of_part(common, inputs[number]) for number in numbers]
        files: list[KeptFile | None] = []
        for key, output in zip(keys, outputs, strict=True):
            entry = self._reuse.find(key, output.folder)
            files.append(entry.files[0] if entry is not None else None)
        missing = [place for place, file in enumerate(files) if file is None]

        def note(place: int, file: KeptFile) -> None:
            (files[missing[place]],) = self._reuse.add(keys[missing[place]], [file])

        calls = [(outputs[place], numbers[place], inputs[numbers[place]]) for place in missing]
        native.write_parts(calls, note)
        done = [file for file in files if file is not None]
        return done, len(done) - len(missing)

    def _key(self, stage: Stage, path: str) -> str | None:
        return self._reuse.key_of(stage, self._run.results, self._files.output(path))

    @property
    def _lasting(self) -> bool:
        """Whether a file that DuckDB writes in one go may be worth its checksum: a later run wants
        it, or others of this statement are still to come.
        """
        settings = self._run.host.settings
        several = len(self._run.plan.outputs) > 1
        return several or settings.resume or settings.cache is not None

    def _splits(self, scan: Scan) -> list[Input]:
        host = self._run.host
        format_ = format_of(scan.format, scan.own)
        options = dict(scan.options)
        total = sum(file.size for file in scan.files)
        size = split_of_files(total, host.settings.split_size).size
        return list(format_.splits(scan.files, options, size, self._run.engine))


def _file_of(result: TaskResult) -> KeptFile:
    if result.file is None:
        raise RunError("a task left no file", code="X903")
    return result.file
