"""What a process has left behind: children, semaphores, open files, threads, temporary files."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_WAIT = 10.0
_OURS = ("zql-", "zqlwork-")
"""How the names of this program's temporary files begin."""
_OF_LOOPS = frozenset({"anon_inode:[eventpoll]", "anon_inode:[eventfd]"})
"""polars begins an event loop that lasts as long as the process; those of ZQL have threads."""
_FOR_GOOD = frozenset({"zql-call"})
"""Threads that are there for as long as the process is, and wait for calls."""


class Process(NamedTuple):
    """What the system says of a process; `state` is Z of one that has ended."""

    state: str
    parent: int
    session: int


def processes() -> dict[int, Process]:
    """All of the machine."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            words = text[text.rindex(")") + 2 :].split()
            found[int(name)] = Process(words[0], int(words[1]), int(words[3]))
    return found


def children(pid: int | None = None) -> dict[int, str]:
    """The processes below one, at any depth, that are not ended, and what was started there."""
    parents = {one: p.parent for one, p in processes().items() if p.state != "Z"}
    found = {}
    for one in parents:
        above = one
        while above in parents and above != (pid or os.getpid()):
            above = parents[above]
        if above == (pid or os.getpid()) and one != above:
            found[one] = _command(one)
    return found


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace")[:200]


def semaphores(pid: int | None = None) -> list[str]:
    """Those of a process: loky's names have its id in them, and others on the machine have some."""
    try:
        return [n for n in os.listdir("/dev/shm") if f"-{pid or os.getpid()}-" in n]
    except FileNotFoundError:
        return []


def open_files() -> Counter[str]:
    """What this process has open, by name; pipes and sockets have numbers for names."""
    found: Counter[str] = Counter()
    kept = {str(tracker._resource_tracker._fd) for tracker in _trackers()}
    for name in set(os.listdir("/proc/self/fd")) - kept:
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target not in _OF_LOOPS:
            found[target.partition(":[")[0]] += 1
    return found


def _trackers() -> list[ModuleType]:
    """The modules with a process that looks after semaphores, and stays as long as this one."""
    names = ("joblib.externals.loky.backend.resource_tracker", "multiprocessing.resource_tracker")
    return [sys.modules[name] for name in names if name in sys.modules]


def temporary(root: Path) -> list[str]:
    """This program's files and folders in a folder for temporary ones."""
    return [str(path) for path in root.iterdir() if path.name.startswith(_OURS)]


class Leaks:
    """What is there now; `found` says what has come since, once it had time to go."""

    def __init__(self, temp_root: Path | None = None) -> None:
        """Temporary files are looked for in a folder that no other process has."""
        self._temp_root = temp_root
        self._before = self._all()

    def _all(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for pid, command in children().items():
            if "resource_tracker" not in command:
                found[f"process {pid}: {command}"] += 1
        for name in semaphores():
            found[f"semaphore /dev/shm/{name}"] += 1
        for name, count in open_files().items():
            found[f"open file {name}"] += count
        for thread in threading.enumerate():
            if thread.name.startswith("zql-") and thread.name not in _FOR_GOOD:
                found[f"thread {thread.name}"] += 1
        for path in temporary(self._temp_root) if self._temp_root else ():
            found[f"temporary {path}"] += 1
        return found

    def found(self) -> list[str]:
        """Names of what has come since and stays, a number behind where there are several."""
        end = time.monotonic() + _WAIT
        gc.collect()
        while (new := self._all() - self._before) and time.monotonic() < end:
            time.sleep(0.05)
            gc.collect()  # what a thread held until now may be part of a cycle
        return [f"{name} ({count} more)" if count > 1 else name for name, count in new.items()]
