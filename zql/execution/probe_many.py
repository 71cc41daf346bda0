"""The columns that a function of many rows gives, seen on a call or a few of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from zql.errors import UdfError
from zql.execution import frames, kinds, worker
from zql.execution.binding import CallError, load_verb
from zql.execution.engine import Engine
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.observed import NULL, NoType, kind_of, merged, settled
from zql.execution.records import alone, items_of
from zql.execution.refused import RefusedCallError
from zql.execution.results import to_arrow
from zql.execution.seen import (
    MOST_ELEMENTS,
    Calls,
    Seen,
    failed_call,
    lets_go,
    loaded,
    with_shared,
)
from zql.execution.shard import Shard
from zql.execution.shard_calls import Rows
from zql.execution.shared import Objects, Stored
from zql.execution.udf import is_record

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "zql_probe"


@dataclass(slots=True)
class _Call:
    """One call of rows from `first` to `last`; `rows` are those that it takes one by one.

    A batch whose call fails is handed over `one_by_one`, as the run will do it.
    """

    arguments: tuple[Any, ...]
    first: int
    last: int
    place: str = "{}"
    rows: Rows | None = None
    one_by_one: Sequence[_Call] = ()

    def seen(self, found: Seen) -> Seen:
        """A failure with its place."""
        if self.rows is None or "{}" not in self.place:
            return replace(found, row=self.first, last=self.last, place=self.place)
        taken = max(self.rows.taken - 1, 0)
        return replace(found, row=taken, last=taken, place=f"{self.place}, the last that it took,")


def observe_many(engine: Engine, calls: Calls, objects: Objects | None = None) -> Seen:
    """Makes the calls; never raises what a function raises. `objects` are the shared ones."""
    objects = Stored(calls.folders) if objects is None else objects
    try:
        make = alone(calls.function, loaded(calls, objects))
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(0, error, "R713", load_verb(calls.function))
    kind, values = NULL, []
    try:
        _, shared = with_shared(calls, (), objects)
    except UdfError as error:
        return Seen(code=error.code, message=error.message, notes=error.notes)
    made = _made(calls)
    if isinstance(made, Seen):
        return made
    let_go: Seen | None = None
    todo = deque(made)
    while todo:
        call = todo.popleft()
        worker.note_detail(call.first)
        table, items = None, []
        try:
            found = make(*call.arguments, **_named(calls), **shared)
            table = frames.table_of(found)
            if table is None:
                for item in _items(calls, found):
                    items.append(item)  # noqa: PERF402 - those before an exception count
        except BaseException as error:  # noqa: BLE001 - user code
            failure = call.seen(_failed(error))
            if not lets_go(calls, error):
                return failure
            let_go = let_go or failure
            if not calls.function.volatile:
                todo.extendleft(reversed(call.one_by_one))
        try:
            if table is not None:
                kind = merged(kind, _kind_of_table(engine, table))
                continue
            for item in items:
                kind = merged(kind, kind_of(item))
        except NoType as error:
            message = f"has no one type for its results: {error}"
            return call.seen(Seen(code="R711", message=message))
        values += items
    seen = _seen(kind, values)
    return seen if seen.returns or seen.code else replace(seen, let_go=let_go)


def _made(calls: Calls) -> list[_Call] | Seen:
    """The calls, or why the rows cannot be handed over."""
    try:
        return list(_calls(calls))
    except Misfit as misfit:
        message = f"cannot be handed {show(misfit.value)}: {misfit.why}"
        return Seen(code="R712", row=misfit.row, message=message)
    except RefusedCallError as error:
        return failed_call(0, error, error.code, "")


def _failed(error: BaseException) -> Seen:
    if isinstance(error, CallError):
        return Seen(code=error.code, message=error.message, notes=error.notes)
    return failed_call(0, error, "R710", "raised")


def _seen(kind: Kind, values: list[Any]) -> Seen:
    if kind == NULL:
        return Seen(iterates=True)
    kind = settled(kind)
    try:
        to_arrow(values, kind)
    except Misfit as misfit:
        return Seen(row=0, code="R711", message=f"gave values of no one type: {misfit.why}")
    return Seen(str(Kind("LIST", (("", kind),))), iterates=True)


def _named(calls: Calls) -> dict[str, Any]:
    count = len(calls.keywords)
    values = calls.rows[0][len(calls.rows[0]) - count :] if calls.rows else ()
    named = dict(zip(calls.keywords, values, strict=True))
    return {**named, **({calls.way.shard: Shard(path=calls.path)} if calls.way.shard else {})}


def _items(calls: Calls, found: Any) -> Iterator[Any]:
    if calls.way.kind == "REDUCE" and is_record(found):
        return iter([found])
    catch = Exception if calls.tolerant else BaseException
    return islice(items_of(calls.function, found, calls.way.kind, catch), MOST_ELEMENTS)


def _calls(calls: Calls) -> Iterator[_Call]:
    """The calls that the rows make. Raises `Misfit`."""
    way = calls.way
    width = len(calls.rows[0]) - way.keys - len(calls.keywords) if calls.rows else 0
    items: list[Any] = [row[0] if width == 1 else row[:width] for row in calls.rows]
    last = len(items) - 1
    if way.kind == "REDUCE":
        keys = [row[width : width + way.keys] for row in calls.rows]
        yield from _groups(items, keys)
    elif not items:
        return
    elif way.kind == "MAP SHARDS":
        rows = Rows(iter([items]))
        yield _Call((iter(rows),), 0, last, rows=rows)
    else:
        alone = [_batch_call(calls, [item], at) for at, item in enumerate(items)]
        yield replace(_batch_call(calls, items, 0), one_by_one=alone if last else ())


def _batch_call(calls: Calls, items: list[Any], first: int) -> _Call:
    form = calls.function.form
    given = frames.handed(_batch(calls, items), form) if form and calls.record else items
    return _Call((given,), first, first + len(items) - 1)


def _groups(items: list[Any], keys: list[tuple[Any, ...]]) -> Iterator[_Call]:
    found: list[tuple[tuple[Any, ...], list[int]]] = []
    for row, key in enumerate(keys):
        places = next((places for known, places in found if known == key), None)
        if places is None:
            found.append((key, [row]))
        else:
            places.append(row)
    for key, places in found:
        value = key[0] if len(key) == 1 else key or None
        rows = iter([items[place] for place in places])
        place = f"the group {show(value)}" if key else "all the rows"
        yield _Call((value, rows), places[0], places[-1], place=place)


def _batch(calls: Calls, items: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [to_arrow([i[name] for i in items], kinds.parse(t)) for name, t in calls.record]
    return pa.RecordBatch.from_arrays(columns, [name for name, _ in calls.record])


def _kind_of_table(engine: Engine, table: pa.Table) -> Kind:
    """The columns of a table as fields."""
    with engine.cursor() as cursor:
        cursor.register(_TABLE, table)
        columns = cursor.describe(f"FROM {_TABLE}")
        cursor.unregister(_TABLE)
    return Kind("STRUCT", tuple((name, _settled(kinds.parse(t))) for name, t in columns))


def _settled(kind: Kind) -> Kind:
    """The type with VARCHAR for an ENUM, whose labels may be others in the next table."""
    if kind.name == "ENUM":
        return Kind("VARCHAR")
    parts = tuple((name, _settled(part)) for name, part in kind.parts)
    return Kind(kind.name, parts, kind.numbers)
