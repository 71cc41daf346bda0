"""What happens in a worker process: its set-up, its one engine, and the jobs it is sent."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import signal
import sys
from contextlib import suppress
from multiprocessing import util
from typing import Any

from zql.execution import call_timeout, traces
from zql.execution.engine import Engine
from zql.execution.executor import Bug, Job
from zql.execution.instances import OF_WORKER
from zql.execution.printouts import Levels, Outbox
from zql.execution.settings import Settings
from zql.failpoints import hit
from zql.storage import threads

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8
_KEPT_BYTES = 16 << 20
"""What a worker keeps of freed memory: to get it again with each batch costs more."""
_SPARING_BYTES = 1 << 20
_SPARING_BELOW = 512 << 20
"""With less for DuckDB in a worker nearly all goes back to the system at once."""
_FLUSH = ("allocator_flush_threshold", "allocator_bulk_deallocation_flush_threshold")
_CLOSE: signal.Signals | None = getattr(signal, "SIGURG", None)
"""Tells an idle worker to close what its calls were made of; Windows has none."""
_state: dict[str, Any] = {}


def prepare(parent: int, folder: str, settings: Settings, safe_path: str | None = None) -> None:
    """Sets a new worker up: it ends with its parent, leaves Ctrl-C to it, and stays small.

    `safe_path` is the environment's in the coordinator: the server of the workers has its own.
    """
    _end_with(parent, safe_path)
    hit("worker_starting")
    kept = _SPARING_BYTES if settings.worker_memory() < _SPARING_BELOW else _KEPT_BYTES
    _keep_memory(kept)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # the server heard none; programs of functions do
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP})
    if _CLOSE is not None:
        signal.signal(_CLOSE, _close)
    sys.dont_write_bytecode = True
    _state["folder"], _state["settings"] = folder, settings
    # What a crash says goes where the coordinator finds it, not between the lines of the screen.
    _state["crash"] = open(_crash_path(os.getpid(), folder), "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.enable(_state["crash"], all_threads=False)
    faulthandler.register(call_timeout.DUMP, _state["crash"], all_threads=True)
    # A forked process ends without it.
    util.Finalize(None, atexit._run_exitfuncs, exitpriority=0)  # noqa: SLF001
    note(None)
    call_timeout.share(folder)
    OF_WORKER.note = _note_closing
    with suppress(OSError):
        os.dup2(2, 1)  # what libraries print is no part of the results either
    _state["outbox"] = Outbox(folder)
    import pyarrow as pa

    skip_pandas()
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    threads.limit(1)
    for name in _FLUSH:
        engine().rows(f"SET {name} = '{kept}B'")
    import duckdb  # noqa: F401 - what scanning Arrow data needs

    gc.freeze()  # what is there stays: nobody need look through it, or write to it
    hit("worker_started")


def engine() -> Engine:
    """The worker's connection: one thread, its share of the memory, a spill folder of its own."""
    if "engine" not in _state:
        settings: Settings = _state["settings"]
        spill = os.path.join(_state["folder"], f"spill-{os.getpid()}")
        os.makedirs(spill, mode=0o700, exist_ok=True)
        _state["engine"] = Engine(
            settings, threads=1, memory=settings.worker_memory(), folder=spill, offload=False
        )
    return _state["engine"]  # type: ignore[no-any-return]


def work(job: Job, levels: Levels) -> Any:
    """Does one job. What it was doing stands in a file when the process dies of it.

    `levels` are those of the other process's loggers. A `Bug` stands for what the function raised.
    """
    note(job.id)
    call_timeout.begin_job()
    outbox: Outbox = _state["outbox"]
    outbox.begin(job.place, levels)
    try:
        return job.function(engine(), job.argument)
    except BaseException as error:  # noqa: BLE001 - an exception may be one that cannot be sent
        return Bug.of(error)
    finally:
        outbox.end()
        call_timeout.end_job()
        note(None)


def note(job: int | None, detail: int | None = None) -> None:
    """Writes down which job this process is at, and where in it."""
    path = os.path.join(_state["folder"], f"worker-{os.getpid()}")
    words = [str(number) for number in (job, detail) if number is not None]
    with open(path, "w", encoding="ascii") as file:
        file.write(" ".join(words))
    _state["job"] = job


def note_detail(detail: int) -> None:
    """Writes down where in its job this process is; does nothing outside of workers."""
    if _state.get("job") is not None:
        note(_state["job"], detail)


def rank() -> int:
    """Which of the workers this process is, from 0, by their process ids; 0 outside of workers."""
    folder = _state.get("folder")
    return sorted(noted(folder)).index(os.getpid()) if folder is not None else 0


def noted(folder: str) -> dict[int, tuple[int, ...]]:
    """By process id what each worker of a folder is at: nothing, a job, or a job and a detail."""
    found = {}
    for name in os.listdir(folder):
        if name.startswith("worker-"):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                words = file.read().split()
            found[int(name.removeprefix("worker-"))] = tuple(int(word) for word in words)
    return found


def _note_closing() -> None:
    """Writes down that this process has something to be closed before it ends."""
    with open(_closing_path(os.getpid(), _state["folder"]), "w", encoding="ascii"):
        pass


def _close(_number: int, _frame: object) -> None:
    """Closes it, and says so by taking the note away; a job that is under way goes on."""
    if _state.get("job") is None:
        OF_WORKER.close()
    with suppress(OSError):
        os.unlink(_closing_path(os.getpid(), _state["folder"]))


def closing(folder: str) -> list[int]:
    """The process ids of the workers of a folder that have something to be closed."""
    prefix = "closing-"
    return [int(n.removeprefix(prefix)) for n in os.listdir(folder) if n.startswith(prefix)]


def tell_to_close(pid: int) -> None:
    """Lets a worker close what it has, if it is there and can be told."""
    if _CLOSE is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, _CLOSE)


def _closing_path(pid: int, folder: str) -> str:
    return os.path.join(folder, f"closing-{pid}")


def crashes(folder: str) -> tuple[str, ...]:
    """The user's frames of the workers that crashed, innermost last."""
    frames: list[str] = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("crash-"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                found = [line.strip() for line in file if line.lstrip().startswith("File ")]
            frames += [line for line in reversed(found) if traces.is_users(line.split('"')[1])]
    return tuple(dict.fromkeys(frames))


def skip_pandas() -> None:
    """Keeps pyarrow from importing pandas, which it does at the first list that it is given.

    It takes half a second and much memory. Where pandas is asked for by name it still comes.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """Finds no module but says that there is no pandas."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def _crash_path(pid: int, folder: str) -> str:
    return os.path.join(folder, f"crash-{pid}")


def forget(folder: str) -> None:
    """Removes what dead workers left in a folder."""
    import shutil

    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(("worker-", "crash-", "calls-", "closing-")):
            os.unlink(path)
        elif name.startswith("spill-"):
            shutil.rmtree(path, ignore_errors=True)


def _end_with(parent: int, safe_path: str | None) -> None:
    """Lets the kernel end this process with the thread that started it (on Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    from zql.execution.fork_server import let_go_of_server, restore

    let_go_of_server()
    restore(safe_path)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it had ended before that
        os._exit(1)


def _keep_memory(most: int) -> None:
    """Lets glibc keep about half of so many freed bytes: all workers together would hold much."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, most // 2)
