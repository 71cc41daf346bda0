"""Which results of a cache are in use: each run that lives has a file there that says so.

The file is locked while its process lives, and stale when it is dead, however it ended.
"""

from __future__ import annotations

import os
from contextlib import suppress

from zql.execution.journal import Journal, has_writer, records

_FOLDER = ".users"


class CacheUser:
    """One run that uses a cache."""

    def __init__(self, cache: str) -> None:
        self._folder = os.path.join(cache, _FOLDER)
        self._journal: Journal | None = None
        self._keys: set[str] = set()

    def uses(self, key: str) -> None:
        """Says so before a result is touched. A cache that cannot be written is no error."""
        if key in self._keys:
            return
        self._keys.add(key)
        with suppress(OSError):
            if self._journal is None:
                os.makedirs(self._folder, 0o700, exist_ok=True)
                name = f"{os.getpid()}-{os.urandom(6).hex()}"
                self._journal = Journal(os.path.join(self._folder, name))
                self._journal.lock()
            self._journal.add({"key": key})

    def done(self) -> None:
        """Nothing is used any more; twice does no harm."""
        journal, self._journal = self._journal, None
        if journal is not None:
            with suppress(OSError):
                os.unlink(journal.path)
            journal.close()


def keys_in_use(cache: str) -> set[str]:
    """The keys that runs use which live; what dead ones have left goes."""
    found: set[str] = set()
    folder = os.path.join(cache, _FOLDER)
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with suppress(OSError):
                if has_writer(path):
                    found.update(str(r["key"]) for r in records(path) if "key" in r)
                else:
                    os.unlink(path)
    return found
