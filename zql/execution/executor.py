"""Who does jobs: what every executor promises, and the one that does them in this process.

A job is a function of data, and what comes of it is data: nothing here knows of processes, of
memory that they share, or of this machine. How an executor finds out that a job ended its worker,
and looks after memory and overdue calls, is its own business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zql.errors import InternalError, Interrupted
from zql.execution import traces
from zql.tree import node

if TYPE_CHECKING:
    from zql.execution.call_timeout import Overdue
    from zql.execution.engine import Engine
    from zql.execution.settings import Settings


@node
class Job:
    """`function(engine, argument)` to be called by a worker; `place` says on what, for people.

    The function may be called again where an earlier call was lost with its worker: what it leaves
    behind must not be in the way of that. No more than `most` jobs of a `group` are done at a time,
    and while they are the processes may use `budget` bytes of memory together, where that is more
    or less than the settings say.
    """

    id: int
    function: Callable[[Engine, Any], Any]
    argument: Any
    place: str
    group: int = 0
    most: int | None = None
    budget: int | None = None


@node
class Death:
    """How a job ended its worker, `tries` times; `memory` when it was for using too much.

    `detail` is where in the job it was, when the job notes that; `rows` are the first and the last
    row of its input, from 0, that it was at; `notes` are the user's frames at a crash; `overdue` is
    a call for whose time limit the worker was ended; `seconds` is the limit of the whole job, when
    that was used up.
    """

    tries: int
    reason: str
    memory: bool = False
    detail: int | None = None
    notes: tuple[str, ...] = ()
    overdue: Overdue | None = None
    rows: tuple[int, int] | None = None
    seconds: float | None = None


@node
class Outcome:
    """What became of a job: what its function gave, or how its worker died of it."""

    job: Job
    value: Any = None
    death: Death | None = None


@node
class Bug:
    """What a job's function raised, which it must not, as text: it may be of any class."""

    told: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, error: BaseException) -> Bug:
        """What there is to say of an exception."""
        return cls(traces.told(error), traces.all_frames(error))

    def error(self, place: str) -> InternalError:
        """The error that ends the run."""
        message = f"internal error on {place}: {self.told}"
        return InternalError(message, code="X901", notes=self.notes)


class Executor(Protocol):
    """Does jobs, for one `run` at a time. `retries` counts those that were begun again."""

    retries: int

    @property
    def settings(self) -> Settings:
        """What its workers run with."""

    def warm(self) -> None:
        """Begins to start what it needs; for a caller who knows that jobs will come."""

    def run(self, jobs: Sequence[Job], seconds: float | None = None) -> Iterator[Outcome]:
        """The outcomes of the jobs as they come, in any order; exactly one for each job.

        A job that ends its worker is begun again, `Settings.tries` times in all, and does not take
        others with it. Leaving the iterator early ends what is under way. Raises `TimeoutError`
        when the jobs take more than `seconds`, `Interrupted` after `interrupt`, `InternalError`
        when a function raises, and `RunError` when no worker can be started.
        """

    def interrupt(self) -> None:
        """Lets `run` raise `Interrupted`; from any thread."""

    def kill(self) -> None:
        """Ends what is under way at once; jobs may be run afterwards."""

    def close(self) -> None:
        """Ends it for good: no process, file or thread is left."""


class InProcess:
    """An executor that does jobs here, one after the other as their outcomes are asked for.

    A job that ends its process ends this one. Limits in time are looked at between jobs.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.retries = 0
        self._engine = engine
        self._settings = settings
        self._interrupted = False

    @property
    def settings(self) -> Settings:
        """What the jobs run with."""
        return self._settings

    def warm(self) -> None:
        """There is nothing to start."""

    def run(self, jobs: Sequence[Job], seconds: float | None = None) -> Iterator[Outcome]:
        """The outcomes in the order of the jobs."""
        self._interrupted = False
        end = None if seconds is None else time.monotonic() + seconds
        for job in jobs:
            try:
                value = job.function(self._engine, job.argument)
            except Exception as error:
                raise Bug.of(error).error(job.place) from error
            self._look(end)
            yield Outcome(job, value)

    def _look(self, end: float | None) -> None:
        if self._interrupted:
            raise Interrupted("interrupted", code="R799")
        if end is not None and time.monotonic() > end:
            raise TimeoutError

    def interrupt(self) -> None:
        """Ends the jobs after the one that is under way."""
        self._interrupted = True

    def kill(self) -> None:
        """Nothing is under way between outcomes."""

    def close(self) -> None:
        """There is nothing to end."""
