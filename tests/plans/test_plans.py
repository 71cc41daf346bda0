"""Golden plans: what EXPLAIN and DESCRIBE say over tables that are only said to exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixed_catalog import PlanningSession
from zql.errors import ZqlError
from zql.optimizer.optimizer import BATCHES
from zql.session import ALL_RULES
from zql.source import Source

from golden import parameters

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def engine():
    with PlanningSession() as session:
        yield session.engine


@pytest.mark.parametrize("case", parameters(HERE))
def test_plan(case, engine):
    session = PlanningSession()
    session.engine = engine
    case.check(explained(session, case.script))


def explained(session, script):
    try:
        results = session.statements(Source("<test>", script))
        return "\n\n".join(result.text for result in results if result.kind == "text")
    except ZqlError as error:
        return "\n".join(
            f"{type(e).__name__} {e.code} {e.message}" for e in getattr(error, "errors", [error])
        )


def test_every_rule_has_a_golden_file():
    files = {path.stem for path in HERE.glob("*.test")}
    rules = {rule.__name__ for batch in BATCHES for rule in batch.rules}
    assert files >= rules | ALL_RULES
