"""What a process has left behind: children, semaphores, open files, threads, temporary folders."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

_WAIT = 10.0


def children(pid: int | None = None) -> dict[int, str]:
    """The processes below one, at any depth, that are not ended, and what was started there."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            words = text[text.rindex(")") + 2 :].split()
            if words[0] != "Z":
                parents[int(name)] = int(words[1])
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
    """What this process has open, by name; numbers of pipes and sockets do not matter."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        found[target.partition(":[")[0]] += 1
    return found


class Leaks:
    """What is there now; `found` says what has come since, once it had time to go."""

    def __init__(self, temp_root: str | None = None) -> None:
        self._temp_root = temp_root
        self._before = self._all()

    def _all(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for pid, command in children().items():
            # The process that looks after loky's semaphores stays as long as this one.
            if "resource_tracker" not in command:
                found[f"process {pid}: {command}"] += 1
        for name in semaphores():
            found[f"semaphore /dev/shm/{name}"] += 1
        for name, count in open_files().items():
            found[f"open file {name}"] += count
        if self._temp_root and os.path.isdir(self._temp_root):
            for name in os.listdir(self._temp_root):
                if name.startswith((f"zql-{os.getpid()}-", "zql-")) and _mine(name):
                    found[f"temporary {self._temp_root}/{name}"] += 1
        return found

    def found(self) -> list[str]:
        """Names of what has come since and stays, a number behind where there are several."""
        end = time.monotonic() + _WAIT
        while True:
            new = self._all() - self._before
            if not new or time.monotonic() > end:
                break
            time.sleep(0.05)
        return [f"{name} ({count} more)" if count > 1 else name for name, count in new.items()]


def _mine(name: str) -> bool:
    words = name.split("-")
    return len(words) < 3 or not words[1].isdigit() or int(words[1]) == os.getpid()
