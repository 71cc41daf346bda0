"""The exchanges of a run: made by stages, found where an earlier run made them, read as files."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Protocol

from zql.errors import InternalError, ZqlError
from zql.execution.engine import EngineError
from zql.execution.native import NativeStage, plan_of
from zql.execution.partitions import Choice, bytes_of_rows
from zql.execution.settings import Settings
from zql.execution.sorts import choice
from zql.physical.plan import Spread, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zql.execution.exchange import Exchange
    from zql.execution.kept import KeptFile
    from zql.execution.report import StageReport
    from zql.execution.reuse import Reuse


class Doing(Protocol):
    """What exchanges need of the run."""

    results: dict[int, tuple[KeptFile, ...]]
    reports: list[StageReport]
    reuse: Reuse | None

    @property
    def settings(self) -> Settings: ...

    @property
    def objects(self) -> Mapping[str, object]: ...

    def folder(self, name: str) -> str: ...

    def native(self, stage: Stage) -> NativeStage: ...

    def look_for_rejects(self, stage: Stage) -> None: ...

    def known_work(
        self, stage: Stage, key: str | None, folder: str
    ) -> tuple[KeptFile, ...] | None: ...

    def explained(self, error: EngineError, stage: Stage) -> ZqlError: ...

    def report(
        self,
        stage: Stage,
        tasks: int,
        rows: int,
        began: float,
        native: NativeStage,
        written: int = 0,
    ) -> None: ...


class Exchanges:
    """What stages have left as an exchange, until somebody wants files of their rows in order."""

    def __init__(self, run: Doing) -> None:
        self._run = run
        self._found: dict[int, Exchange] = {}
        self._keys: dict[int, str] = {}
        self._lock = threading.RLock()
        """Held while files are made: stages that run side by side may want the same."""

    def of(self, number: int) -> Exchange | None:
        """What the stage with that number has left, if it is an exchange still."""
        return self._found.get(number)

    def choose_ranges(self, stage: Stage) -> Choice:
        """Whether the rows of a stage are dealt to ranges of what they are sorted by."""
        settings = self._run.settings.for_stage(stage.resources, python=False)
        return choice(bytes_of_rows(plan_of(stage), self._run.results, self._run.objects), settings)

    def deal(self, stage: Stage) -> None:
        """Does a stage that leaves an exchange, unless an earlier run has.

        Raises `ZqlError`.
        """
        folder = self._run.folder(f"stage-{stage.id}")
        key = self._key(stage, folder)
        found = None if key is None else self._known(stage, folder, key)
        if found is None:
            found = self.made(stage)
            if self._run.reuse is not None and key is not None:
                self._note(stage, found, key, self._run.reuse)
        with self._lock:
            self._found[stage.id] = found

    def made(self, stage: Stage) -> Exchange:
        """Does a stage and gives its rows as an exchange, which nobody else knows of."""
        run, spread = self._run, _spread_of(stage)
        path = os.path.join(run.folder(f"stage-{stage.id}"), "exchange.arrow")
        began = time.perf_counter()
        with run.native(stage) as native:
            size = bytes_of_rows(native.plan, run.results, run.objects)
            try:
                found = native.exchange(path, spread, size)
            except EngineError as error:
                raise run.explained(error, stage) from None
        run.report(stage, 1, found.rows, began, native, found.bytes)
        return found

    def settle(self, stage: Stage) -> None:
        """Makes files, in order, of the rows of exchanges that a stage reads."""
        from zql.execution.kept import write_all
        from zql.execution.sizes import KEPT_FILE

        run, settings = self._run, self._run.settings
        with self._lock:
            for number in set(stage.inputs) & self._found.keys():
                found = self._found[number]
                rows = found.batches(0, found.rows)
                size = settings.split_size or KEPT_FILE
                files = write_all(rows, run.folder(f"stage-{number}"), settings.batch_rows, size)
                run.results[number] = tuple(files)
                if run.reuse is not None and number in self._keys:
                    run.reuse.learn(files, self._keys[number])
                del self._found[number]

    def _key(self, stage: Stage, folder: str) -> str | None:
        """The key of an exchange, where a later run may want it: its checksum takes a while."""
        from zql.execution.writing import KeptOutput

        run = self._run
        if run.reuse is None or not run.reuse.lasting:
            return None
        self.settle(stage)
        run.look_for_rejects(stage)
        return run.reuse.key_of(stage, run.results, KeptOutput(folder), _spread_of(stage))

    def _known(self, stage: Stage, folder: str, key: str) -> Exchange | None:
        """The exchange that an earlier run has made, if there is one."""
        from zql.execution.exchange import Exchange

        self._keys[stage.id] = key
        known = self._run.known_work(stage, key, folder)
        if known is None:
            return None
        *paths, index = (file.path for file in known)
        return Exchange.saved(paths, index, _spread_of(stage), self._run.settings.budget())

    def _note(self, stage: Stage, found: Exchange, key: str, reuse: Reuse) -> None:
        """Puts an exchange down for later runs."""
        from zql.execution.kept import KeptFile

        index = f"{found.paths[0]}.index"
        found.save_index(index)
        files: Sequence[KeptFile] = [
            *(KeptFile(path, found.rows, os.path.getsize(path)) for path in found.paths),
            KeptFile(index, 0, os.path.getsize(index)),
        ]
        told = next(told for told in reversed(self._run.reports) if told.id == stage.id)
        reuse.add(key, files, told.records_in)


def _spread_of(stage: Stage) -> Spread:
    if stage.spread is None:
        raise InternalError("the stage does not deal out its rows")
    return stage.spread
