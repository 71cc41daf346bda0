"""From workers to the process that runs the script: lines that they print, and records they log.

A worker writes each into a file of its own as it comes, so that none is lost when it is killed the
moment after, and none waits for a reader. The other side reads what is new, now and then.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

from zql.execution.printed import Printer, show_line

_PREFIX = "lines-"
_FULL_BYTES = 1 << 20
"""A worker begins another file when one has this size; one that has been read is removed."""

Levels = Mapping[str, int]
"""By name the levels that loggers have been given; that of the root has an empty name."""


class Outbox:
    """The files of one worker. What is printed and logged goes there from now on."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, f"{_PREFIX}{os.getpid()}-")
        self._number = 0
        self._file = -1
        self._size = 0
        self._lock = threading.Lock()
        self._levels: Levels = {}
        self._printer = Printer("worker")
        self._printer.__enter__()
        Printer.put = staticmethod(self._put_line)
        logging.getLogger().addHandler(_Sender(self))

    def begin(self, label: str, levels: Levels) -> None:
        """Names what is worked on now, and takes over the levels of the other process."""
        self._printer.label = label
        unset = {name: logging.NOTSET for name in self._levels if name not in levels}
        for name, level in {**unset, **levels}.items():
            logging.getLogger(name or None).setLevel(level)
        self._levels = levels

    def end(self) -> None:
        """Hands on what has no end of line."""
        self._printer.flush_rest()

    def put(self, message: Mapping[str, Any]) -> None:
        """Writes a message as a line of JSON, at once."""
        data = json.dumps(message, default=repr).encode() + b"\n"
        with self._lock:
            if self._file < 0:
                path = f"{self._path}{self._number:06d}"
                self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            os.write(self._file, data)
            self._size += len(data)
            if self._size > _FULL_BYTES:
                os.close(self._file)
                self._number, self._file, self._size = self._number + 1, -1, 0

    def label(self) -> str:
        """What is worked on now."""
        return self._printer.label_now()

    def _put_line(self, label: str, line: str, _stream: TextIO | None) -> None:
        self.put({"label": label, "line": line})


class _Sender(logging.Handler):
    """Sends the records that are logged in a worker, as text and numbers."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        """Writes it down, or says on stderr why it cannot be."""
        try:
            if record.exc_info and not record.exc_text:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
            facts = {**vars(record), "msg": record.getMessage(), "args": None, "exc_info": None}
            facts.setdefault("task", self._outbox.label())
            self._outbox.put({"record": facts})
        except Exception:  # noqa: BLE001 - what `logging` does with all that its handlers raise
            self.handleError(record)


class Inbox:
    """What the workers of a folder have put down, read once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[str, int] = defaultdict(int)

    def forward(self) -> None:
        """Shows the lines that are new, and gives the records to the loggers of this process."""
        names = sorted(name for name in os.listdir(self._folder) if name.startswith(_PREFIX))
        for i, name in enumerate(names):
            path = os.path.join(self._folder, name)
            with open(path, "rb") as file:
                file.seek(self._read[name])
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read[name] += len(line)
                    _show(json.loads(line))
            worker = name.rpartition("-")[0]
            if names[i + 1 : i + 2] and names[i + 1].rpartition("-")[0] == worker:
                os.unlink(path)
                del self._read[name]

    def forget(self) -> None:
        """Removes the files; their workers have ended."""
        self._read.clear()
        for name in os.listdir(self._folder):
            if name.startswith(_PREFIX):
                os.unlink(os.path.join(self._folder, name))


def levels() -> dict[str, int]:
    """The levels that loggers of this process have been given."""
    found = {"": logging.getLogger().level}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level:
            found[name] = logger.level
    return found


def _show(message: Mapping[str, Any]) -> None:
    if "line" in message:
        show_line(message["label"], message["line"])
        return
    record = logging.makeLogRecord(message["record"])
    logger = logging.getLogger(record.name)
    if not logger.isEnabledFor(record.levelno):
        return
    if logger.hasHandlers():
        name_task(record)
        logger.handle(record)
        return
    label = str(vars(record)["task"])
    for line in f"{record.msg}\n{record.exc_text or ''}".rstrip("\n").split("\n"):
        show_line(label, line)


def name_task(record: logging.LogRecord) -> None:
    """Puts the name of its task before the message of a record, once."""
    facts = vars(record)
    task = facts.get("task")
    if task and not facts.get("task_is_named"):
        record.msg, record.args = f"[{task}] {record.getMessage()}", None
        facts["task_is_named"] = True


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger `zql.task`, whose records know their task: as the attribute `task`, and in words.

    In a worker the words are left to the process that gets the record. Where nobody handles records
    they become lines on stderr, which have the name of the task anyway.
    """

    def __init__(self, task: str) -> None:
        logger = logging.getLogger("zql.task")
        if _named_here not in logger.filters:
            logger.addFilter(_named_here)
        super().__init__(logger, {"task": task})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> Any:
        """The message, with the task beside what else the caller says of it."""
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


def _named_here(record: logging.LogRecord) -> bool:
    if Printer.put is show_line and logging.getLogger(record.name).hasHandlers():
        name_task(record)
    return True
