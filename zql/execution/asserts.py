"""Failed ASSERTs: from DuckDB's error to the assertion's text, its values, and the row."""

from __future__ import annotations

from zql.errors import RunError
from zql.execution.locate import scan_place
from zql.execution.native import NativeStage
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.physical.plan import Stage
from zql.physical.sql import ASSERT_MARK
from zql.tree import walk


def assert_failure(message: str, stage: Stage, place: str = "") -> RunError | None:
    """The error of a failed assertion of a stage; None when DuckDB's message is another."""
    check = _failed(message, stage)
    if check is None:
        return None
    values = message.partition(ASSERT_MARK)[2].partition(" ")[2]
    text = f"assertion failed: {check.text}" + (f": {values}" if values else "")
    notes = (f"on {place}",) if place else ()
    return RunError(text, code="R760", span=check.span, notes=notes)


def row_of_failure(message: str, stage: Stage, native: NativeStage) -> str:
    """Where the first row stands for which the assertion does not hold; empty when unknown."""
    check = _failed(message, stage)
    if check is None:
        return ""
    wrong = lp.Filter(check.input, ex.Is(check.condition, "TRUE", negated=True))
    engine, sources = native.connection()
    return scan_place(engine, sources, wrong, 0) or ""


def _failed(message: str, stage: Stage) -> lp.Check | None:
    number = message.partition(ASSERT_MARK)[2].partition(" ")[0]
    checks = (n for n in walk(stage) if isinstance(n, lp.Check))
    return next((check for check in checks if str(check.number) == number), None)
