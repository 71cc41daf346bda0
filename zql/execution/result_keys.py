"""Keys of results: what a stage, or a task of it, is made of. Equal keys mean equal rows.

A result of an earlier stage counts by the key of the task that made it and by its checksum, so that
it matters neither when nor where it was made, and rows that came in another order are others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zql.execution.fingerprint import Fingerprint, versions
from zql.execution.kept import KeptFile, Part
from zql.execution.settings import Settings
from zql.execution.sources import Input
from zql.execution.stored import StoredTable
from zql.execution.task import TaskSpec
from zql.execution.writing import FileOutput, KeptOutput
from zql.expr.expression import Call, SharedObject, TaskContext
from zql.expr.functions import PythonFunction
from zql.logical.plan import DuckdbQuery, MemoryScan, Scan, StageResult
from zql.physical.plan import Keep, Stage
from zql.tree import Node, walk

_CLOCKS = frozenset(
    [
        "now",
        "today",
        "age",
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_timestamp",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "txid_current",
        "getvariable",
        "current_setting",
    ]
)
"""Functions that give one answer in a statement, and another one in the next."""


class ResultKeys:
    """The keys of one run; it learns of each result that is there."""

    def __init__(self, engine: str, settings: Settings, tables: Mapping[str, StoredTable]) -> None:
        """`engine` is DuckDB's version; `tables` are the session's, by their keys in plans."""
        self._tables = tables
        self._settings = settings
        self._base = versions(engine)
        self._origins: dict[str, str] = {}

    def learn(self, file: KeptFile, key: str | None) -> None:
        """A file has this key; without one it is never the same again."""
        if file.path:
            self._origins[file.path] = key or os.urandom(16).hex()

    def of_stage(
        self, stage: Stage, results: Mapping[int, Sequence[KeptFile]], output: object = None
    ) -> str | None:
        """The key of all that a stage gives in that form; None when it must be made anew.

        For a stage that is cut into tasks, what its tasks have in common.
        """
        source = stage.source
        nodes = [*walk(source), *_in(stage)] if source is not None else _in(stage)
        read = [node for node in nodes if isinstance(node, MemoryScan)]
        memory = {scan.key: self._tables[scan.key].key for scan in read if scan.key in self._tables}
        if not all(map(_is_sure, nodes)) or any(scan.key not in memory for scan in read):
            return None
        told = {number: self.of_rows(results.get(number, ())) for number in _read(stage)}
        cut = source if isinstance(source, Scan) else None
        paths: tuple[str, ...] = ()
        if cut is not None and any(c.kind == "place" for c in cut.columns_read):
            paths = tuple(file.path for file in cut.files)  # places count on over the files
        sized = (self._settings.batch_rows, self._settings.batch_bytes)
        if source is None:
            starts = stage.sink.starts if isinstance(stage.sink, Keep) else None
            shape = (starts, self._settings.batch_rows, self._settings.split_size)
            return Fingerprint(told, memory=memory).of(self._base, stage.steps, shape, output)
        scanned = source if cut is not None else ()
        cuts = (stage.limit, stage.by_file, scanned, paths, sized)
        return Fingerprint(told, cut, memory).of(self._base, stage.steps, cuts, output)

    def of_task(self, stage: str, spec: TaskSpec) -> str:
        """The key of a task; `stage` is what it has in common with the others."""
        numbered = (spec.id, spec.tasks) if _knows_its_number(spec.stage) else ()
        return Fingerprint().of(stage, self.of_input(spec.input), numbered)

    def part(self, stage: str, input: Input) -> str:
        """The key of what a stage that is SQL alone gives of one part of its scan."""
        return Fingerprint().of(stage, self.of_input(input))

    def of_input(self, input: Input) -> tuple[object, ...]:
        """What a part of a source is."""
        if isinstance(input, Part):
            return (*self._file(input.file), input.start, input.stop)
        return (replace(input.file, local=""), input.start, input.stop, input.part)

    def of_rows(self, files: Iterable[KeptFile]) -> str:
        """What stands for the rows of files."""
        return Fingerprint().of(*(self._file(file) for file in files if file.path))

    def _file(self, file: KeptFile) -> tuple[object, ...]:
        origin = self._origins.get(file.path) or os.urandom(16).hex()
        return (origin, file.rows, file.bytes, file.checksum)


def described(output: FileOutput | KeptOutput) -> object:
    """What counts of the form of an output."""
    if isinstance(output, KeptOutput):
        return "kept"
    told = (output.format, output.names, output.compression, output.options)
    return (*told, output.own, output.target) if output.own is not None else told


def _in(stage: Stage) -> list[Node]:
    return [node for step in stage.steps for node in walk(step)]


def _read(stage: Stage) -> set[int]:
    source = stage.source
    own = {source.stage} if isinstance(source, StageResult) else set()
    return {*stage.inputs, *own}


def _is_sure(node: Node) -> bool:
    """Whether a part of a plan gives the same whenever it is run on the same files."""
    match node:
        case Call():
            return not node.volatile and node.name[-1].lower() not in _CLOCKS
        case PythonFunction():
            return not node.volatile and bool(node.digest)
        case SharedObject():
            return node.factory is not None
        case Scan():
            return all(file.version for file in node.files)
        case DuckdbQuery():
            return False
        case _:
            return True


def _knows_its_number(stage: Stage) -> bool:
    """Whether functions are told which of the tasks they work for."""
    nodes = _in(stage)
    shards = (p.shard for n in nodes if isinstance(n, PythonFunction) for p in n.parameters)
    return any(isinstance(node, TaskContext) for node in nodes) or any(shards)
