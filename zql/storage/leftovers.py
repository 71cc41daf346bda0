"""Names of files that are not outputs yet, by which what a killed process left is known later."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress


def hidden_prefix() -> str:
    """How the names of unpublished files of this process begin: with its machine and its id."""
    return f"{_machine_prefix()}{os.getpid()}-"


def temporary_prefix() -> str:
    """How the names of temporary files of this process begin."""
    return f"zql-{os.getpid()}-"


def remove_stale(folder: str) -> None:
    """Removes what processes of this machine left unpublished in a folder that were killed."""
    if not os.path.isdir("/proc/self"):
        return
    prefix = _machine_prefix()
    with suppress(OSError):
        for name in os.listdir(folder or "."):
            pid = name[len(prefix) :].partition("-")[0]
            if name.startswith(prefix) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                os.unlink(os.path.join(folder, name))


def _machine_prefix() -> str:
    return f".zql-{zlib.crc32(os.uname().nodename.encode()):08x}-"
