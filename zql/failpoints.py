"""Places where tests let a process die, fail or wait, by name: `ZQL_FAILPOINT=name:nth:action`.

Several are separated by commas. At the `nth` time (`*`: each time) that a process comes by,
`kill` and `exit` end it, `raise` fails as a disk does, `sleep=seconds` waits. `@path` stands for
what is in a file, which processes that are there already look into each time. When
`ZQL_FAILPOINT_COUNTS` names a folder, times are counted there for all processes together, and for
all names: what is not counted, no run came by.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import Counter
from typing import NamedTuple

POINTS = {
    "worker_starting": "worker: nothing is set up yet",
    "worker_started": "worker: it is about to take jobs",
    "task_begun": "worker: a task has arrived",
    "batch_read": "worker: rows have been read, and no function has seen them",
    "batch_called": "worker: functions have given their results for some rows",
    "kept_written": "any: a file of rows for later stages is whole",
    "file_begun": "any: an output file is about to be made, under a hidden name",
    "file_written": "any: an output file is whole, and not yet synced",
    "file_synced": "any: an output file is whole, under its hidden name",
    "task_ended": "worker: all is done, and nobody knows",
    "folder_made": "coordinator: a folder of a run is there, and is empty",
    "note_written": "coordinator: a line more is in the journal",
    "stage_begun": "coordinator: a stage is about to be done",
    "task_sent": "coordinator: a task is with a worker",
    "task_acked": "coordinator: the result of a task is there",
    "exchange_dealt": "coordinator: the rows of a stage lie by partition, nobody has read them",
    "partitions_read": "coordinator: the groups of some partitions are there, and not yet kept",
    "rows_dealt": "coordinator: the rows of an output lie by the folders of their values",
    "files_joined": "coordinator: parts have become one file, and are still there",
    "stage_ended": "coordinator: all rows of a stage are there",
    "publish_begun": "coordinator: every output is whole, and none has its name",
    "text_written": "coordinator: a small file (a manifest) is whole, under a hidden name",
    "before_rename": "coordinator: the next file is about to get its name",
    "after_rename": "coordinator: a file has got its name, and its folder is not synced",
    "files_named": "coordinator: all files of one output have their names",
    "before_success": "coordinator: the manifest says that all is there, `_SUCCESS` does not yet",
    "output_published": "coordinator: one output is done, others may follow",
    "run_ended": "coordinator: all is done, and the run's folder still there",
}
"""Every name, with the kind of process that comes by and how things stand there."""

_VARIABLE, _COUNTS = "ZQL_FAILPOINT", "ZQL_FAILPOINT_COUNTS"
_EXIT_CODE = 9


class Fault(NamedTuple):
    """What is to happen at a place, and at which time; 0 stands for each."""

    name: str
    nth: int
    action: str
    seconds: float = 1.0


def parse(text: str) -> tuple[Fault, ...]:
    """The faults that a text asks for. Raises `ValueError`."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        words = part.split(":")
        if len(words) != len(("name", "nth", "action")):
            raise ValueError(f"{_VARIABLE}: {part!r} is not name:nth:action")
        name, nth, told = words
        action, _, seconds = told.partition("=")
        if name not in POINTS:
            raise ValueError(f"{_VARIABLE}: there is no place {name!r}: {', '.join(POINTS)}")
        if action not in ("kill", "exit", "raise", "sleep"):
            raise ValueError(f"{_VARIABLE}: {action!r} is not kill, exit, raise or sleep")
        if nth != "*" and not nth.isdigit():
            raise ValueError(f"{_VARIABLE}: {nth!r} is not a number or *")
        found.append(Fault(name, 0 if nth == "*" else int(nth), action, float(seconds or 1)))
    return tuple(found)


class _Armed:
    """The faults of this process, and how often it came by."""

    def __init__(self, text: str, folder: str) -> None:
        self._path = text.removeprefix("@") if text.startswith("@") else ""
        self._faults = () if self._path else parse(text)
        self._folder = folder
        self._times: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        time_ = self._count(name)
        if self._path:
            with open(self._path, encoding="utf-8") as file:
                self._faults = parse(file.read())
        for fault in self._faults:
            if fault.name == name and fault.nth in (0, time_):
                _happen(fault)

    def _count(self, name: str) -> int:
        if not self._folder:
            self._times[name] += 1
            return self._times[name]
        path = os.path.join(self._folder, name)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, b".")
            return os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)


def _happen(fault: Fault) -> None:
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.action == "exit":
        os._exit(_EXIT_CODE)
    if fault.action == "raise":
        raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} (at {fault.name})")
    time.sleep(fault.seconds)


def _armed(text: str, folder: str) -> _Armed | None:
    return _Armed(text, folder) if text or folder else None


_faults = _armed(os.environ.get(_VARIABLE, ""), os.environ.get(_COUNTS, ""))


def arm(text: str, counts: str = "") -> None:
    """Asks for faults in this process and in those that it starts; an empty text for none."""
    global _faults  # noqa: PLW0603 - of the process, as its environment is
    os.environ[_VARIABLE], os.environ[_COUNTS] = text, counts
    _faults = _armed(text, counts)


def hit(name: str) -> None:
    """The process is at this place. Raises `OSError` when that is asked for."""
    if _faults is not None:
        _faults.hit(name)
