"""A query run for its figures alone: all its rows are made, and none is kept."""

from __future__ import annotations

import time

from zql.execution.engine import EngineError
from zql.execution.report import RunReport
from zql.execution.run import Run
from zql.execution.stages import explained, is_python


def drain(run: Run) -> RunReport:
    """Runs a plan that ends in `Collect`, and throws its rows away. Raises `ZqlError`."""
    began = time.perf_counter()
    *before, last = run.plan.stages
    for stage in before:
        run.keep(stage)
    if is_python(last):
        run.keep(last)
    else:
        started = time.perf_counter()
        with run.native(last) as native:
            try:
                rows = native.drain()
            except EngineError as error:
                raise explained(native.placed(error), last) from None
            run.report(last, "native", 1, rows, started, native)
    return run.finished(began, (), ())
