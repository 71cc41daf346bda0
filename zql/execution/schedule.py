"""The graph of a plan's stages: each is done when what it reads is there, others beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from zql.errors import Interrupted
from zql.logical.plan import StageResult
from zql.physical.plan import PhysicalPlan, Stage, policed_scans, policies_of, rejects_of

_POLL_SECONDS = 0.05


def needs(plan: PhysicalPlan) -> dict[int, frozenset[int]]:
    """By stage the others whose rows, or whose rejected rows, it reads."""
    rejecting: dict[int, set[int]] = {}
    for stage in plan.stages:
        scans = (scan.on_error for scan in policed_scans(stage) if scan.on_error is not None)
        for policy in (*policies_of(stage), *scans):
            rejecting.setdefault(rejects_of(policy.number), set()).add(stage.id)
    found = {}
    for stage in plan.stages:
        own = (stage.source.stage,) if isinstance(stage.source, StageResult) else ()
        read: set[int] = set()
        for number in (*own, *stage.inputs):
            read |= {number} if number > 0 else rejecting.get(number, set())
        found[stage.id] = frozenset(read - {stage.id})
    return found


def is_worth_threads(plan: PhysicalPlan) -> bool:
    """Whether a stage with Python has another one that may be done beside it.

    Statements alone gain nothing: each of them has all threads.
    """
    below = _all_below(needs(plan))
    return any(
        one.source is not None and other.id not in below[one.id] and one.id not in below[other.id]
        for one in plan.stages
        for other in plan.stages
        if one is not other
    )


def _all_below(direct: dict[int, frozenset[int]]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for number, read in direct.items():  # in an order in which they can run
        found[number] = set(read).union(*(found[below] for below in read))
    return found


class Schedule:
    """One plan on its way, its stages in threads."""

    def __init__(
        self,
        plan: PhysicalPlan,
        begin: Callable[[Stage], Callable[[], None]],
        interrupt: Callable[[], None],
    ) -> None:
        """`begin` is called here and gives what a thread does; `interrupt` stops all that runs."""
        self._needs = needs(plan)
        self._waiting = list(plan.stages)
        self._running: dict[int, Stage] = {}
        self._done: set[int] = set()
        self._failed: dict[int, BaseException] = {}
        self._ended: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()
        self._begin = begin
        self._interrupt = interrupt

    def run(self) -> None:
        """Does all stages. The first failure ends the others.

        Of several failures that of the stage which stands first is raised. Ctrl-C raises
        `Interrupted`.
        """
        interrupted = False
        while self._running or (self._waiting and not self._failed and not interrupted):
            try:
                if not self._failed and not interrupted:
                    self._start()
                self._wait()
            except KeyboardInterrupt:
                interrupted = True
            if self._failed or interrupted:
                self._interrupt()
        if interrupted:
            raise Interrupted("interrupted", code="R799")
        if self._failed:
            own = {n: e for n, e in self._failed.items() if not isinstance(e, Interrupted)}
            failed = own or self._failed
            raise failed[min(failed)]

    def _start(self) -> None:
        for stage in [s for s in self._waiting if self._needs[s.id] <= self._done]:
            if not self._fits(stage):
                continue
            self._waiting.remove(stage)
            self._running[stage.id] = stage
            work = self._begin(stage)
            name = f"zql-stage-{stage.id}"
            threading.Thread(target=self._do, args=(stage, work), name=name, daemon=True).start()

    def _fits(self, stage: Stage) -> bool:
        """Whether a stage may be done now: limits of a statement's own are those of all DuckDB."""
        if stage.source is not None:
            return True
        natives = [other for other in self._running.values() if other.source is None]
        return not natives or not any(s.resources is not None for s in (stage, *natives))

    def _do(self, stage: Stage, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised by `run`
            self._ended.put((stage.id, error))
        else:
            self._ended.put((stage.id, None))

    def _wait(self) -> None:
        try:
            number, error = self._ended.get(timeout=_POLL_SECONDS)
        except Empty:
            return
        del self._running[number]
        if error is None:
            self._done.add(number)
        else:
            self._failed[number] = error
