"""What dead runs have left behind, and results of caches that nobody uses: found, and removed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial

from zql.execution.cache_folder import CacheFolder, size_of
from zql.execution.owned_folder import OwnedFolder, found, is_orphan
from zql.execution.temporary_folders import remove_any, remove_folder, stale_folders
from zql.execution.work import BESIDE, KEPT, LeftWork
from zql.storage.files import discard
from zql.tree import node

_UNPUBLISHED = re.compile(r"\.zql-[0-9a-f]{16}\.tmp")
_HOUR = 3600.0
_SHARED = "/dev/shm"  # noqa: S108 - nothing is made there
_SEMAPHORE = re.compile(r"sem\.(?:loky|mp)-(\d+)-\w+")


@node
class LeftOver:
    """One thing that can go: a folder or a file, and what it is."""

    path: str
    bytes: int
    what: str
    remove: Callable[[], None] = field(repr=False, compare=False)


def left_overs(
    places: Sequence[str], caches: Sequence[str], days: float, pids: Sequence[int] = ()
) -> Iterator[LeftOver]:
    """Left-overs in folders in which runs may have had work, in caches what was not used for so
    many days, and what was shared by processes with these ids. What belongs to a run that lives is
    none.
    """
    yield from _semaphores(frozenset(pids))
    for place in dict.fromkeys(map(_absolute, places)):
        for prefix in (BESIDE, KEPT):
            for path in found(place, prefix):
                owned = OwnedFolder.take(path)
                if owned is not None:
                    left = LeftWork.of(owned)
                    yield LeftOver(path, size_of(path), "work of a dead run", left.remove)
                    owned.release()
                elif is_orphan(path):
                    remove = partial(remove_folder, path)
                    yield LeftOver(path, size_of(path), "work of a dead run", remove)
        for path in stale_folders(place):
            what = "temporary files of a dead run"
            yield LeftOver(path, size_of(path), what, partial(remove_any, path))
        yield from _unpublished(place)
    for cache in dict.fromkeys(caches):
        for path, size in CacheFolder(cache).old(days):
            what = f"a result that was not used for {days:g} days"
            yield LeftOver(path, size, what, partial(remove_folder, path))


def _absolute(place: str) -> str:
    """One name for a folder; addresses of object stores stay."""
    return place if "://" in place else os.path.abspath(place)


def _semaphores(pids: frozenset[int]) -> Iterator[LeftOver]:
    """Those of runs that were killed with all their processes: nobody was left to remove them."""
    with suppress(OSError):
        for name in sorted(os.listdir(_SHARED)):
            named = _SEMAPHORE.fullmatch(name)
            path = os.path.join(_SHARED, name)
            if named and int(named[1]) in pids and not os.path.exists(f"/proc/{named[1]}"):
                size = os.lstat(path).st_size
                yield LeftOver(path, size, "a semaphore of a dead run", partial(discard, path))


def _unpublished(place: str) -> Iterator[LeftOver]:
    """Small files that a run was about to give their names when it was killed."""
    with suppress(OSError):
        for name in sorted(os.listdir(place)):
            path = os.path.join(place, name)
            if _UNPUBLISHED.fullmatch(name) and time.time() - os.stat(path).st_mtime > _HOUR:
                size = os.stat(path).st_size
                yield LeftOver(path, size, "a file without a name", partial(discard, path))
