"""Worker processes. The only module that knows joblib, whose loky starts and feeds them.

When a worker dies, the pool cannot say of which job: every job that had begun is a suspect. It is
tried again beside the others, and from its third try on alone: one that kills its worker then is
guilty, and all others come through.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from zql.errors import Interrupted, RunError
from zql.execution import worker
from zql.execution.call_timeout import DUMP, Overdue, Watch
from zql.execution.executor import Bug, Death, Job, Outcome
from zql.execution.machine import private_memory
from zql.execution.mixing import LiveJobs
from zql.execution.printouts import Inbox, levels
from zql.execution.settings import Settings
from zql.execution.starter import Starter
from zql.failpoints import hit

if TYPE_CHECKING:
    from zql.execution.fork_server import ForkServer

_POLL_SECONDS = 0.05
_BESIDE_OTHERS = 2
_MOST_STARTS = 3
_CLOSE_SECONDS = 10.0
"""How long workers may take to close what they have."""
_START_SECONDS = 120.0
"""How long it may take until one of them is ready for jobs."""
_SERVER_GONE = (EOFError, ConnectionError)
"""What is raised when the server of the workers ends while it is asked for one."""


class Pool:
    """An executor of processes on this machine."""

    def __init__(self, settings: Settings, folder: str) -> None:
        """Starts nothing yet. The workers keep notes and spilled rows in `folder`."""
        self.retries = 0
        """How many jobs were begun again; whoever reports the number sets it back."""
        self.interrupted = False
        self._settings = settings
        self._folder = folder
        self._starter = Starter(self._start)
        self._server: ForkServer | None = None
        self.inbox = Inbox(folder)
        self._executor: Any = None
        self._started = 0.0

    def warm(self) -> None:
        """Starts the processes in the background, which takes most of a second."""
        if self._executor is None:
            self._starter.start()

    def run(self, jobs: Sequence[Job], seconds: float | None = None) -> Iterator[Outcome]:
        """The outcomes of the jobs as they come, in any order; one for each job.

        Whoever leaves it before its end has the workers killed. Raises `TimeoutError` when the
        jobs take more than `seconds`, not counting the start of the workers.
        """
        return _Run(self, jobs, seconds).outcomes()

    def interrupt(self) -> None:
        """Lets `run` raise `Interrupted`; from any thread."""
        self.interrupted = True

    def kill(self) -> None:
        """Ends the workers at once, whatever they do."""
        executor, self._executor = self._executor, None
        if executor is None and self._starter.pending:
            executor = self._starter.result()
        if executor is None:
            return
        for pid in pids(executor):
            _kill(pid)
        _shut_down(executor)
        self.inbox.forward()
        self.inbox.forget()
        worker.forget(self._folder)

    def close(self) -> None:
        """Ends the workers, and the thread that started them; before, they close what they have."""
        self._close_workers()
        self.kill()
        self._starter.close()
        if self._server is not None:
            self._server.close()

    def _close_workers(self) -> None:
        """Waits until idle workers have closed the objects of classes that they made."""
        if self._executor is None:
            return
        alive = set(pids(self._executor))
        for pid in alive.intersection(worker.closing(self._folder)):
            worker.tell_to_close(pid)
        end = time.monotonic() + _CLOSE_SECONDS
        while alive.intersection(worker.closing(self._folder)) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS / 5)
            alive.intersection_update(pids(self._executor))

    @property
    def settings(self) -> Settings:
        """What the workers were started with."""
        return self._settings

    @property
    def folder(self) -> str:
        """Where the workers note what they are at."""
        return self._folder

    def executor(self) -> Any:
        """The processes, started if need be."""
        if self._executor is None:
            self._executor = self._starter.result()
            self._started = time.monotonic()
        return self._executor

    @property
    def late(self) -> bool:
        """Whether the workers have had their time to start; ask as long as none has begun."""
        return time.monotonic() - self._started > _START_SECONDS

    def _start(self) -> Any:
        """An executor, tried again when the server of its workers is killed meanwhile."""
        try:
            os.getcwd()
        except OSError as error:
            raise RunError(
                f"worker processes cannot be started: the working folder is gone ({error})",
                code="R717",
                hint="cd to a folder that is there",
            ) from None
        for _ in range(_MOST_STARTS - 1):
            with suppress(*_SERVER_GONE):
                return self._start_once()
        try:
            return self._start_once()
        except _SERVER_GONE as error:
            raise RunError(
                f"worker processes cannot be started: the process that starts them ended ({error})",
                code="R717",
                hint="was it killed? is there enough memory?",
            ) from None

    def _start_once(self) -> Any:
        parent: int = os.getpid()
        context: Any = None
        safe_path: str | None = None
        if sys.platform.startswith("linux"):
            from zql.execution.fork_server import (
                SAFE_PATH,
                ForkContext,
                ForkServer,
                started_early,
            )

            safe_path = os.environ.get(SAFE_PATH)
            self._server = self._server or started_early() or ForkServer(self._folder)
            parent = self._server.start()  # it loads its modules while this process does
            context = ForkContext(self._server)
        from joblib.externals.loky import ProcessPoolExecutor
        from joblib.externals.loky.backend import resource_tracker

        if context is None:
            # Else it starts when the first semaphore is there, and a kill meanwhile leaves that.
            resource_tracker.ensure_running()
        executor = ProcessPoolExecutor(
            max_workers=self._settings.worker_count(),
            timeout=None,
            context=context,
            initializer=worker.prepare,
            initargs=(parent, self._folder, self._settings, safe_path),
        )
        executor.submit(os.getpid)  # starts them all
        return executor


class _Run:
    """One run of jobs: which wait, which are with the workers, and who is a suspect."""

    def __init__(self, pool: Pool, jobs: Sequence[Job], seconds: float | None) -> None:
        self._pool = pool
        self._seconds = seconds
        self._live = jobs if isinstance(jobs, LiveJobs) else None
        self._waiting = deque(() if self._live is not None else jobs)
        self._suspects: deque[Job] = deque()
        self._in_flight: dict[Any, Job] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._tries: Counter[int] = Counter()
        self._over_budget: set[int] = set()
        self._not_ours = max(0, private_memory(os.getpid()) - pool.settings.beside_memory())
        self._overdue: dict[int, Overdue] = {}
        self._late: set[int] = set()
        self._watch = Watch(pool.folder)
        self._looked = 0.0
        self._suspected = False
        self._bad_starts = 0
        self._started = False
        self._levels = levels()

    def outcomes(self) -> Iterator[Outcome]:
        self._pool.interrupted = False
        self._pool.executor()
        end = None if self._seconds is None else time.monotonic() + self._seconds
        try:
            while self._waiting or self._suspects or self._in_flight or self._may_grow():
                if self._live is not None:
                    self._waiting.extend(self._live.take())
                    if self._live.abandoned:
                        return
                if self._pool.interrupted:
                    raise Interrupted("interrupted", code="R799")
                if end is not None and time.monotonic() > end:
                    raise TimeoutError
                self._submit()
                self._watch_calls()
                future = self._next()
                self._pool.inbox.forward()
                if future is None:
                    continue
                error = future.exception()
                if error is None:
                    self._bad_starts = 0
                    yield _outcome(self._in_flight.pop(future), future.result())
                elif _is_death(error):
                    yield from self._bury(str(error))
                else:
                    raise error
        finally:
            if self._in_flight:
                self._pool.kill()

    def _submit(self) -> None:
        """Keeps each worker busy and one job ready for it; a suspect has the pool to itself."""
        executor = self._pool.executor()
        if not self._in_flight:
            self._suspected = bool(self._suspects)
        queue = self._suspects if self._suspected else self._waiting
        most = 1 if self._suspected else 2 * self._pool.settings.worker_count()
        while len(self._in_flight) < most and (job := self._take(queue)) is not None:
            try:
                future = executor.submit(worker.work, job, self._levels)
            except Exception as error:  # it died meanwhile: those in flight will tell
                queue.appendleft(job)
                if not _is_death(error) and not isinstance(error, _SERVER_GONE):
                    raise
                if not self._in_flight:
                    self._restart(str(error))
                return
            self._in_flight[future] = job
            hit("task_sent")
            future.add_done_callback(self._done.put)

    def _may_grow(self) -> bool:
        return self._live is not None and self._live.open

    def _take(self, queue: deque[Job]) -> Job | None:
        """The first job that may be begun beside those in flight; None when there is none."""
        if self._live is not None and self._live.dropped:
            kept = [job for job in queue if job.id not in self._live.dropped]
            queue.clear()
            queue.extend(kept)
        busy = Counter(job.group for job in self._in_flight.values())
        for at, job in enumerate(queue):
            if job.most is None or busy[job.group] < job.most:
                del queue[at]
                return job
        return None

    def _next(self) -> Any:
        """A future that is done, or None after a moment."""
        try:
            return self._done.get(timeout=_POLL_SECONDS)
        except Empty:
            self._watch_memory()
            self._watch_start()
            return None

    def _bury(self, reason: str) -> Iterator[Outcome]:
        """After a death: finished jobs count, others wait again, suspects are told apart."""
        lost: list[Job] = []
        for future, job in self._in_flight.items():
            # All futures of a broken pool end at once.
            if future.exception() is None:
                yield _outcome(job, future.result())
            else:
                lost.append(job)
        alone = len(self._in_flight) == 1
        self._in_flight.clear()
        self._done = SimpleQueue()
        noted = {pid: at for pid, at in worker.noted(self._pool.folder).items() if at}
        begun = {at[0]: at[1] if at[1:] else None for at in noted.values()}
        rows = {at[0]: self._watch.rows(pid) for pid, at in noted.items()}
        crashes = worker.crashes(self._pool.folder)
        ended = self._over_budget | self._overdue.keys() | self._late
        guilty = begun.keys() & ended or begun.keys()
        self._restart("" if begun else reason)
        for job in reversed(lost):
            if job.id not in guilty:
                self._waiting.appendleft(job)
                continue
            self._tries[job.id] += 1
            tries = self._tries[job.id]
            memory = job.id in self._over_budget
            limit = self._pool.settings.task_timeout if job.id in self._late else None
            self._late.discard(job.id)
            late = self._overdue.pop(job.id, None)
            death = Death(
                tries,
                "" if late is not None else _exit_reason(reason),
                memory,
                begun[job.id],
                crashes,
                late,
                rows[job.id],
                limit,
            )
            if late is not None or tries >= self._pool.settings.tries or (alone and memory):
                yield Outcome(job, death=death)
                continue
            self._pool.retries += 1
            if tries >= _BESIDE_OTHERS or memory:
                self._suspects.append(job)
            else:
                self._waiting.appendleft(job)

    def _restart(self, unexplained: str) -> None:
        """New processes. Raises `RunError` when they die again and again without any job."""
        late = not self._started and self._pool.late
        self._pool.kill()
        self._started = False
        if not unexplained:
            self._bad_starts = 0
            return
        self._bad_starts += 1
        if self._bad_starts >= _MOST_STARTS:
            raise RunError(
                "worker processes cannot be started: "
                + (f"none began in {_START_SECONDS:g} s" if late else _exit_reason(unexplained)),
                code="R717",
                hint="see the messages above; is there enough memory?",
            )

    def _watch_start(self) -> None:
        """Ends workers of which none comes to its first job: their end is then looked into."""
        if self._started:
            return
        self._started = bool(worker.noted(self._pool.folder))
        if not self._started and self._pool.late:
            for pid in pids(self._pool.executor()):
                _kill(pid)

    def _watch_memory(self) -> None:
        """Ends the biggest worker when all processes together are over the budget."""
        said = self._pool.settings.budget()
        budget = max((job.budget or said for job in self._in_flight.values()), default=said)
        used = {pid: private_memory(pid) for pid in pids(self._pool.executor())}
        # What this process had before, beyond its share, is its user's: no worker can help it.
        ours = max(0, private_memory(os.getpid()) - self._not_ours)
        if not used or sum(used.values()) + ours <= budget:
            return
        pid = max(used, key=lambda one: used[one])
        at = worker.noted(self._pool.folder).get(pid)
        if at:
            self._over_budget.add(at[0])
            _kill(pid)

    def _watch_calls(self) -> None:
        """Ends workers whose calls are overdue and have not ended when they were told to, and
        those whose tasks are.
        """
        if time.monotonic() - self._looked < _POLL_SECONDS:
            return
        self._looked = time.monotonic()
        processes = pids(self._pool.executor())
        late = self._watch.look(processes)
        limit = self._pool.settings.task_timeout
        slow = [] if limit is None else self._watch.late(processes, limit)
        at = worker.noted(self._pool.folder) if late or slow else {}
        for pid, overdue in late:
            if at.get(pid):
                self._overdue.setdefault(at[pid][0], overdue)
                _end(pid)
        for pid in slow:
            if at.get(pid):
                self._late.add(at[pid][0])
                _end(pid)


def pids(executor: Any) -> list[int]:
    """Process ids of an executor's workers."""
    return list(getattr(executor, "_processes", None) or ())


