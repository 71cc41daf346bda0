"""The result type of a scalar function with `batch_size`, seen on calls of a few rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zql.errors import UdfError
from zql.execution import kinds, loader, worker
from zql.execution.engine import Engine
from zql.execution.list_calls import column_of, listed
from zql.execution.misfit import Misfit
from zql.execution.observed import NULL, NoType, kind_of, merged, settled
from zql.execution.records import alone
from zql.execution.results import to_arrow
from zql.execution.seen import Calls, Seen, failed_call, lets_go, with_shared
from zql.execution.shared import Stored
from zql.expr.functions import FunctionParameter


def observe_lists(_engine: Engine, calls: Calls, objects: Mapping[str, Any] | None = None) -> Seen:
    """Makes the calls; never raises what a function raises. `objects` are the shared ones."""
    function = calls.function
    try:
        call = alone(function, loader.load(function))
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(0, error, "R713", "cannot be loaded:")
    parameters = _parameters(calls)
    kind, values = NULL, []
    let_go: Seen | None = None
    todo = deque(_batches(calls, parameters))
    while todo:
        first, last, rows = todo.popleft()
        worker.note_detail(first)
        try:
            by_column = zip(*(row for _, row in rows), strict=True)
            columns = tuple(
                column_of(column, "list" if p is None else p.form, kinds.parse(type_))
                for column, p, type_ in zip(by_column, parameters, calls.types, strict=False)
            )
            given, extra = with_shared(calls, columns, objects or Stored(calls.folders))
        except UdfError as error:
            return Seen(code=error.code, message=error.message, notes=error.notes)
        count = len(given) - len(calls.keywords)
        named = {**dict(zip(calls.keywords, given[count:], strict=True)), **extra}
        try:
            found = listed(call(*given[:count], **named), len(rows))
        except BaseException as error:  # noqa: BLE001 - user code
            failure = replace(failed_call(first, error, "R710", "raised"), last=last)
            if not lets_go(calls, error):
                return failure
            let_go = let_go or failure
            if len(rows) > 1 and not function.volatile:  # as the run will do it
                todo.extendleft((at, at, [(at, row)]) for at, row in reversed(rows))
            continue
        try:
            for value in found:
                kind = merged(kind, kind_of(value))
        except NoType as error:
            return Seen(row=first, code="R711", message=f"has no one type for its results: {error}")
        values += found
    if not values:
        return Seen(let_go=let_go)
    kind = settled(kind)
    try:
        to_arrow(values, kind)
    except Misfit as misfit:
        message = f"gave values of no one type: {misfit.why}"
        return Seen(row=misfit.row, code="R711", message=message)
    return Seen(str(kind))


def _parameters(calls: Calls) -> list[FunctionParameter | None]:
    """The parameters that take what comes from rows, in its order."""
    taken = {at for at, _ in calls.shared}
    every = calls.function.parameters
    last = every[-1] if every and every[-1].variadic else None
    count = len(calls.types) - len(calls.keywords)
    places = [at for at in range(count + len(taken)) if at not in taken][:count]
    found = [every[at] if at < len(every) else last for at in places]
    by_name = {p.name: p for p in every}
    return [*found, *(by_name.get(name) for name in calls.keywords)]


def _batches(
    calls: Calls, parameters: Sequence[FunctionParameter | None]
) -> Iterator[tuple[int, int, list[tuple[int, tuple[Any, ...]]]]]:
    """Where the first and the last row are of each call, and its rows: `batch_size` at most."""
    strict = [p is not None and not p.passes_null for p in parameters]
    due = [
        (at, row)
        for at, row in enumerate(calls.rows)
        if not any(s and v is None for s, v in zip(strict, row, strict=False))
    ]
    size = calls.function.batch_size or 1
    for start in range(0, len(due), size):
        some = due[start : start + size]
        yield some[0][0], some[-1][0], some
