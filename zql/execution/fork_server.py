"""Workers forked from a server process that has loaded beforehand what they all need.

A worker then is there in milliseconds, and shares the memory of its modules with the others. The
server has none of the coordinator's state: no threads of DuckDB, no connections, no `__main__`.

It is `multiprocessing`'s own; two things are different here. Workers do not import the script that
the coordinator was started with: it may have no guard around its main part. And they do not keep
the server alive: it ends with the coordinator, and they with it, however that ends.

Linux only: other systems have no such server, or do not fork safely.
"""

from __future__ import annotations

import io
import multiprocessing.context
import multiprocessing.process
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import (
    forkserver,
    popen_forkserver,
    reduction,
    resource_tracker,
    spawn,
    util,
)
from typing import Any

from zql.errors import ZqlError
from zql.execution.temporary_folders import make_folder, remove_folder

_LONGEST_FOLDER = 80
"""Names of sockets must be short: 107 bytes."""
_SHORT_ROOT = "/tmp"  # noqa: S108 - nobody else can enter what is made there
SAFE_PATH = "PYTHONSAFEPATH"
_LOADED = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "duckdb",
    "joblib.externals.loky.process_executor",
    "zql.execution.task",
)
"""What workers import sooner or later."""


class _Names(list[str]):
    """Names of modules, of which `multiprocessing` thinks that there are none.

    Else it would hand `sys.path` over on the command line, which may be longer than there is room.
    """

    def __bool__(self) -> bool:
        return False


class ForkServer:
    """A server of one pool; it is started with the first worker, and again when it has ended."""

    def __init__(self, folder: str = "", root: str = _SHORT_ROOT) -> None:
        """It will listen at a socket in `folder`, or in one of its own in `root`."""
        self._folder, self._root = folder, root
        self._owned: list[str] = []
        server: Any = forkserver.ForkServer()
        server._preload_modules = _Names(_LOADED)
        self._server = server

    def start(self) -> int:
        """Starts the server, if it does not run; its process id."""
        # Else the socket gets a folder that a kill would leave.
        config: dict[str, Any] = vars(multiprocessing.process.current_process())["_config"]
        before = config.get("tempdir")
        self._make_folder()
        config["tempdir"] = self._folder
        # Ctrl-C, and a terminal's end, go to all processes of a terminal, and these would show
        # where they were hit. The tracker comes first: whoever starts it hears Ctrl-C again
        # afterwards.
        try:
            for ensure_running in (resource_tracker.ensure_running, self._server.ensure_running):
                with _deaf(signal.SIGINT, signal.SIGHUP), _libraries_alone():
                    ensure_running()
        finally:
            config["tempdir"] = before
        return int(self._server._forkserver_pid)

    def _make_folder(self) -> None:
        """Makes a folder that is not there, or has a name that is too long."""
        if 0 < len(self._folder.encode()) < _LONGEST_FOLDER:
            return
        with _deaf(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # else nobody knows of it
            self._folder = make_folder(_SHORT_ROOT if self._folder else self._root)
            self._owned.append(self._folder)
        if len(self._folder.encode()) >= _LONGEST_FOLDER:
            self._make_folder()

    def fork(self, descriptors: Sequence[int]) -> tuple[int, int]:
        """A new worker: where its status is read, and where what it shall do is written."""
        status, work = self._server.connect_to_new_process(list(descriptors))
        return status, work

    def close(self) -> None:
        """Ends the server at once."""
        pid = self._server._forkserver_pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._server._stop()
        for folder in self._owned:
            remove_folder(folder)


@contextmanager
def _deaf(*signals: signal.Signals) -> Iterator[None]:
    """Neither this thread nor what it starts meanwhile hears these signals."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


@contextmanager
def _libraries_alone() -> Iterator[None]:
    """Processes that start meanwhile import nothing from the folder they are started in.

    Python would look there first: for `duckdb.py`, say, or a folder `zql`.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        restore(before)


def restore(safe_path: str | None) -> None:
    """Sets that variable of the environment for what this process starts later."""
    if safe_path is None:
        os.environ.pop(SAFE_PATH, None)
    else:
        os.environ[SAFE_PATH] = safe_path


_early: list[ForkServer] = []


def start_early(root: str) -> None:
    """Starts the server of the pool that this process will make first, in a folder in `root`.

    For a caller who knows that workers will be needed and has much to load before: the server
    loads what it needs meanwhile. `close_early` ends it when nobody took it.
    """
    if sys.platform.startswith("linux") and not _early:
        server = ForkServer(root=root)
        _early.append(server)
        try:
            server.start()
        except (ZqlError, OSError):
            close_early()  # the pool will say so, if it has the same trouble


def started_early() -> ForkServer | None:
    """The server that was started early; whoever takes it closes it."""
    return _early.pop() if _early else None


def close_early() -> None:
    """Ends the server that was started early, if nobody took it."""
    server = started_early()
    if server is not None:
        server.close()


class _Forked(popen_forkserver.Popen):
    """Sends a process to a server; as in `multiprocessing`, but for `__main__`."""

    def __init__(self, process: Any, server: ForkServer) -> None:
        self._server = server
        super().__init__(process)

    def _launch(self, process: Any) -> None:
        facts = spawn.get_preparation_data(process.name)
        for name in ("init_main_from_name", "init_main_from_path"):
            facts.pop(name, None)
        sent = io.BytesIO()
        multiprocessing.context.set_spawning_popen(self)
        try:
            reduction.dump(facts, sent)
            reduction.dump(process, sent)
        finally:
            multiprocessing.context.set_spawning_popen(None)
        self.sentinel, work = self._server.fork(self._fds)  # type: ignore[attr-defined]
        # The worker sees by its other end that the coordinator is gone.
        kept = os.dup(work)
        self.finalizer = util.Finalize(self, _close, (kept, self.sentinel))
        with open(work, "wb") as file:
            file.write(sent.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class _Worker(multiprocessing.process.BaseProcess):
    """A process; only what it has to do is sent to it."""

    _start_method = "forkserver"

    def __init__(self, server: ForkServer, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._server = server

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_server"}

    def _Popen(self, process: Any) -> _Forked:  # noqa: N802 - multiprocessing's name for it
        return _Forked(process, self._server)


class ForkContext(multiprocessing.context.ForkServerContext):
    """How an executor makes its processes and their locks."""

    def __init__(self, server: ForkServer) -> None:
        super().__init__()
        self._server = server

    def Process(self, **arguments: Any) -> _Worker:  # type: ignore[override]  # noqa: N802
        """A process that `server` will fork."""
        return _Worker(self._server, **arguments)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def let_go_of_server() -> None:
    """In a worker: gives up what would keep the server alive when the coordinator is gone."""
    own: Any = vars(forkserver)["_forkserver"]
    descriptor = own._forkserver_alive_fd
    if descriptor is not None:
        own._forkserver_alive_fd = own._forkserver_address = own._forkserver_pid = None
        os.close(descriptor)
