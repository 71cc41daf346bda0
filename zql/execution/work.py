"""The folders of one run that writes, and what dead runs to the same targets have left.

A run has a folder beside each local target, where finished outputs wait for their names, and one
for what stages keep, in the folder for temporary files. The first of them has the journal of what
is finished. The folders are locked while the run lives: one whose lock is free was left by a run
that was killed, or that is to be resumed. A later run to the same targets takes such work up, when
it resumes, or removes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from zql.execution.history import keep_end, last_seen
from zql.execution.journal import Journal, records
from zql.execution.owned_folder import OwnedFolder, found, remove_unused
from zql.execution.settings import Settings
from zql.execution.temporary_folders import make_folder, remove_folder
from zql.failpoints import hit
from zql.storage import files
from zql.tree import node, record

BESIDE = ".zql-work"
"""How the names of folders beside targets begin; readers pass over them."""
KEPT = "zqlwork"
"""How the names of folders for what stages keep begin."""
_JOURNAL = "journal"
_DAY = 86_400.0
DAYS = 7.0
"""How long the work of a dead run may wait for one that takes it up."""


@node
class LeftWork:
    """The work of a dead run, which nobody else touches while this one has it."""

    home: OwnedFolder
    records: tuple[dict[str, Any], ...]
    last_seen: float
    """When it was at work for the last time, in seconds since 1970."""

    @classmethod
    def of(cls, home: OwnedFolder) -> LeftWork:
        """The work in the folder of a dead run."""
        return cls(home, noted(home.path), last_seen(home.path))

    @property
    def targets(self) -> tuple[str, ...]:
        """The outputs of that run."""
        return tuple(str(t) for record in self.records for t in record.get("targets", ()))

    @property
    def folders(self) -> list[str]:
        """All folders of that run, the home last."""
        others = [str(r["folder"]) for r in self.records if "folder" in r]
        return [*(path for path in others if path != self.home.path), self.home.path]

    def remove(self) -> None:
        """Removes all of it, and folders for outputs that have none."""
        keep_end(self.home.path, self.last_seen)
        for path in self.folders[:-1]:
            owned = OwnedFolder.take(path)
            if owned is not None:
                owned.remove()
        self.home.remove()
        for told in reversed(self.records):
            if "made" in told:
                with suppress(OSError):
                    os.rmdir(told["made"])


@record
class Work:
    """The work of one run. Nothing is made before it is needed.

    `targets` are the outputs as texts; `roots` the local folders in which they are.
    """

    settings: Settings
    targets: tuple[str, ...]
    roots: tuple[str, ...]
    resuming: bool = False
    published: bool = False
    left: tuple[dict[str, Any], ...] = ()
    """What dead runs to these targets have noted."""
    _folders: dict[str, OwnedFolder] = field(default_factory=dict)
    _made: list[str] = field(default_factory=list)
    _journal: Journal | None = None
    _left: list[LeftWork] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        """The folders in which this run may have folders of its own."""
        roots = (*self.roots, self.settings.temp_root())
        return list(dict.fromkeys(map(os.path.abspath, roots)))

    def take_up(self) -> list[dict[str, Any]]:
        """What dead runs to these targets have noted, if this one is resuming.

        Else it is removed as soon as there is anything to be kept.
        """
        if not self.targets:
            return []  # a query: nobody takes up its work, and it takes up none
        for root in self.roots:
            self._left += left_work(root, BESIDE, self.targets)
        self._left += left_work(self.settings.temp_root(), KEPT, self.targets)
        self.left = tuple(record for left in self._left for record in left.records)
        return list(self.left) if self.resuming else []

    def beside(self, root: str) -> str:
        """The folder for outputs that will stand in a folder, or below it."""
        return self._folder(root, BESIDE)

    def kept(self, name: str) -> str:
        """A folder for what stages keep."""
        path = os.path.join(self._folder(self.settings.temp_root(), KEPT), name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def make(self, folder: str) -> None:
        """Makes a folder for outputs, which goes again if none comes. Raises `StorageError`."""
        above, missing = folder, []
        while above and not os.path.isdir(above):
            missing.append(os.path.abspath(above))
            above = os.path.dirname(above)
        try:
            os.makedirs(folder or ".", exist_ok=True)
        except OSError as error:
            self._made += missing[::-1]
            raise files.unwritable(folder, error) from None
        self._made += missing[::-1]
        if missing and self._journal is not None:
            self._note_made(missing[::-1])

    def journal(self) -> Journal:
        """Where finished work is noted. The folder that holds it is made first."""
        if self._journal is None:
            if not self.resuming:
                self._remove_left()
            root, prefix = self.settings.temp_root(), KEPT
            if self.roots:
                root, prefix = self.roots[0], BESIDE
                self.make(root[:-1])
            home = self._folders[os.path.abspath(root)] = _owned(root, prefix)
            self._journal = Journal(os.path.join(home.path, _JOURNAL))
            self._journal.add({"targets": self.targets, "began": time.time()})
            self._note_made(self._made)
        return self._journal

    def close(self) -> None:
        """Removes the work of a run that is done, or that nobody will resume; else lets it lie."""
        if self._journal is not None:
            self._journal.close()
        owned = list(self._folders.values())
        self._folders = {}
        stays = self.resuming and self.settings.resume and not self.published
        for folder in reversed(owned):
            if stays:
                folder.release()
            else:
                folder.remove()
        if self.published:
            self._remove_left()
        for left in self._left:
            left.home.release()
        self._left = []
        if not stays:
            for path in reversed(self._made):
                with suppress(OSError):
                    os.rmdir(path)
        self._made = []

    def _folder(self, root: str, prefix: str) -> str:
        journal, place = self.journal(), os.path.abspath(root)
        if place not in self._folders:
            self._folders[place] = _owned(root, prefix)
            journal.add({"folder": self._folders[place].path})
        return self._folders[place].path

    def _note_made(self, folders: Sequence[str]) -> None:
        for path in folders:
            self.journal().add({"made": path})

    def _remove_left(self) -> None:
        for left in self._left:
            left.remove()
        self._left = []


def _owned(root: str, prefix: str) -> OwnedFolder:
    try:
        if prefix == KEPT:
            path = os.path.abspath(make_folder(root, prefix))
        else:
            path = os.path.abspath(f"{root}{prefix}-{os.getpid()}-{os.urandom(8).hex()}")
            os.mkdir(path, 0o700)
    except OSError as error:
        raise files.unwritable(root[:-1] or ".", error) from None
    try:
        hit("folder_made")
        return OwnedFolder.own(path)
    except OSError as error:
        remove_folder(path)
        raise files.unwritable(path, error) from None


def left_work(root: str, prefix: str, targets: Sequence[str] = ()) -> Iterator[LeftWork]:
    """The work of dead runs with a journal in a folder: to some of these targets, or to any."""
    for path in found(root, prefix):
        if not os.path.exists(os.path.join(path, _JOURNAL)):
            remove_unused(path)
            continue
        home = OwnedFolder.take(path)
        if home is None:
            remove_unused(path)
            continue
        left = LeftWork.of(home)
        if not targets or set(left.targets) & set(targets):
            yield left
        else:
            home.release()


def noted(folder: str) -> tuple[dict[str, Any], ...]:
    """The records of the journal in a folder of a run; none when there is no journal."""
    return tuple(records(os.path.join(folder, _JOURNAL)))


def remove_old(root: str) -> None:
    """Removes what dead runs keep in a folder for temporary files and nobody has taken up."""
    for path in found(root, KEPT):
        home = OwnedFolder.take(path)
        if home is None:
            continue
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime > DAYS * _DAY:
                home.remove()
        home.release()
