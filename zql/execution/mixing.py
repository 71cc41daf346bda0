"""Jobs of several threads done by one executor, side by side: those of stages that run together."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from queue import SimpleQueue

from zql.execution.executor import Executor, Job, Outcome
from zql.execution.settings import Settings


class LiveJobs(Sequence[Job]):
    """Jobs that may become more while they are done, until it is closed.

    An executor takes them with `take`, leaves out those that are `dropped`, and ends at once when
    it is `abandoned`, whatever is under way.
    """

    def __init__(self) -> None:
        self.open = True
        self.abandoned = False
        self.dropped: set[int] = set()
        self._new: SimpleQueue[Job] = SimpleQueue()

    def __len__(self) -> int:
        return self._new.qsize()

    def __getitem__(self, _: object) -> Job:  # type: ignore[override]
        raise TypeError("they are taken, not looked at")

    def add(self, job: Job) -> None:
        """One more; from any thread."""
        self._new.put(job)

    def take(self) -> list[Job]:
        """Those that are new."""
        return [self._new.get() for _ in range(self._new.qsize())]


class _Client:
    """The jobs of one thread, by the numbers that they have among all, and what became of them."""

    def __init__(self, jobs: dict[int, Job]) -> None:
        self.open = jobs
        self.told: SimpleQueue[Outcome | BaseException] = SimpleQueue()


class Mixer:
    """An executor over another one, whose `run` may be called by several threads at a time."""

    def __init__(self, executor: Executor) -> None:
        """Starts nothing; the other one is its owner's to close."""
        self._executor = executor
        self._lock = threading.Lock()
        self._clients: list[_Client] = []
        self._numbers = count()
        self._live = LiveJobs()
        self._driver: threading.Thread | None = None

    @property
    def retries(self) -> int:
        """Those of the executor below."""
        return self._executor.retries

    @retries.setter
    def retries(self, value: int) -> None:
        self._executor.retries = value

    @property
    def settings(self) -> Settings:
        """Those of the executor below."""
        return self._executor.settings

    def warm(self) -> None:
        """See `Executor`."""
        self._executor.warm()

    def run(self, jobs: Sequence[Job], seconds: float | None = None) -> Iterator[Outcome]:
        """See `Executor`; jobs of several threads are not limited in `seconds`."""
        if seconds is not None:
            raise ValueError("jobs that are mixed have no limit in time")
        if not jobs:
            return
        client = self._enter(jobs)
        try:
            for _ in jobs:
                told = client.told.get()
                if isinstance(told, BaseException):
                    raise told
                yield told
        finally:
            self._leave(client)

    def _enter(self, jobs: Sequence[Job]) -> _Client:
        while True:
            with self._lock:
                driver = self._driver
                if driver is None:
                    self._live = LiveJobs()
                    driver = threading.Thread(
                        target=self._drive, args=(self._live,), name="zql-tasks", daemon=True
                    )
                    self._driver = driver
                    client = self._joined(jobs)
                    driver.start()
                    return client
                if self._live.open:
                    return self._joined(jobs)
            driver.join()

    def _joined(self, jobs: Sequence[Job]) -> _Client:
        client = _Client({next(self._numbers): job for job in jobs})
        self._clients.append(client)
        for number, job in client.open.items():
            self._live.add(replace(job, id=number))
        return client

    def _leave(self, client: _Client) -> None:
        """The jobs that a thread does not want any more are dropped; the last one ends all."""
        with self._lock:
            if client in self._clients:
                self._clients.remove(client)
            self._live.dropped.update(client.open)
            last, driver = not self._clients, self._driver
            if last:
                self._live.open = False
                self._live.abandoned = bool(client.open)
        if last and driver is not None and driver is not threading.current_thread():
            driver.join()

    def _drive(self, live: LiveJobs) -> None:
        outcomes = self._executor.run(live)
        error: BaseException | None = None
        try:
            for outcome in outcomes:
                self._deliver(outcome)
        except BaseException as raised:  # noqa: BLE001 - all who wait for it raise it
            error = raised
        finally:
            with self._lock:
                live.open = False
                self._driver = None
                waiting = list(self._clients)
        for client in waiting:
            client.told.put(error or RuntimeError("the executor has ended early"))

    def _deliver(self, outcome: Outcome) -> None:
        with self._lock:
            for client in self._clients:
                job = client.open.get(outcome.job.id)
                if job is None:
                    continue
                client.told.put(Outcome(job, outcome.value, outcome.death))
                del client.open[outcome.job.id]
                if not client.open:
                    self._clients.remove(client)
                    self._live.open = bool(self._clients)
                return

    def interrupt(self) -> None:
        """See `Executor`: for all of them."""
        self._executor.interrupt()

    def kill(self) -> None:
        """See `Executor`."""
        self._executor.kill()

    def close(self) -> None:
        """See `Executor`."""
        self._executor.close()
