"""The files of one WRITE on their way: their names, how they are written, and which stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zql.errors import InternalError
from zql.execution.fingerprint import made_of
from zql.execution.gathering import can_gather, gathered
from zql.execution.kept import KeptFile
from zql.execution.publish import Publisher
from zql.execution.run import Run
from zql.execution.sink import Target, target_of
from zql.execution.sources import Input
from zql.execution.writing import FileOutput
from zql.expr.expression import Column
from zql.physical.plan import WriteFiles
from zql.storage.format import Split, WrittenFile

Waiting = tuple[list[tuple[str, KeptFile]], list[WrittenFile]]
"""Finished files and the names they will get, and files that were there already and stay."""


class OutputFiles:
    """What the ways to write have in common."""

    def __init__(self, run: Run, sink: WriteFiles) -> None:
        """Raises `StorageError` when what is there forbids to write."""
        self.run = run
        self.sink = sink
        self.target: Target = target_of(sink)
        reuse = run.reuse
        if reuse is None:
            raise InternalError("a plan that writes has no folder for its work")
        self.reuse = reuse
        version = run.host.engine.version()
        options = run.host.settings.storage_options.reveal()
        self.publisher = Publisher(
            self.target, made_of(run.plan, version), reuse.work, reuse.noted, options
        )
        self.publisher.check()

    def paths(self, numbers: Iterable[int], count: int) -> list[str]:
        """The names of these of `count` new shards."""
        first = self.publisher.first_shard
        return [self.target.path(first + number, count) for number in numbers]

    def output(self, path: str) -> FileOutput:
        """How the file for a path is written first."""
        target = self.target
        return FileOutput(
            self.publisher.folder_for(path),
            target.format,
            self.sink.names,
            target.compression,
            target.format_options,
            target.own,
            path,
            target.sharded,
        )

    def kept_of(self, count: int) -> tuple[dict[int, WrittenFile], bool]:
        """The shards of an earlier run that stay, if each part is one; else whether all stay.

        Where that run put parts together a shard that is gone has all of them done again.
        """
        listed = self.publisher.listed_shards()
        if listed in (None, count):
            kept = self.publisher.kept(count)
            return kept, len(kept) == count
        kept = self.publisher.kept(listed)
        return (kept, True) if len(kept) == listed else ({}, False)

    def gathered(
        self,
        paths: Sequence[str],
        files: Sequence[KeptFile],
        columns: Sequence[Column],
        kept: Mapping[int, WrittenFile],
    ) -> Waiting:
        """The files of shards, those that are small put together, unless shards are kept."""
        found = list(files)
        if not kept and found and can_gather(self.target):
            file_size = self.run.host.settings.file_size
            found = gathered(files, columns, self.output(paths[0]), file_size)
        if len(found) == len(files):
            return waiting(list(zip(paths, files, strict=True)), list(kept.values()))
        return self.named(found)

    def named(self, files: Sequence[KeptFile]) -> Waiting:
        """All shards, of which those that an earlier run left stay."""
        count = len(files)
        self.publisher.sources.clear()  # a file may come of several parts
        listed = self.publisher.listed_shards()
        stay = self.publisher.kept(count) if listed == count else {}
        named = list(zip(self.paths(range(count), count), files, strict=True))
        new = [item for n, item in enumerate(named) if n not in stay]
        for path, _ in new:
            self.publisher.folder_for(path)
        return waiting(new, list(stay.values()))

    def tell_sources(self, paths: Sequence[str], inputs: Sequence[Input]) -> None:
        for path, part in zip(paths, inputs, strict=True):
            if isinstance(part, Split):
                self.publisher.sources[path] = part


def waiting(files: Sequence[tuple[str, KeptFile]], kept: Sequence[WrittenFile] = ()) -> Waiting:
    """Finished files with their names, and files that stay."""
    return list(files), list(kept)
