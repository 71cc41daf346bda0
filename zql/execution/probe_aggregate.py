"""The type that a Python aggregate gives, seen on the first rows as one group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from zql.errors import UdfError
from zql.execution import loader, worker
from zql.execution.engine import Engine
from zql.execution.misfit import Misfit
from zql.execution.observed import NoType, kind_of, settled
from zql.execution.results import to_arrow
from zql.execution.seen import MOST_ELEMENTS, Calls, Seen, failed_call, with_shared
from zql.execution.shared import Stored
from zql.execution.signature import CONTEXT
from zql.expr.functions import PythonFunction

_TOGETHER = "the first rows"


def observe_aggregate(
    _engine: Engine, calls: Calls, objects: Mapping[str, Any] | None = None
) -> Seen:
    """Takes the rows into one object; never raises what its methods raise."""
    function = calls.function
    stepping, making = _keywords(function)
    strict = [not p.passes_null for p in function.parameters]
    state: Any = None
    method = ""
    row = 0
    try:
        made_of = loader.load(function)
    except BaseException as error:  # noqa: BLE001 - user code
        return failed_call(0, error, "R713", "cannot be loaded:")
    try:
        for row, given in enumerate(calls.rows):
            worker.note_detail(row)
            arguments, shared = with_shared(calls, given, objects or Stored(calls.folders))
            count = len(arguments) - len(calls.keywords)
            named = {**dict(zip(calls.keywords, arguments[count:], strict=True)), **shared}
            if state is None:
                method = "__init__"
                state = made_of(**{name: named[name] for name in making & named.keys()})
            if any(s and a is None for s, a in zip(strict, arguments[:count], strict=False)):
                continue
            method = "step"
            state.step(*arguments[:count], **{n: named[n] for n in stepping & named.keys()})
    except UdfError as error:
        return Seen(code=error.code, message=error.message, notes=error.notes)
    except BaseException as error:  # noqa: BLE001 - user code
        return replace(failed_call(row, error, "R710", "raised"), method=method)
    return _finished(state) if state is not None else Seen()


def _keywords(function: PythonFunction) -> tuple[set[str], set[str]]:
    """The named arguments of `step`, and those of `__init__`."""
    context = {CONTEXT}
    stepping = {p.name for p in function.parameters}
    kind = function.aggregate
    making = {p.name for p in kind.parameters} - stepping if kind is not None else set()
    return (
        stepping | (context if function.context else set()),
        making | (context if kind is not None and kind.context else set()),
    )


def _finished(state: Any) -> Seen:
    """The type of what a state gives."""
    try:
        value = state.finish()
        iterates = isinstance(value, Iterator)
        if iterates:
            value = list(islice(value, MOST_ELEMENTS))
        kind = settled(kind_of(value))
        to_arrow([value], kind)
    except (NoType, Misfit) as error:
        message = f"has no one type for its result: {error}"
        return Seen(place=_TOGETHER, method="finish", code="R711", message=message)
    except BaseException as error:  # noqa: BLE001 - user code
        failed = failed_call(0, error, "R710", "raised")
        return replace(failed, place=_TOGETHER, method="finish")
    return Seen(str(kind), iterates)
