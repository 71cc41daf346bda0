"""Tasks whose worker had to be ended, as a call did not come to its end within its time limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zql.errors import UdfError
from zql.execution.call_timeout import ONE_BY_ONE, Overdue, Span
from zql.execution.called import functions_of
from zql.execution.engine import Engine
from zql.execution.locate import input_place
from zql.execution.pipeline import Pipeline
from zql.execution.refused import took_too_long
from zql.execution.task import TaskSpec
from zql.logical.plan import Apply, Fold, MapRows, PythonColumn, Reduce
from zql.physical.plan import CallPython, Stage

if TYPE_CHECKING:
    from zql.execution.executor import Death


def without_stuck(spec: TaskSpec, death: Death, engine: Engine) -> TaskSpec:
    """The task once more, in which the call that did not end fails at once.

    When it was one of several that were under way, they are made one by one. Raises `UdfError`
    when such a failure would end the run, and when it is not known which call it was.
    """
    late = death.overdue
    if late is None:
        raise AssertionError("the worker died of something else")
    known = spec.stuck.get(late.function, frozenset())
    span = late.span
    if not late.exact and ONE_BY_ONE not in known and (span is None or span[0] != span[1]):
        known |= {ONE_BY_ONE}
    elif span is not None and span not in known and _let_go(spec.stage, late):
        known = known - {ONE_BY_ONE} | {span}
    else:
        raise stuck_error(spec, late, death.notes, engine)
    return replace(spec, stuck={**spec.stuck, late.function: known})


def _let_go(stage: Stage, late: Overdue) -> bool:
    """Whether all such calls may fail."""
    calls: list[PythonColumn | MapRows | Reduce | Fold] = []
    for step in stage.steps:
        if isinstance(step, CallPython):
            calls += step.call.calls if isinstance(step.call, Apply) else [step.call]
    found = [
        call for call in calls if not isinstance(call, Fold) and late.is_of(call.function.name)
    ]
    return bool(found) and all(
        not isinstance(call, Reduce)
        and (call.on_error is not None or (isinstance(call, PythonColumn) and call.safe))
        for call in found
    )


def stuck_error(spec: TaskSpec, late: Overdue, notes: tuple[str, ...], engine: Engine) -> UdfError:
    """The error of a call for which the worker was ended, with the place of its rows."""
    found = (f.name for f in functions_of(spec.stage) if late.is_of(f.name))
    name = next(found, "a function")
    return late_error(name, place_of(spec, engine, late.span), late, notes)


def place_of(spec: TaskSpec, engine: Engine, rows: Span | None) -> str:
    """Where these rows of a task's input are, which may be read once more for it."""
    if rows is None:
        return input_place(spec.input)
    with Pipeline(spec.stage, spec.input, engine, spec.settings, results=spec.results) as pipeline:
        return pipeline.place(*rows)


def late_error(name: str, place: str, late: Overdue, notes: tuple[str, ...]) -> UdfError:
    """The error of a call that could only be ended with its process."""
    told = took_too_long(late.seconds)
    return UdfError(
        f"{name} on {place} {told.message}, and was ended with its process",
        code=told.code,
        hint=told.hint,
        notes=notes,
    )
