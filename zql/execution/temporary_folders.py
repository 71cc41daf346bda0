"""Folders for temporary files: made for this user alone, and removed when their process is gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from weakref import finalize

from zql.errors import RunError

_NAME_PARTS = 3


def make_folder(root: str, prefix: str = "zql") -> str:
    """Makes a folder that only this user may enter; its name has this process's id.

    The standard library's `tempfile` would cost a quick query a tenth of its time.
    """
    path = os.path.join(root, f"{prefix}-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        os.makedirs(root, exist_ok=True)
        os.mkdir(path, 0o700)
    except OSError as error:
        raise RunError(
            f'cannot make a folder for temporary files in "{root}": {error.strerror}',
            code="R740",
            hint="set temp_dir to a folder that can be written",
        ) from None
    return path


def remove_stale_folders(root: str) -> None:
    """Removes this user's folders, and temporary files, of processes that were killed."""
    for path in stale_folders(root):
        remove_any(path)


def remove_any(path: str) -> None:
    """Removes a folder, or a file."""
    if os.path.isdir(path):
        remove_folder(path)
        return
    with suppress(OSError):
        os.unlink(path)


def stale_folders(root: str) -> Iterator[str]:
    """Folders and files of this user's killed processes; none where that cannot be told."""
    if not os.path.isdir("/proc/self"):
        return
    with suppress(OSError):
        for name in sorted(os.listdir(root)):
            words = name.split("-")
            path = os.path.join(root, name)
            if words[0] != "zql" or len(words) != _NAME_PARTS or not words[1].isdigit():
                continue
            with suppress(OSError):
                if os.lstat(path).st_uid == os.getuid() and not os.path.exists(f"/proc/{words[1]}"):
                    yield path


def removed_with(owner: object, path: str) -> Callable[[], object]:
    """What removes a folder; it is done when nobody did it and the owner, or the process, goes."""
    return finalize(owner, remove_folder, path)


def remove_folder(path: str) -> None:
    """Removes a folder of this program's, with what is in it."""
    try:
        os.rmdir(path)
    except OSError:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
