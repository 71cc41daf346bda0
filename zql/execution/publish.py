"""Outputs of one WRITE: what is there before, and how the new files appear, all or none.

Files are written into a hidden folder beside where they belong, and get their names only when
all of them are done. Beside shards a manifest says what they are and what made them; `_SUCCESS`
comes last, and is there only while all of them are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from zql.errors import StorageError
from zql.execution import sink
from zql.execution.fingerprint import absolute
from zql.execution.history import written_by
from zql.execution.kept import KeptFile
from zql.execution.sink import Target
from zql.execution.work import Work
from zql.failpoints import hit
from zql.schema import DataType
from zql.storage import files
from zql.storage.format import Split, WrittenFile
from zql.storage.manifest import MANIFEST, SUCCESS, read_manifest

_SOURCES = ("input", "range", "inputs")

Columns = Sequence[tuple[str, DataType]]
Facts = Mapping[str, Any]


class Publisher:
    """Prepares a target and publishes its files; one for each WRITE."""

    def __init__(
        self,
        target: Target,
        made_of: Facts,
        work: Work,
        noted: Sequence[Facts],
        storage_options: Mapping[str, Any],
    ) -> None:
        """`made_of` says what the outputs depend on, its `plan` stands for all of it.

        `noted` is what dead runs to the target have noted in their journals.
        """
        self.target = target
        self.sources: dict[str, tuple[Split, ...]] = {}
        """The parts of input files of which shards are made, by the shards' paths."""
        self._made_of = made_of
        self.plan = str(made_of["plan"])
        """A hash of all that the outputs depend on."""
        self._work = work
        self._noted = noted
        self._storage_options = storage_options
        self._existing: dict[str, int] = {}
        self._told: dict[str, dict[str, Any]] = {}
        """What a manifest says of the sources of files that stay."""
        self._folders: set[str] = set()

    @property
    def _resuming(self) -> bool:
        """Whether files that this very plan has made stay."""
        return self.target.mode == "skip" or self._work.settings.resume

    @property
    def first_shard(self) -> int:
        """The number of the first new shard: behind those that are there, when appending."""
        return self._next_shard(self._existing)

    def _next_shard(self, existing: Mapping[str, int]) -> int:
        if self.target.mode != "append" or not existing:
            return 0
        return max(existing.values()) + 1

    def check(self) -> None:
        """Looks at what is there. Raises `StorageError` when the mode forbids to go on."""
        target = self.target
        if not target.remote and os.path.isdir(target.pattern):
            raise StorageError(
                f"{target.pattern} is a folder",
                code="R752",
                hint=f"to write files into it: '{target.pattern}/'",
            )
        is_one = not target.remote and not target.sharded
        if is_one and os.path.exists(target.pattern) and not os.path.isfile(target.pattern):
            raise StorageError(
                f"{target.pattern} is a device or a pipe, not a file",
                code="R752",
                hint="zql -c '..' without WRITE prints to the standard output, -o to a file",
            )
        self._existing = sink.existing(target, self._storage_options)
        there = [*self._existing, *sink.others(target, self._storage_options)]
        if target.mode == "error" and there and not self._is_mine(there):
            raise _exists(there)

    def listed_shards(self) -> int | None:
        """How many shards this very plan has made before, with mode skip or resuming, if any."""
        if not self._resuming:
            return None
        if self.target.mode == "append":
            return max(map(len, self._additions()), default=0) or None
        return len(self._mine()) or None

    def kept(self, shards: int) -> dict[int, WrittenFile]:
        """The shards that are there and were made by this very plan, with mode skip or resuming.

        With mode skip it raises `StorageError` when there are files that anything else made.
        """
        if not self._resuming:
            return {}
        if self.target.mode == "append":
            return self._appended(shards)
        wanted = {self.target.path(number, shards): number for number in range(shards)}
        return {wanted[path]: file for path, file in self.kept_of(wanted).items()}

    def kept_all(self) -> list[WrittenFile]:
        """All files that this very plan has made before, with mode skip or resuming, if none of
        them is gone; raises as `kept` does.
        """
        if not self._resuming:
            return []
        if self.target.mode == "append":
            return list(self._appended(self.listed_shards() or 0).values())
        listed = {path for path in self._mine() if self.target.shard_of(path) is not None}
        found = self.kept_of(listed)
        return list(found.values()) if len(found) == len(listed) else []

    def kept_of(self, wanted: Container[str]) -> dict[str, WrittenFile]:
        """Those of these paths that are there and that this very plan has made; see `kept`."""
        if not self._resuming or self.target.mode == "append":
            return {}
        mine = self._mine()
        found = {}
        for path in self._existing:
            facts = mine.get(path)
            if facts is not None and path in wanted and self._size(path) == facts["bytes"]:
                found[path] = _written(path, facts)
                self._told[path] = {n: facts[n] for n in _SOURCES if n in facts}
            elif self.target.mode == "skip":
                raise StorageError(
                    f"{files.shown(path)} exists, and it is not what this plan makes of this input",
                    code="R753",
                    hint="the script, a function or an input has changed since: "
                    "OPTIONS (mode = 'overwrite') makes all files anew",
                )
            elif self.target.mode == "error":
                raise _exists([path])
        return found

    def folder_for(self, path: str) -> str:
        """The folder in which the file for a path is written first; made if need be."""
        if self.target.remote:
            return self._work.kept("out")
        folder = os.path.dirname(path)
        if folder not in self._folders:
            self._folders.add(folder)
            self._work.make(folder)
        return self._work.beside(self.target.root)

    def publish(
        self,
        outputs: Sequence[tuple[str, KeptFile]],
        kept: Sequence[WrittenFile],
        columns: Columns,
    ) -> list[WrittenFile]:
        """Gives files their names, in order, and removes those that they replace."""
        with self._locked():
            self._take_back()
            outputs = self._still_free(outputs)
            done = [*kept, *(_finished(path, file) for path, file in outputs)]
            old = self._replaceable() - {file.path for file in done}
            self._note(outputs)
            with self._all_or_none(outputs):
                self._write_manifest(list(kept), columns, finished=False)
                pairs = [(file.path, path) for path, file in outputs]
                files.publish_all(pairs, self._storage_options)
            hit("files_named")
            for path in old:
                files.remove(path, self._storage_options)
            self._remove_folders({os.path.dirname(path) for path in old})
            self._write_manifest(done, columns, finished=True)
        return done

    def _replaceable(self) -> set[str]:
        """Files that are gone afterwards, unless they are among the outputs: of this plan's own
        there may be fewer now.
        """
        match self.target.mode:
            case "append":
                return set()
            case "overwrite":
                return self._existing.keys() | self._in_other_folders()
            case _:
                return self._existing.keys() & self._mine().keys()

    @contextmanager
    def _all_or_none(self, outputs: Sequence[tuple[str, KeptFile]]) -> Iterator[None]:
        """Takes names back when one cannot be given, where nothing was replaced by the others.

        A run that may be resumed goes on with those that it has.
        """
        new = self.target.mode in ("error", "append") and not self._resuming
        before = self._manifest() if new and self.target.sharded else None
        success = self.target.root + SUCCESS
        whole = before is not None and self._size(success) >= 0
        try:
            yield
        except Exception:
            for path, file in outputs if new else ():
                named = not os.path.exists(file.path) and self._size(path) == file.bytes
                with suppress(OSError, StorageError):
                    if named:
                        files.remove(path, self._storage_options)
            if before is not None:
                self._store(before)
            if whole:
                files.write_whole(success, b"", self._storage_options)
            raise

    def _remove_folders(self, folders: set[str]) -> None:
        """Removes folders of values that have no rows any more, with those above them."""
        if self.target.remote:
            return
        for folder in folders:
            while "=" in os.path.basename(folder) and len(folder) >= len(self.target.root):
                with suppress(OSError):
                    os.rmdir(folder)
                folder = os.path.dirname(folder)  # noqa: PLW2901 - the one above

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """While it lasts no other run on this machine gives names to files in the same folder."""
        if self.target.remote:
            yield
            return
        descriptor = os.open(self.target.root or ".", os.O_RDONLY)
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass  # there are no locks here
        try:
            yield
        finally:
            os.close(descriptor)

    def _still_free(self, outputs: Sequence[tuple[str, KeptFile]]) -> list[tuple[str, KeptFile]]:
        """The outputs under names that no other run has taken meanwhile."""
        before, self._existing = self._existing, sink.existing(self.target, self._storage_options)
        new = [path for path in self._existing if path not in before]
        if new and self.target.mode == "error" and outputs:
            raise _exists(new)
        behind = self._next_shard(self._existing) - self._next_shard(before)
        if not behind:
            return list(outputs)
        return [(self.target.behind(path, behind), file) for path, file in outputs]

    def _other_entries(self, manifest: Facts) -> list[str]:
        """Sets of files that the same WRITE made with other columns in `partition_by`."""
        name = self._entry.rpartition("/")[2]
        return [
            entry
            for entry in manifest["targets"]
            if self.target.is_folder and entry != self._entry and entry.rpartition("/")[2] == name
        ]

    def _in_other_folders(self) -> set[str]:
        """The files of those sets, as far as they are what the manifest says."""
        manifest = self._manifest()
        listed = {
            self.target.root + path: facts
            for entry in self._other_entries(manifest)
            for path, facts in manifest["targets"][entry].get("files", {}).items()
        }
        return {path for path, facts in listed.items() if self._size(path) == facts["bytes"]}

    def _take_back(self) -> None:
        """Removes what dead runs were about to add: it never counted, and this run adds all again.

        All that this very plan had named stays where the run goes on from there.
        """
        if self.target.mode != "append":
            return
        known = self._manifest()["targets"].get(self._entry, {}).get("files", {})
        for listed in self._begun(own=self._resuming):
            there = [n for n, f in listed.items() if self._size(self.target.root + n) == f["bytes"]]
            if self._resuming and len(there) == len(listed):
                continue
            for name in there:
                if name not in known:
                    files.remove(self.target.root + name, self._storage_options)

    def _begun(self, *, own: bool = True) -> list[Mapping[str, Facts]]:
        """For each dead run, of this plan or of any, the files that it was about to name."""
        noted = [r for r in (self._noted if own else self._work.left) if "publishing" in r]
        return [r["publishing"] for r in noted if not own or r.get("plan") == self.plan]

    # ---- what is there already ------------------------------------------------------------------

    def _is_mine(self, there: Sequence[str]) -> bool:
        """Whether this may be what this very plan has written before."""
        return self._resuming and self._mine().keys() >= set(there)

    def _mine(self) -> dict[str, Facts]:
        """Files that this very plan has written, or was about to, by their paths."""
        found: dict[str, Facts] = {}
        for listed in self._begun():
            found |= {self.target.root + name: facts for name, facts in listed.items()}
        entry = self._manifest()["targets"].get(self._entry, {})
        if not self.target.sharded:
            found |= written_by(self.plan, self.target.pattern, self._storage_options)
        if entry.get("plan") == self.plan:
            found |= {self.target.root + name: f for name, f in entry.get("files", {}).items()}
        return found

    def _appended(self, shards: int) -> dict[int, WrittenFile]:
        """All of the shards, when this very plan has added them before."""
        for listed in self._additions():
            found = {self.target.root + name: facts for name, facts in listed.items()}
            there = {p: f for p, f in found.items() if f and self._size(p) == f["bytes"]}
            if len(there) == shards == len(found):
                return {number: _written(path, there[path]) for number, path in enumerate(there)}
        return {}

    def _additions(self) -> list[Mapping[str, Facts]]:
        """What this very plan has added, and what dead runs of it had named, or a part of it."""
        entry = self._manifest()["targets"].get(self._entry, {})
        names = entry.get("appended", {}).get(self.plan, [])
        listed = {name: entry["files"].get(name, {}) for name in names}
        begun = [each for each in self._begun() if each.keys().isdisjoint(entry.get("files", {}))]
        return [each for each in (listed, *begun) if each]

    def _note(self, outputs: Sequence[tuple[str, KeptFile]]) -> None:
        """Notes which names are about to be given: a run that is killed meanwhile goes on there."""
        if outputs:
            listed = self._listed([_finished(path, file) for path, file in outputs])
            self._work.journal().add({"plan": self.plan, "publishing": listed})

    # ---- the manifest --------------------------------------------------------------------------

    @property
    def _entry(self) -> str:
        return self.target.entry

    def _relative(self, path: str) -> str:
        return path[len(self.target.root) :]

    def _manifest(self) -> dict[str, Any]:
        return read_manifest(self.target.root, self._storage_options)

    def _write_manifest(
        self, done: Sequence[WrittenFile], columns: Columns, *, finished: bool
    ) -> None:
        """Says of a set of files what made them, and of a file without rows what its columns are.

        Another file has no manifest but for mode skip.
        """
        if not self.target.sharded and self.target.mode != "skip":
            if finished and (self._existing or not any(f.rows for f in done)):
                self._say_columns(done, columns)
            return
        if not finished:
            self._unfinish()
        manifest = self._manifest()
        entry = {**self._made_of, "finished": finished, "files": self._listed(done)}
        if self.target.mode == "append":
            entry = self._added(manifest["targets"].get(self._entry, {}), entry, finished)
        if finished and self.target.mode == "overwrite":
            for other in self._other_entries(manifest):
                del manifest["targets"][other]
        manifest["targets"][self._entry] = {**entry, "columns": list(columns)}
        self._store(manifest)
        if finished and self.target.sharded:
            self._succeed(manifest)

    def _added(self, before: Facts, entry: Facts, finished: bool) -> dict[str, Any]:
        """The entry of shards that several plans have made one after the other."""
        found = {**entry, "plan": "", "files": {**before.get("files", {}), **entry["files"]}}
        appended = dict(before.get("appended", {}))
        if finished and entry["files"]:
            appended[self.plan] = list(entry["files"])
        return {**found, "appended": appended}

    def _unfinish(self) -> None:
        """From here on the files are on their way to be others."""
        if self.target.sharded:
            files.remove(self.target.root + SUCCESS, self._storage_options)

    def _succeed(self, manifest: Facts) -> None:
        """The last step: every set of files in the folder is whole."""
        if all(entry.get("finished") for entry in manifest["targets"].values()):
            hit("before_success")
            files.write_whole(self.target.root + SUCCESS, b"", self._storage_options)

    def _say_columns(self, done: Sequence[WrittenFile], columns: Columns) -> None:
        """Of one file: an entry while it has no rows, none while it has."""
        manifest = self._manifest()
        before = manifest["targets"].pop(self._entry, None)
        if self.target.format != "parquet" and not any(f.rows for f in done):
            entry = {"plan": "", "finished": True, "files": self._listed(done)}
            manifest["targets"][self._entry] = {**entry, "columns": list(columns)}
            self._store(manifest)
        elif before is not None:
            self._store(manifest)

    def _listed(self, done: Sequence[WrittenFile]) -> dict[str, dict[str, Any]]:
        return {self._relative(file.path): self._facts(file) for file in done}

    def _facts(self, file: WrittenFile) -> dict[str, Any]:
        facts: dict[str, Any] = {"rows": file.rows, "bytes": file.bytes}
        if file.checksum:
            facts["crc32"] = file.checksum
        parts = inputs_of(self.sources[file.path]) if file.path in self.sources else ()
        if len(parts) == 1:
            return {**facts, **parts[0]}
        return {**facts, "inputs": parts} if parts else facts | self._told.get(file.path, {})

    def _store(self, manifest: dict[str, Any]) -> None:
        path = self.target.root + MANIFEST
        if not manifest["targets"]:
            files.remove(path, self._storage_options)
            return
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        files.write_whole(path, text.encode(), self._storage_options)

    def _size(self, path: str) -> int:
        found = files.stat_file(path, self._storage_options)
        return found.size if found is not None else -1


