"""The type that a Python aggregate gives, seen on the first rows as one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zql.errors import UdfError
from zql.execution import loader, worker
from zql.execution.engine import Engine
from zql.execution.misfit import Misfit
from zql.execution.observed import NoType, kind_of, settled
from zql.execution.results import to_arrow
from zql.execution.seen import Calls, Seen, failed_call, with_shared
from zql.execution.shared import Stored
from zql.execution.signature import CONTEXT


def observe_aggregate(
    _engine: Engine, calls: Calls, objects: Mapping[str, Any] | None = None
) -> Seen:
    """Takes the rows into one object; never raises what its methods raise."""
    function = calls.function
    kind = function.aggregate
    try:
        made_of: Any = loader.load(function)
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(0, error, "R713", "cannot be loaded:")
    stepping = {p.name for p in function.parameters} | ({CONTEXT} if function.context else set())
    making = {p.name for p in kind.parameters} - stepping if kind is not None else set()
    strict = [not p.passes_null for p in function.parameters]
    state: Any = None
    for row, given in enumerate(calls.rows):
        worker.note_detail(row)
        try:
            arguments, shared = with_shared(calls, given, objects or Stored(calls.folders))
        except UdfError as error:
            return Seen(code=error.code, message=error.message, notes=error.notes)
        count = len(arguments) - len(calls.keywords)
        named = {**dict(zip(calls.keywords, arguments[count:], strict=True)), **shared}
        if kind is not None and kind.context:
            making.add(CONTEXT)
        try:
            if state is None:
                state = made_of(**{k: v for k, v in named.items() if k in making})
            if not any(s and a is None for s, a in zip(strict, arguments[:count], strict=False)):
                state.step(*arguments[:count], **{k: v for k, v in named.items() if k in stepping})
        except BaseException as error:  # noqa: BLE001 - user code
            return failed_call(row, error, "R710", "raised")
    if state is None:
        return Seen()
    try:
        value = state.finish()
        found = settled(kind_of(value))
        to_arrow([value], found)
    except (NoType, Misfit) as error:
        return Seen(
            row=len(calls.rows) - 1, code="R711", message=f"has no type for its result: {error}"
        )
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(len(calls.rows) - 1, error, "R710", "raised")
    return Seen(str(found))
