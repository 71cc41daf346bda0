"""Which results of a cache are in use: each run that lives has a file there that says so.

The file is locked while its process lives, and stale when it is dead, however it ended.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from zql.execution.journal import Journal, has_writer, records

_FOLDER = ".users"


class CacheUser:
    """One run that uses a cache."""

    def __init__(self, cache: str) -> None:
        self._folder = os.path.join(cache, _FOLDER)
        self._journal: Journal | None = None
        self._keys: set[str] = set()
        self._lock = threading.Lock()

    def uses(self, key: str) -> None:
        """Says so before a result is touched. A cache that cannot be written is no error."""
        with self._lock, suppress(OSError):
            if key in self._keys:
                return
            self._keys.add(key)
            if self._journal is None:
                self._journal = self._begun()
            self._journal.add({"key": key})

    def _begun(self) -> Journal:
        """The file of this run. It is locked before it has its name: nobody finds it free."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        name = f"{os.getpid()}-{os.urandom(6).hex()}"
        journal = Journal(os.path.join(self._folder, f".{name}"))
        journal.lock()
        path = os.path.join(self._folder, name)
        os.rename(journal.path, path)
        journal.path = path
        return journal

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
            if name.startswith("."):
                continue
            with suppress(OSError):
                if has_writer(path):
                    found.update(str(r["key"]) for r in records(path) if "key" in r)
                else:
                    os.unlink(path)
    return found
