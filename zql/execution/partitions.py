"""Groups that are made of the rows of one partition after the other, and when that is done.

What DuckDB holds of a group it holds of all groups of a statement. Where rows are dealt out by
their keys, a statement has the groups of one partition: so many statements run side by side as
there are threads, and memory for what they hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zql.errors import Interrupted
from zql.execution.engine import OUT_OF_MEMORY, EngineError
from zql.execution.settings import MIB, Settings
from zql.execution.sizes import mib, runs
from zql.logical import plan as lp
from zql.optimizer.known_sizes import known_bytes
from zql.physical.plan import PhysicalPlan, Stage
from zql.tree import walk

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from zql.execution.exchange import Exchange
    from zql.execution.kept import KeptFile

    Select = Callable[[Iterator[pa.RecordBatch]], list[pa.RecordBatch]]
    """The groups of some rows."""

_LARGEST = 16 * MIB
"""Partitions are put together up to this: a statement costs some milliseconds of its own."""
SHARE = 8
"""What is held takes up to so many times the bytes of the rows."""
_MOST_PARTS = 64
"""Of a partition that memory is not enough for."""
_POLL_SECONDS = 0.05


class Choice(NamedTuple):
    """Whether rows are dealt out, and why."""

    deals: bool
    reason: str


def choice(size: int, settings: Settings) -> Choice:
    """Whether groups of rows of about `size` bytes are made partition by partition."""
    if settings.partitions is not None:
        return Choice(True, "as set")
    memory = settings.native_memory()
    about = f"what is held of about {mib(size)} of rows"
    if size * SHARE <= memory:
        return Choice(False, f"{about} fits into DuckDB's {mib(memory)}")
    return Choice(True, f"{about} may be more than DuckDB's {mib(memory)}")


def bytes_of_rows(
    plan: lp.LogicalPlan,
    results: Mapping[int, Sequence[KeptFile]],
    objects: Mapping[str, object],
) -> int:
    """About how many bytes the rows have that a plan reads, by what is there of them."""
    size = known_bytes(plan)
    for leaf in dict.fromkeys(walk(plan)):
        if isinstance(leaf, lp.StageResult):
            size += sum(file.bytes for file in results.get(leaf.stage, ()))
        elif isinstance(leaf, lp.MemoryScan) and leaf.size is None:
            size += getattr(objects.get(leaf.key), "nbytes", 0)
    return size


def dealing(plan: PhysicalPlan, stage: Stage) -> Stage:
    """The stage that deals out the rows of one that groups them by partition."""
    (number,) = stage.inputs
    return next(each for each in plan.stages if each.id == number)


class Ways(NamedTuple):
    """Which partitions are done together, how many statements run at a time, and their threads."""

    ranges: tuple[range, ...]
    at_a_time: int
    threads: int

    @classmethod
    def of(cls, exchange: Exchange, settings: Settings) -> Ways:
        """So that what all statements hold fits into memory."""
        sizes = [partition.bytes for partition in exchange.partitions]
        threads, memory = settings.thread_count(), settings.native_memory() // SHARE
        least = 1 if settings.partitions is not None else min(_LARGEST, memory // threads)
        ranges = tuple(range(*ends) for ends in runs(sizes, least) if sum(sizes[slice(*ends)]))
        largest = max((sum(sizes[n] for n in numbers) for numbers in ranges), default=1)
        at_a_time = max(1, min(threads, len(ranges), memory // largest))
        return cls(ranges, at_a_time, max(1, threads // at_a_time))


def groups(
    exchange: Exchange, ways: Ways, select: Select, interrupt: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    """The groups in the order of the partitions; `interrupt` stops the statements that run.

    Partitions for which memory was not enough come last, each alone, and in parts if need be.
    """
    again: list[range] = []

    def attempt(numbers: range) -> list[pa.RecordBatch] | None:
        try:
            return select(exchange.dealt(numbers))
        except EngineError as error:
            if error.kind != OUT_OF_MEMORY:
                raise
        return None

    for numbers, found in _in_turn(attempt, ways, interrupt):
        if found is None:
            again.append(numbers)
        else:
            yield from found
    for number in (number for numbers in again for number in numbers):
        yield from _alone(exchange, number, select)


def _alone(
    exchange: Exchange, number: int, select: Select, part: int = 0, parts: int = 1
) -> Iterator[pa.RecordBatch]:
    """The groups of a partition, or of a part of it, in halves where memory is not enough."""
    try:
        found = select(exchange.dealt(range(number, number + 1), part, parts))
    except EngineError as error:
        if error.kind != OUT_OF_MEMORY or parts == _MOST_PARTS:
            raise
    else:
        yield from found
        return
    for half in (2 * part, 2 * part + 1):
        yield from _alone(exchange, number, select, half, 2 * parts)


def _in_turn(
    call: Callable[[range], list[pa.RecordBatch] | None],
    ways: Ways,
    interrupt: Callable[[], None],
) -> Iterator[tuple[range, list[pa.RecordBatch] | None]]:
    """The results of calls, several made at a time, in order and each as soon as it can be."""
    from concurrent.futures import ThreadPoolExecutor, wait

    pool = ThreadPoolExecutor(ways.at_a_time)
    waiting: deque[tuple[range, Future[list[pa.RecordBatch] | None]]] = deque()
    try:
        for numbers in ways.ranges:
            waiting.append((numbers, pool.submit(call, numbers)))
            if len(waiting) > ways.at_a_time:
                yield waiting[0][0], waiting[0][1].result()
                waiting.popleft()
        while waiting:
            yield waiting[0][0], waiting[0][1].result()
            waiting.popleft()
    except KeyboardInterrupt:
        raise Interrupted("interrupted", code="R799") from None
    finally:
        for _, future in waiting:
            future.cancel()
        # One that is only about to begin does not hear the first word.
        while wait([future for _, future in waiting], _POLL_SECONDS).not_done:
            interrupt()
        pool.shutdown()
