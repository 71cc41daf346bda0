"""Outputs of one WRITE: what is there before, and how the new files appear, all or none.

Files are written under hidden names in the folder where they belong, and get their names only when
all of them are done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from zql.errors import StorageError
from zql.execution import sink
from zql.execution.kept import KeptFile
from zql.execution.sink import Target
from zql.failpoints import hit
from zql.schema import DataType
from zql.storage import files
from zql.storage.format import WrittenFile
from zql.storage.leftovers import hidden_prefix, remove_stale
from zql.storage.manifest import MANIFEST, read_manifest

Columns = Sequence[tuple[str, DataType]]


class Publisher:
    """Prepares a target, publishes its files, and cleans up; one for each WRITE."""

    def __init__(
        self, target: Target, fingerprint: str, staging: str, storage_options: Mapping[str, Any]
    ) -> None:
        """`fingerprint` stands for plan and input; remote files wait in the folder `staging`."""
        self.target = target
        self.prefix = f"{hidden_prefix()}{os.urandom(6).hex()}-"
        self._fingerprint = fingerprint
        self._staging = staging
        self._storage_options = storage_options
        self._existing: dict[str, int] = {}
        self._made: list[str] = []
        self._folders: set[str] = set()

    @property
    def first_shard(self) -> int:
        """The number of the first new shard: behind those that are there, when appending."""
        if self.target.mode != "append" or not self._existing:
            return 0
        return max(self._existing.values()) + 1

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
        if target.mode == "error" and there:
            more = f", and {len(there) - 1} more" if there[1:] else ""
            raise StorageError(
                f"{files.shown(there[0])} exists{more}",
                code="R752",
                hint="write elsewhere, or OPTIONS (mode = 'overwrite'), 'append' or 'skip'",
            )

    def listed_shards(self) -> int | None:
        """With mode skip, how many shards this very plan made before; None when it made none."""
        if self.target.mode != "skip":
            return None
        entry = self._manifest()["targets"].get(self._entry, {})
        listed = entry.get("files", {}) if entry.get("plan") == self._fingerprint else {}
        return len(listed) or None

    def kept(self, shards: int) -> dict[int, WrittenFile]:
        """With mode skip, the shards that are there and were made by this very plan.

        Raises `StorageError` when there are files that anything else made.
        """
        if self.target.mode != "skip":
            return {}
        entry = self._manifest()["targets"].get(self._entry, {})
        listed = entry.get("files", {}) if entry.get("plan") == self._fingerprint else {}
        wanted = {self.target.path(number, shards): number for number in range(shards)}
        found = {}
        for path in self._existing:
            facts = listed.get(self._relative(path))
            if facts is None or path not in wanted or self._size(path) != facts["bytes"]:
                raise StorageError(
                    f"{files.shown(path)} exists, and it is not what this plan makes of this input",
                    code="R753",
                    hint="the script, a function or an input has changed since: "
                    "OPTIONS (mode = 'overwrite') makes all files anew",
                )
            found[wanted[path]] = WrittenFile(path, facts["rows"], facts["bytes"])
        return found

    def folder_for(self, path: str) -> str:
        """The folder in which the file for a path is written first; made if need be."""
        if self.target.remote:
            return self._staging
        folder = os.path.dirname(path)
        if folder not in self._folders:
            self._folders.add(folder)
            self._make(folder)
            remove_stale(folder)
        return folder

    def publish(
        self,
        outputs: Sequence[tuple[str, KeptFile]],
        kept: Sequence[WrittenFile],
        columns: Columns,
    ) -> list[WrittenFile]:
        """Gives files their names, in order, and removes those that they replace."""
        done = list(kept)
        self._write_manifest(done, columns, finished=False)
        files.publish_all([(file.path, path) for path, file in outputs], self._storage_options)
        hit("files_named")
        done += [WrittenFile(path, file.rows, file.bytes) for path, file in outputs]
        if self.target.mode == "overwrite":
            for path in self._existing.keys() - {file.path for file in done}:
                files.remove(path, self._storage_options)
        self._write_manifest(done, columns, finished=True)
        self._made = []
        return done

    def clean(self) -> None:
        """Removes what was not published: temporary files, and folders made for them."""
        for folder in self._folders:
            with suppress(OSError):
                for name in os.listdir(folder or "."):
                    if name.startswith(self.prefix):
                        files.discard(os.path.join(folder, name))
        for folder in self._made:
            with suppress(OSError):
                os.rmdir(folder)

    def _make(self, folder: str) -> None:
        above = folder
        while above and not os.path.isdir(above):
            self._made.append(above)
            above = os.path.dirname(above)
        try:
            os.makedirs(folder or ".", exist_ok=True)
        except OSError as error:
            raise files.unwritable(folder, error) from None

    # ---- the manifest --------------------------------------------------------------------------

    @property
    def _entry(self) -> str:
        return self._relative(self.target.pattern)

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
        manifest = self._manifest()
        listed = self._listed(done)
        plan = self._fingerprint
        if self.target.mode == "append":
            before = manifest["targets"].get(self._entry, {})
            listed, plan = {**before.get("files", {}), **listed}, ""
        entry = {"plan": plan, "finished": finished, "files": listed, "columns": list(columns)}
        manifest["targets"][self._entry] = entry
        self._store(manifest)

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

    def _listed(self, done: Sequence[WrittenFile]) -> dict[str, dict[str, int]]:
        return {self._relative(f.path): {"rows": f.rows, "bytes": f.bytes} for f in done}

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
