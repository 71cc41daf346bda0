"""Small files in the user's own folders: never required, never trusted when shared."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def cache_folder() -> Path | None:
    """The user's cache folder for ZQL; None when the system names none."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) / "zql" / "cache" if base else None
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "zql"
    home = os.environ.get("HOME")
    if not home or not os.path.isabs(home):
        return None
    return Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "zql"


def state_folder() -> Path | None:
    """The folder for what ZQL remembers of this user's runs; None when the system names none."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) / "zql" if base else None
    base = os.environ.get("XDG_STATE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "zql"
    home = os.environ.get("HOME")
    if not home or not os.path.isabs(home):
        return None
    mac = sys.platform == "darwin"
    return Path(home) / ("Library/Application Support" if mac else ".local/state") / "zql"


def is_private(path: Path) -> bool:
    """Whether nobody but this user (or root) can have written there."""
    if sys.platform == "win32":
        return True
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022


def read_cached(name: str) -> bytes | None:
    """A file of the cache folder; None when there is none that only this user can have made."""
    folder = cache_folder()
    if folder is None or not is_private(folder) or not is_private(folder / name):
        return None
    try:
        return (folder / name).read_bytes()
    except OSError:
        return None


def write_cached(name: str, data: bytes, *, instead_of: str = "") -> None:
    """Puts a file into the cache folder, whole or not at all, in place of those of a pattern.

    A folder that cannot be written is no error.
    """
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            return
        temporary = folder / f".{os.getpid()}-{os.urandom(4).hex()}.tmp"
        try:
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            os.replace(temporary, folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        for old in folder.glob(instead_of) if instead_of else ():
            if old != folder / name:
                old.unlink(missing_ok=True)
