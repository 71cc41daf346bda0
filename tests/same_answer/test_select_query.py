"""SELECT in SQL's order means what it means in DuckDB: random ones, run by both."""

from __future__ import annotations

import os

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from zql.session import Session

TABLE = pa.table(
    {
        "a": [1, 1, 2, 2, 3, None, 1, 2],
        "b": [5, 3, 5, None, 1, 2, 3, 4],
        "s": ["x", "y", "x", "x", None, "y", "y", "z"],
    }
)

ROW = ["a", "b", "s", "a + b", "-a", "upper(s)", "a % 2", "coalesce(b, 0)"]
GROUPED = ["count(*)", "sum(b)", "max(b) - min(a)", "count(b) + 1", "list(b ORDER BY b)[1]"]
WINDOWS = ["row_number() OVER (ORDER BY a, b, s)", "sum(a) OVER (PARTITION BY s)"]
OVER_GROUPS = ["rank() OVER (ORDER BY count(*))", "sum(count(*)) OVER ()"]
NAMES = ["a", "b", "c", "d", "e"]


@st.composite
def queries(draw) -> str:
    """A SELECT that both should take: names of the list differ, sort keys are whole."""

    def some(items, least, most):
        return draw(st.lists(st.sampled_from(items), min_size=least, max_size=most, unique=True))

    grouped = draw(st.booleans())
    keys = some(ROW, 0, 2) if grouped else []
    pool = keys + GROUPED + OVER_GROUPS if grouped else ROW + WINDOWS
    items = some(pool, 1, 4)
    names = draw(st.permutations(NAMES))[: len(items)]
    listed = [f"{e} AS {n}" for e, n in zip(items, names, strict=True)]
    words = ["SELECT"]
    if draw(st.booleans()):
        words.append("DISTINCT")
    words += [", ".join(listed), "FROM t"]
    if draw(st.booleans()):
        words.append(f"WHERE {draw(st.sampled_from(['a > 1', 'b IS NOT NULL', 's <> $$x$$']))}")
    if keys:
        chosen = [
            str(items.index(k) + 1) if k in items and draw(st.booleans()) else k for k in keys
        ]
        words.append(
            "GROUP BY "
            + ("ALL" if set(keys) <= set(items) and draw(st.booleans()) else ", ".join(chosen))
        )
    if grouped and draw(st.booleans()):
        words.append(f"HAVING {draw(st.sampled_from(['count(*) > 1', 'max(b) < 5']))}")
    if draw(st.booleans()):
        windows = OVER_GROUPS if grouped else WINDOWS
        words.append(f"QUALIFY {draw(st.sampled_from(windows))} <= 3")
    order = [str(i + 1) for i in draw(st.permutations(range(len(items))))]
    first = draw(st.integers(0, len(items) - 1))
    order.insert(0, draw(st.sampled_from([order[0], f"({items[first]}) IS NULL"])))
    words.append("ORDER BY " + ", ".join(order))
    if draw(st.booleans()):
        words.append(f"LIMIT {draw(st.integers(0, 4))}")
    return " ".join(words)


@pytest.fixture(scope="module")
def both():
    with Session() as session:
        session.register("t", TABLE)
        session.query("FROM t")  # raises the limit on recursion, which hypothesis watches
        database = duckdb.connect()
        database.register("t", TABLE)
        yield session, database
        database.close()


@settings(
    max_examples=int(os.environ.get("ZQL_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(query=queries())
def test_rows_are_those_of_duckdb(both, query):
    session, database = both
    try:
        wanted = database.sql(query).to_arrow_table()
    except duckdb.BinderException:
        assume(False)
    assert rows(session.query(query).to_arrow()) == rows(wanted)


def rows(table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
