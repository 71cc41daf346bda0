"""The files of one WRITE on their way: their names, how they are written, and which stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zql.errors import InternalError
from zql.execution.fingerprint import made_of
from zql.execution.gathering import Sources, can_gather, gathered, joined
from zql.execution.kept import KeptFile
from zql.execution.publish import Publisher
from zql.execution.run import Run
from zql.execution.sink import Target, target_of
from zql.execution.sizes import runs
from zql.execution.sources import Input
from zql.execution.stages import input_bytes, shuffled_bytes
from zql.execution.writing import FileOutput
from zql.expr.expression import Column
from zql.physical.plan import Stage, WriteFiles
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
        both = dict(self.target.options).get("write_partition_columns")
        apart = () if both else self.target.partition_by
        self.names = tuple(name for name in sink.names if name not in apart)
        """The users' names of the columns in the files."""

    def written(self, columns: Sequence[Column]) -> list[tuple[str, Column]]:
        """Those of a stage's columns that stand in the files, under the users' names."""
        return [(name, c) for name, c in self.named_columns(columns) if name in self.names]

    def named_columns(self, columns: Sequence[Column]) -> list[tuple[str, Column]]:
        """A stage's columns under the users' names, with those that name folders."""
        own = (c for c in columns if c != self.sink.shard)
        return list(zip(self.sink.names, own, strict=True))

    def input_bytes(self, stage: Stage) -> int:
        """The bytes of what a stage reads."""
        return input_bytes(stage, self.run.plan.stages, self.run.results)

    def shuffled_bytes(self, stage: Stage) -> int:
        """The bytes of what rows in an order by chance were made of; 0 when they are in another."""
        return shuffled_bytes(stage, self.run.plan.stages, self.run.results)

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
            self.names,
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
        kept: Mapping[int, WrittenFile] | None,
    ) -> Waiting:
        """The files of shards, those that are small put together, unless shards are kept.

        `kept` is None where the rows come in another order each time: then no file stays.
        """
        if not kept and files and can_gather(self.target):
            file_size = self.run.host.settings.file_size
            sources = [self.publisher.sources.get(path, ()) for path in paths]
            found = gathered(files, sources, columns, self.output(paths[0]), file_size)
            if len(found) < len(files):
                made, sources = [file for file, _ in found], [each for _, each in found]
                return self.named(made, sources, same_rows=kept is not None)
        return waiting(list(zip(paths, files, strict=True)), list((kept or {}).values()))

    def named(
        self,
        files: Sequence[KeptFile],
        sources: Sequence[Sources] = (),
        *,
        same_rows: bool = False,
    ) -> Waiting:
        """All shards, made anew; `sources` are their parts.

        Those that an earlier run left stay if each has the `same_rows` as before. Else its rows may
        have come in another order, so that a row of one of its files may be in another one now.
        """
        paths = self.paths(range(len(files)), len(files))
        self.publisher.sources = dict(zip(paths, sources, strict=False))
        stay: dict[int, WrittenFile] = {}
        if same_rows and self.publisher.listed_shards() == len(files):
            stay = self.publisher.kept(len(files))
        named = list(zip(paths, files, strict=True))
        new = [item for number, item in enumerate(named) if number not in stay]
        for path, _ in new:
            self.publisher.folder_for(path)
        return waiting(new, list(stay.values()))

    def put_together(
        self, pieces: Sequence[KeptFile], columns: Sequence[Column], form: FileOutput
    ) -> list[KeptFile]:
        """The pieces of a file to be as one, or as several where they are more than fits."""
        sizes = [piece.bytes for piece in pieces]
        most = self.target.file_size or sum(sizes)
        # Files of a writer of the user's own cannot be joined.
        groups = runs(sizes, 0 if self.sink.own else most, most)
        return joined(pieces, groups, columns, form)

    def tell_sources(self, paths: Sequence[str], inputs: Sequence[Input]) -> None:
        for path, part in zip(paths, inputs, strict=True):
            if isinstance(part, Split):
                self.publisher.sources[path] = (part,)


def waiting(files: Sequence[tuple[str, KeptFile]], kept: Sequence[WrittenFile] = ()) -> Waiting:
    """Finished files with their names, and files that stay."""
    return list(files), list(kept)
