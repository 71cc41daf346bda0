"""Where a failed call was: the file and the row, looked up once something has failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zql.errors import UdfError, ZqlError
from zql.execution.binding import CallError
from zql.execution.carry import with_place
from zql.execution.engine import Engine
from zql.execution.sources import Input, Sources
from zql.expr.expression import Column
from zql.expr.sql import quote_identifier
from zql.logical.plan import LogicalPlan, Scan
from zql.physical.plan import RunSql, Step
from zql.physical.sql import render
from zql.storage import scan
from zql.storage.files import shown
from zql.storage.format import Split
from zql.tree import walk

_ROW = Column("zql file row", "BIGINT")
_FILE = Column("zql file name", "VARCHAR")


def call_error(error: CallError, place: str) -> UdfError:
    """A failed call with its place in the input."""
    message = f"{error.function} on {place} {error.message}"
    return UdfError(message, code=error.code, hint=error.hint, notes=error.notes)


def load_error(error: CallError) -> UdfError:
    """A function that cannot be loaded."""
    message = f"{error.function} {error.message}"
    return UdfError(message, code=error.code, hint=error.hint, notes=error.notes)


def input_place(input: Input | None) -> str:
    """What a task reads, for people: a file, and which part of it."""
    if input is None:
        return "the input"
    if not isinstance(input, Split):
        return f"rows {input.start + 1:,} to {input.stop:,} of an earlier stage"
    return scan.place(input)


def rows_place(
    part: Input | None,
    step: Step,
    numbers: Sequence[int],
    connection: Callable[[], tuple[Engine, Sources]],
) -> str:
    """As `row 3 of in.jsonl`, or `rows 3 to 5 of in.jsonl`; rows count from 1.

    The first and the last of `numbers` say which rows they were (from 0) of those that the first
    step made of the part.
    """
    first, last = numbers[0], numbers[-1]
    if isinstance(part, Split) and isinstance(step, RunSql):
        engine, sources = connection()
        found = scan_places(engine, sources, step.plan, (first, last), part)
        return found or f"a row of {shown(part.file.path)}"
    before = part.start if part is not None and not isinstance(part, Split) else 0
    return f"{_rows(before + first + 1, before + last + 1)} of its input"


def _rows(first: int, last: int) -> str:
    return f"row {first}" if first == last else f"rows {first} to {last}"


def scan_places(
    engine: Engine,
    sources: Sources,
    plan: LogicalPlan,
    numbers: tuple[int, int],
    split: Split | None = None,
) -> str | None:
    """The places of the rows from the first of `numbers` to the last; None when they have none."""
    found = scan_row(engine, sources, plan, numbers[0], split)
    if found is None or numbers[0] == numbers[1]:
        return None if found is None else f"row {found[0]} of {found[1]}"
    end = scan_row(engine, sources, plan, numbers[1], split)
    if end is None:
        return None
    if end[1] == found[1]:
        return f"{_rows(found[0], end[0])} of {found[1]}"
    return f"row {found[0]} of {found[1]} to row {end[0]} of {end[1]}"


def scan_place(
    engine: Engine, sources: Sources, plan: LogicalPlan, number: int, split: Split | None = None
) -> str | None:
    """The place of the row `number` (from 0) of a plan over a scan; None when it has none."""
    found = scan_row(engine, sources, plan, number, split)
    return None if found is None else f"row {found[0]} of {found[1]}"


def scan_row(
    engine: Engine, sources: Sources, plan: LogicalPlan, number: int, split: Split | None = None
) -> tuple[int, str] | None:
    """The number in its file (from 1) of the row `number` (from 0) of a plan, and the file.

    None when it has none. The plan is run again, up to this row, with the rows' numbers in their
    files: so that what seldom fails need not carry them.
    """
    try:
        sql = _placed_sql(sources, plan, split)
        if sql is None:
            return None
        rows = engine.rows(f"{sql} LIMIT 1 OFFSET {number}")
    except (ZqlError, OSError):
        return None  # the place is help, and its lack may not hide the error itself
    return (int(rows[0][0]) + 1, shown(rows[0][1])) if rows else None


def row_places(
    part: Input | None,
    step: Step,
    numbers: Sequence[int],
    connection: Callable[[], tuple[Engine, Sources]],
) -> list[tuple[str | None, int | None]]:
    """The files and the rows in them, from 1, of many rows, which are numbered as in `rows_place`.

    The part is read once more for it. None for rows that do not come from one row of a file.
    """
    nowhere: tuple[str | None, int | None] = (None, None)
    if not isinstance(part, Split) or not isinstance(step, RunSql):
        return [nowhere] * len(numbers)
    engine, sources = connection()
    sql = _placed_sql(sources, step.plan, part)
    if sql is None:
        return [(shown(part.file.path), None)] * len(numbers)
    found: dict[int, tuple[str | None, int | None]] = {}
    wanted = sorted(set(numbers), reverse=True)
    start = 0
    with engine.batches(sql, _BATCH_ROWS, lossless=True) as stream:
        for batch in stream:
            while wanted and wanted[-1] < start + batch.num_rows:
                number = wanted.pop()
                row, file = (column[number - start].as_py() for column in batch.columns)
                found[number] = (shown(file), row + 1)
            start += batch.num_rows
    return [found.get(number, nowhere) for number in numbers]


_BATCH_ROWS = 8192


def _placed_sql(sources: Sources, plan: LogicalPlan, split: Split | None) -> str | None:
    """The SELECT of the rows and files of a plan over a scan; None when it has none."""
    placed = with_place(plan, _ROW, _FILE)
    if placed is None:
        return None
    (leaf,) = (node for node in walk(placed) if isinstance(node, Scan))
    items = f"{quote_identifier(_ROW.name)}, {quote_identifier(_FILE.name)}"
    relation = sources.relation(leaf, split, number_rows=True)
    sql = render(placed, sources.of(placed, {leaf: relation}))
    return f"SELECT {items} FROM (\n{sql}\n)"
