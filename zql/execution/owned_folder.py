"""Folders that one process owns while it lives: a lock in them ends with it, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from zql.execution.temporary_folders import remove_any, remove_folder

_LOCK = "lock"
_WORDS = 2
"""What stands behind the prefix in a folder's name: its owner's process, and chance."""


class OwnedFolder:
    """A folder that nobody else uses or removes before it is released."""

    def __init__(self, path: str, lock: int) -> None:
        """`lock` is the descriptor of a locked file in it."""
        self.path = path
        self._lock = lock

    @classmethod
    def own(cls, path: str) -> OwnedFolder:
        """Takes a folder that this process has just made. Raises `OSError`."""
        # Locked before it has its name: nobody finds it free.
        waiting = os.path.join(path, f".{_LOCK}")
        lock = os.open(waiting, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        locked(lock)
        os.rename(waiting, os.path.join(path, _LOCK))
        return cls(path, lock)

    @classmethod
    def take(cls, path: str) -> OwnedFolder | None:
        """A folder whose owner is dead; None when the owner lives, or it is not this user's."""
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR)
        except OSError:
            return None
        with suppress(OSError):
            same = os.fstat(lock).st_ino == os.stat(os.path.join(path, _LOCK)).st_ino
            if os.lstat(path).st_uid == os.getuid() and same and locked(lock):
                return cls(path, lock)
        os.close(lock)
        return None

    def release(self) -> None:
        """Leaves the folder as if its owner had died; twice does no harm."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def remove(self) -> None:
        """Removes the folder with what is in it; the lock goes last, so that a folder that is half
        removed can still be taken.
        """
        with suppress(OSError):
            for name in os.listdir(self.path):
                if name != _LOCK:
                    remove_any(os.path.join(self.path, name))
        remove_folder(self.path)
        self.release()


def locked(descriptor: int) -> bool:
    """Locks an open file; False when somebody else has, or where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def remove_unused(path: str) -> None:
    """Removes a folder that nobody can take up."""
    if is_orphan(path):
        remove_folder(path)


def is_orphan(path: str) -> bool:
    """Whether a folder's owner died before there was anything in it, or when it had removed the
    lock: then nobody can take it up.
    """
    pid = os.path.basename(path).split("-")[-2]
    with suppress(OSError):
        names = set(os.listdir(path))
        mine = os.lstat(path).st_uid == os.getuid()
        dead = os.path.isdir("/proc/self") and not os.path.exists(f"/proc/{pid}")
        return mine and dead and (_LOCK not in names or names == {_LOCK})
    return False


def found(root: str, prefix: str) -> Iterator[str]:
    """The paths of owned folders in a folder, whoever owns them."""
    with suppress(OSError):
        for name in sorted(os.listdir(root or ".")):
            if name.startswith(f"{prefix}-") and name.count("-") == prefix.count("-") + _WORDS:
                yield os.path.abspath(os.path.join(root, name))
