"""What a run need not do, because it was done: looked up before work begins, noted when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from zql.execution.cache_folder import CacheFolder
from zql.execution.checksums import all_summed
from zql.execution.fingerprint import absolute
from zql.execution.history import note_cache
from zql.execution.kept import KeptFile
from zql.execution.result_keys import ResultKeys, described
from zql.execution.result_store import Entry, ResultStore, entries
from zql.execution.settings import Settings
from zql.execution.sink import target_of
from zql.execution.stored import StoredTable
from zql.execution.task import TaskResult, TaskSpec
from zql.execution.work import Work
from zql.physical.plan import PhysicalPlan, Stage, StoreTable, WriteFiles
from zql.storage.remote import shown
from zql.tree import record

if TYPE_CHECKING:
    from zql.execution.sources import Input
    from zql.execution.writing import FileOutput, KeptOutput

Results = Mapping[int, Sequence[KeptFile]]
Tables = Mapping[str, StoredTable]


@record
class Finished:
    """The tasks of a stage that need not be done, and what is to be noted of the others."""

    ready: dict[int, TaskResult] = field(default_factory=dict)
    note: Callable[[TaskResult], None] = lambda _: None


class Reuse:
    """The finished work of one run."""

    def __init__(self, work: Work, engine: str, settings: Settings, tables: Tables) -> None:
        """`engine` is DuckDB's version, `tables` are those of the session by their keys.

        What dead runs have left is taken up, or removed.
        """
        self.work = work
        self.noted = work.take_up()
        """The records of dead runs."""
        self._threads = settings.thread_count()
        self._cache_size = settings.cache_size
        self._keys = ResultKeys(engine, settings, tables)
        self._cache = CacheFolder(settings.cache) if settings.cache else None
        self._store = ResultStore(entries(self.noted), self._cache)

    def open(self) -> None:
        """Makes the cache, if there is to be one. Raises `StorageError`."""
        if self._cache is not None:
            self._cache.open()
            note_cache(self._cache.path)

    def of_tasks(self, stage: Stage, specs: Sequence[TaskSpec], results: Results) -> Finished:
        """What is there of a stage's tasks."""
        found = self._keys.of_tasks(stage, specs, results)
        keys = {spec.id: key for spec, key in zip(specs, found, strict=True) if key is not None}
        ready: dict[int, TaskResult] = {}
        for spec in specs if keys else ():
            entry = self._store.find(keys[spec.id], spec.output.folder)
            if entry is not None:
                ready[spec.id] = entry.result(spec.id)
                self._learn(entry)

        def note(result: TaskResult) -> None:
            key = keys.get(result.id)
            if key is None:
                self._learn_files(result, None)
                return
            entry = Entry.of(key, result)
            self._store.add(entry, self.work.journal())
            self._learn(entry)

        return Finished(ready, note)

    def leave_cache(self) -> None:
        """The run is at its end: nothing of the cache is used any more, and it is not too big."""
        if self._cache is not None:
            self._cache.close(self._cache_size)

    def close(self) -> None:
        """Lets go of what dead runs have left."""
        self.work.close()

    def peek_at_tasks(
        self, stage: Stage, specs: Sequence[TaskSpec], results: Results
    ) -> list[Entry | None]:
        """What there seems to be of tasks: no file is read."""
        return [self.peek(key) for key in self._keys.of_tasks(stage, specs, results)]

    def peek(self, key: str | None) -> Entry | None:
        """What there seems to be under a key: no file is read."""
        entry = self._store.peek(key) if key else None
        if entry is not None:
            self._learn(entry)
        return entry

    def key_of(
        self, stage: Stage, results: Results, output: FileOutput | KeptOutput, *more: object
    ) -> str | None:
        """The key of what a stage gives in a form; None when it must be made anew."""
        return self._keys.of_stage(stage, results, (described(output), *more))

    def key_of_part(self, key: str | None, input: Input) -> str | None:
        """The key of the part of a stage's rows that comes of one split."""
        return None if key is None else self._keys.part(key, input)

    def key_of_rows(self, files: Sequence[KeptFile]) -> str:
        """What stands for the rows of files that this run has made or found."""
        return self._keys.of_rows(files)

    def find(self, key: str | None, folder: str) -> Entry | None:
        """What is there under a key; files of the cache are put into a folder."""
        entry = self._store.find(key, folder) if key is not None else None
        if entry is not None:
            self._learn(entry)
        return entry

    @property
    def lasting(self) -> bool:
        """Whether a later run may want what this one makes, and it is worth its checksum."""
        return self.work.resuming or self._cache is not None

    def learn(self, files: Sequence[KeptFile], key: str) -> None:
        """Files are what this key makes of them, in this order."""
        for number, file in enumerate(files):
            self._keys.learn(file, f"{key}-{number}")

    def add(
        self, key: str | None, files: Sequence[KeptFile], records_in: int = 0
    ) -> tuple[KeptFile, ...]:
        """Notes finished files; they come back with their checksums."""
        done = all_summed(files, self._threads)
        entry = Entry(key or "", done, records_in)
        if key is not None:
            self._store.add(entry, self.work.journal())
        self._learn(entry)
        return done

    def _learn(self, entry: Entry) -> None:
        for file in entry.all_files():
            self._keys.learn(file, entry.key or None)

    def _learn_files(self, result: TaskResult, key: str | None) -> None:
        if result.file is not None:
            self._keys.learn(result.file, key)


def reuse_of(plan: PhysicalPlan, settings: Settings, engine: str, tables: Tables) -> Reuse:
    """The finished work of a run: of a plan that writes, or of a query that uses the cache.

    `engine` is DuckDB's version, `tables` are those of the session by their keys.
    """
    sinks = [stage.sink for stage in plan.stages]
    written = [target_of(sink) for sink in sinks if isinstance(sink, WriteFiles)]
    made = [sink.table for sink in sinks if isinstance(sink, StoreTable)]
    targets = [shown(absolute(target.pattern)) for target in written]
    targets += [f"{os.getcwd()}: {table}" for table in made]
    roots = dict.fromkeys(target.root for target in written if not target.remote)
    resuming = settings.resume or any(target.mode == "skip" for target in written)
    work = Work(settings, tuple(targets), tuple(roots), resuming)
    return Reuse(work, engine, settings, tables)
