"""A folder of results that stay between runs: for each key a folder with its files.

An entry appears by one rename, so that runs may share a cache. Its files are links where the file
system has them: a result that is also an output takes no room twice.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zql.errors import StorageError
from zql.execution.cache_users import CacheUser, keys_in_use
from zql.execution.kept import link
from zql.user_cache import is_private

_ENTRY = "entry.json"
_WAITING = ".waiting-"
_DAY = 86_400.0


class CacheFolder:
    """The cache in one folder."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._user = CacheUser(self.path)

    def open(self) -> None:
        """Makes the folder, if need be. Raises `StorageError` for one that is of no use."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            reason = "" if is_private(Path(self.path)) else "others can write there"
        except OSError as error:
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            reason = "it is a file" if is_file else str(error.strerror)
        if reason:
            raise StorageError(
                f"cannot keep results in {self.path}: {reason}",
                code="R754",
                hint="SET cache to a folder of your own",
            )

    def find(self, key: str, folder: str | None) -> dict[str, Any] | None:
        """The record of an entry, with its files linked into a folder; None when there is none.

        Without a folder they stay where they are, for a look.
        """
        place = os.path.join(self.path, key)
        if folder is not None and os.path.isdir(place):
            self._user.uses(key)
        try:
            with open(os.path.join(place, _ENTRY), encoding="utf-8") as file:
                record, names = json.load(file)
            places = {path: os.path.join(place, name) for path, name in names.items()}
            if folder is not None:
                os.utime(place)
                for path, name in names.items():
                    places[path] = os.path.join(folder, f"{key}-{name}")
                    link(os.path.join(place, name), places[path])
            found: dict[str, Any] = _moved(record, places)
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return found

    def add(self, key: str, record: Mapping[str, Any], paths: Sequence[str]) -> None:
        """Keeps the record of a key and its files. A cache that cannot be written is no error."""
        place = os.path.join(self.path, key)
        waiting = os.path.join(self.path, f"{_WAITING}{os.getpid()}-{os.urandom(6).hex()}")
        names = {path: str(number) for number, path in enumerate(paths) if path}
        try:
            os.makedirs(waiting, mode=0o700)
            for path, name in names.items():
                link(path, os.path.join(waiting, name))
            with open(os.path.join(waiting, _ENTRY), "w", encoding="utf-8") as file:
                json.dump([record, names], file)
            if os.path.exists(place):
                shutil.rmtree(place)
            os.rename(waiting, place)
        except OSError:
            shutil.rmtree(waiting, ignore_errors=True)

    def close(self, most: int | None = None) -> None:
        """Nothing of it is used here any more. What was not used for longest goes, until what is
        there has `most` bytes; what runs use that live does not go.
        """
        self._user.done()
        if most is None:
            return
        entries = list(self._entries())
        total = sum(size for _, _, size in entries)
        used = keys_in_use(self.path) if total > most else set()
        for _, place, size in sorted(entries):
            if total <= most:
                return
            if os.path.basename(place) not in used and _removed(place):
                total -= size

    def _entries(self) -> Iterator[tuple[float, str, int]]:
        """When each entry was used last, where it is, and its bytes."""
        with suppress(OSError):
            for name in os.listdir(self.path):
                place = os.path.join(self.path, name)
                with suppress(OSError):  # another process may remove it meanwhile
                    if not name.startswith(".") and os.path.isfile(os.path.join(place, _ENTRY)):
                        yield os.stat(place).st_mtime, place, size_of(place)

    def old(self, days: float) -> Iterator[tuple[str, int]]:
        """Entries that nobody uses, or has used for so many days, and what is half made: paths and
        bytes.
        """
        used = keys_in_use(self.path)
        with suppress(OSError):
            for name in sorted(os.listdir(self.path)):
                place = os.path.join(self.path, name)
                is_entry = os.path.isfile(os.path.join(place, _ENTRY))
                limit = days if is_entry and not name.startswith(_WAITING) else min(days, 1.0)
                is_ours = (is_entry and name not in used) or name.startswith(_WAITING)
                if is_ours and time.time() - os.stat(place).st_mtime >= limit * _DAY:
                    yield place, size_of(place)


def _removed(place: str) -> bool:
    """Removes an entry, at once for who looks for it; False when another process has."""
    gone = os.path.join(os.path.dirname(place), f"{_WAITING}{os.getpid()}-{os.urandom(6).hex()}")
    try:
        os.rename(place, gone)
    except OSError:
        return False
    shutil.rmtree(gone, ignore_errors=True)
    return True


def size_of(folder: str) -> int:
    """The bytes of the files in a folder, at any depth."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    """The record with the paths at which its files are now."""
    if isinstance(value, dict):
        return {
            name: places.get(part, part) if name == "path" else _moved(part, places)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_moved(part, places) for part in value]
    return value
