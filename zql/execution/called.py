"""The Python functions that a stage calls."""

from __future__ import annotations

from collections.abc import Iterator

from zql.expr.functions import PythonFunction
from zql.logical.plan import Scan, called_functions
from zql.physical.plan import CallPython, Stage, WriteFiles


def functions_of(stage: Stage) -> Iterator[PythonFunction]:
    """The functions that a stage calls, and those that read or write its files."""
    places = (stage.source, stage.sink)
    yield from (p.own.code for p in places if isinstance(p, Scan | WriteFiles) and p.own)
    for step in stage.steps:
        if isinstance(step, CallPython):
            yield from called_functions(step.call)


def has_time_limit(stage: Stage) -> bool:
    """Whether a call in it may not take any time: then only a worker, which can be ended, does."""
    return any(function.timeout is not None for function in functions_of(stage))
