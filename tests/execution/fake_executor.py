"""An executor of chance: jobs end in any order, are lost, and are done twice, all in process."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zql.errors import Interrupted
from zql.execution.engine import Engine
from zql.execution.executor import Bug, Death, Job, Outcome
from zql.execution.settings import Settings


class FakeExecutor:
    """Does what its random numbers say; the same seed, the same schedule.

    `deaths` is the share of attempts that end their worker after they did all that they leave
    behind, `twice` that of attempts made twice, of which one counts, and `told_twice` that of
    outcomes which come twice, as from an executor that starts slow jobs a second time.
    """

    def __init__(
        self,
        engine: Engine | None,
        settings: Settings,
        seed: int = 0,
        *,
        deaths: float = 0.0,
        twice: float = 0.0,
        told_twice: float = 0.0,
        attempt: Callable[[Job], Any] | None = None,
    ) -> None:
        self.retries = 0
        self.settings = settings
        self.attempts: Counter[int] = Counter()
        self.dead: set[int] = set()
        self._engine = engine
        self._random = random.Random(seed)
        self._shares = (deaths, twice, told_twice)
        self._attempt = attempt or (lambda job: job.function(self._engine, job.argument))
        self._interrupted = False

    def warm(self) -> None:
        pass

    def run(self, jobs: Sequence[Job], seconds: float | None = None) -> Iterator[Outcome]:
        self._interrupted = False
        deaths, twice, told_twice = self._shares
        chance = self._random.random
        end = None if seconds is None else time.monotonic() + seconds
        waiting, told = list(jobs), []
        lost: Counter[int] = Counter()
        while waiting:
            job = waiting.pop(self._random.randrange(len(waiting)))
            value = self._done(job)
            if chance() < twice:
                value = self._random.choice([value, self._done(job)])
            if self._interrupted:
                raise Interrupted("interrupted", code="R799")
            if end is not None and time.monotonic() > end:
                raise TimeoutError
            if chance() < deaths:
                lost[job.id] += 1
                if lost[job.id] < self.settings.tries:
                    self.retries += 1
                    waiting.append(job)
                    continue
                self.dead.add(job.id)
                yield Outcome(job, death=Death(lost[job.id], "chance"))
                continue
            told.append(Outcome(job, value))
            yield told[-1]
            if chance() < told_twice:
                yield self._random.choice(told)

    def _done(self, job: Job) -> Any:
        self.attempts[job.id] += 1
        try:
            return self._attempt(job)
        except Exception as error:
            raise Bug.of(error).error(job.place) from error

    def interrupt(self) -> None:
        self._interrupted = True

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass
