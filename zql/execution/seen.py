"""Calls that are made to see what a function gives, and what was seen: between processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from zql.execution import loader, traces
from zql.execution.context import Context
from zql.execution.refused import RefusedCallError
from zql.execution.shard import Shard
from zql.execution.shared import Objects
from zql.expr.expression import TaskContext
from zql.expr.functions import PythonFunction
from zql.logical.catalog import IN_EXPRESSION, ProbeWay, Shared
from zql.tree import node

MOST_ELEMENTS = 100
"""How many records of an iterator are looked at."""


@node
class Calls:
    """Calls to be made: for each row the positional arguments, then those of `keywords`.

    `shared` objects are added at their places; they are loaded from the `folders` of their keys.
    Scratch folders are made in `scratch`. `record` has the names and types of the columns, when the
    first argument is a record; `types` are those of all that comes from rows. `path` is the first
    file that is read, if there is one; `search` are folders for imports of user code.
    """

    function: PythonFunction
    rows: Sequence[tuple[Any, ...]]
    keywords: tuple[str, ...]
    tolerant: bool = False
    shared: Shared = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    scratch: str = ""
    way: ProbeWay = IN_EXPRESSION
    record: tuple[tuple[str, str], ...] = ()
    path: str | None = None
    types: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


@node
class Seen:
    """What calls gave: a type (empty when there was no row), or why the one of `row` failed.

    `let_go` is the first failure that ON ERROR or TRY lets go. A call of many rows is one of those
    from `row` to `last`; `place` is put for the rows' own place when it has `{}` in it. Of a class
    it was this `method`.
    """

    returns: str = ""
    iterates: bool = False
    row: int = 0
    last: int | None = None
    place: str = "{}"
    method: str = ""
    code: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()
    let_go: Seen | None = None


def loaded(calls: Calls, objects: Objects) -> Callable[..., Any]:
    """The function that is called. Raises whatever the user's code raises."""
    for folder in calls.search:
        loader.search(folder)
    return objects.instances.load(calls.function, objects)


def with_shared(
    calls: Calls, given: tuple[Any, ...], objects: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the shared objects that have a place, and those that have a name."""
    arguments: list[Any] = list(given)
    named: dict[str, Any] = {}
    for at, shared in calls.shared:
        if isinstance(shared, TaskContext):
            keys = {one.name: one.key for one in shared.shared}
            part = Shard(path=calls.path)
            named[str(at)] = Context(
                part, keys, objects, calls.scratch, f"first rows, {calls.function.name}"
            )
        elif isinstance(at, int):
            arguments.insert(at, objects[shared.key])
        else:
            named[at] = objects[shared.key]
    return tuple(arguments), named


def lets_go(calls: Calls, error: BaseException) -> bool:
    """Whether a call that fails just tells nothing."""
    return calls.tolerant and isinstance(error, Exception)


def failed_call(row: int, error: BaseException, code: str, verb: str) -> Seen:
    """An exception of the user's code as data."""
    if isinstance(error, RefusedCallError):
        notes = error.frames or traces.frames(error)
        return Seen(row=row, code=error.code, message=error.message, notes=notes)
    message = f"{verb} {traces.told(error)}"
    return Seen(row=row, code=code, message=message, notes=traces.frames(error))