def inputs_of(parts: Sequence[Split]) -> list[dict[str, Any]]:
    """Files and ranges of them, for a manifest: parts that follow one another are one range."""
    found: list[dict[str, Any]] = []
    for part in parts:
        path = files.shown(absolute(part.file.path))
        if part.start is None:
            found.append({"input": path})
        elif found and found[-1]["input"] == path and _end(found[-1]) == part.start:
            found[-1]["range"][1] = part.stop
        else:
            found.append({"input": path, "range": [part.start, part.stop]})
    return found


def _end(entry: Facts) -> int | None:
    """Where the range of an input ends; None of a whole file."""
    return entry["range"][1] if "range" in entry else None


def _finished(path: str, file: KeptFile) -> WrittenFile:
    return WrittenFile(path, file.rows, file.bytes, file.checksum)


def _written(path: str, facts: Facts) -> WrittenFile:
    return WrittenFile(path, facts["rows"], facts["bytes"], facts.get("crc32", ""))


def _exists(there: Sequence[str]) -> StorageError:
    more = f", and {len(there) - 1} more" if there[1:] else ""
    return StorageError(
        f"{files.shown(there[0])} exists{more}",
        code="R752",
        hint="write elsewhere, or OPTIONS (mode = 'overwrite'), 'append' or 'skip'",
    )