def _shut_down(executor: Any) -> None:
    """Lets loky tidy up behind its workers, whose end may not come before it is told of it."""
    # It would look for the jobs that wait behind these numbers, find that they were dropped, and
    # its thread would die with semaphores open.
    waiting = executor._work_ids  # noqa: SLF001 - see above
    with suppress(Empty):
        while True:
            waiting.get_nowait()
    manager = executor._executor_manager_thread  # noqa: SLF001 - `wait` has no bound
    queue = executor._call_queue  # noqa: SLF001
    pipe = None if queue is None else os.dup(queue._reader.fileno())  # noqa: SLF001
    executor.shutdown(wait=False, kill_workers=True)
    ends = [manager, None if queue is None else queue._thread]  # noqa: SLF001
    end = time.monotonic() + _CLOSE_SECONDS
    while time.monotonic() < end and any(one is not None and one.is_alive() for one in ends):
        if pipe is not None:
            _empty(pipe)
        for one in ends:
            if one is not None:
                one.join(_POLL_SECONDS / 5)
    if pipe is not None:
        os.close(pipe)


def _empty(pipe: int) -> None:
    """Reads what is in a pipe: who has more for it than it holds would wait for good."""
    poll = select.poll()  # `select` knows the first 1,024 descriptors only
    poll.register(pipe, select.POLLIN)
    while poll.poll(0) and os.read(pipe, 1 << 16):
        pass


def _outcome(job: Job, value: Any) -> Outcome:
    """What a worker gave. Raises `InternalError` for what a function raised."""
    if isinstance(value, Bug):
        raise value.error(job.place)
    return Outcome(job, value)


def _is_death(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"BrokenProcessPool", "ShutdownExecutorError"})


def _exit_reason(text: str) -> str:
    """`SIGKILL(-9)`, or whatever loky says of how a process ended."""
    found = re.search(r"exit codes? of the workers are \{(.*?)\}", text)
    return found.group(1) if found else (text.splitlines() or ["unknown"])[0]


def _end(pid: int) -> None:
    """Ends a process that says first, in its crash file, where it was."""
    with suppress(ProcessLookupError):
        os.kill(pid, DUMP)
        time.sleep(_POLL_SECONDS)
        os.kill(pid, signal.SIGKILL)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
