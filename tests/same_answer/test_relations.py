"""Relations between queries that hold whatever the answer is: no interpreter is needed.

Ternary logic partitioning (TLP): the rows for which a condition is true, false and unknown are
together all rows. Non-optimizing reference (NoREC): a filter keeps as many rows as there are for
which the same condition, computed as a column, is true. Both find what an optimizer does wrong with
a condition. (Rigger and Su, "Finding Bugs in Database Systems via Query Partitioning", 2020.)
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import (
    Aggregate,
    Distinct,
    FlatMap,
    Join,
    Map,
    PythonSet,
    SetSum,
    Swap,
    Switch,
    UnionAll,
    Unnest,
    Where,
)
from test_same_answer import EXAMPLES, TABLES, answer, prepare, write_table
from zql.session import ALL_RULES, Session
from zql.source import Source

ATOMS = st.sampled_from(
    [
        "a > 1",
        "a = 2",
        "a IS NULL",
        "b = 'x'",
        "b <> 'x'",
        "b IS NOT NULL",
        "a IN (1, NULL)",
        "a BETWEEN 0 AND 2",
        "length(b) = a",
        "NULL",
        "py.is_large(a)",
        "a IN (FROM t |> SELECT a)",
        "EXISTS (FROM t AS o |> WHERE o.b = 'y')",
    ]
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
    ),
    max_leaves=4,
)
BEFORE = st.lists(
    st.sampled_from(
        [
            Where("a", "<", 3),
            SetSum(1),
            Swap(),
            Distinct(),
            UnionAll(),
            Unnest(),
            Aggregate(),
            Join(),
            PythonSet(),
            FlatMap(),
            Map(),
            Switch(),
        ]
    ),
    max_size=3,
)
COMMON = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def session():
    with Session(workers=1, threads=1) as made:
        list(made.statements(Source("first", "VALUES (1)")))  # what a session changes, it has now
        yield made


@pytest.fixture
def tables(session, tmp_path, monkeypatch):
    """Writes the rows of `t` and sets the rules that are switched off."""
    monkeypatch.chdir(tmp_path)

    def make(rows, disabled):
        for old in tmp_path.glob("t-*.jsonl"):
            old.unlink()
        write_table(tmp_path, rows)
        prepare(session, tmp_path, IS_LARGE)
        session.disabled = frozenset(disabled)

    return make


IS_LARGE = """

def is_large(a: int | None) -> bool | None:
    return None if a is None else a > 1
"""


def pipeline(clauses):
    return " ".join(["FROM t AS t", *(f"|> {clause.text}" for clause in clauses)])


def bag(rows):
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@COMMON
@given(
    clauses=BEFORE,
    condition=CONDITIONS,
    rows=TABLES,
    disabled=st.sets(st.sampled_from(sorted(ALL_RULES))),
)
def test_true_false_and_unknown_are_all_rows(session, tables, clauses, condition, rows, disabled):
    tables(rows, disabled)
    start = pipeline(clauses)
    parts = [f"({condition})", f"NOT ({condition})", f"({condition}) IS NULL"]
    together = Counter()
    for part in parts:
        together += bag(answer(session, f"{start} |> WHERE {part}"))
    assert together == bag(answer(session, start)), f"{start} by {condition} over {rows}"


@COMMON
@given(
    clauses=BEFORE,
    condition=CONDITIONS,
    rows=TABLES,
    disabled=st.sets(st.sampled_from(sorted(ALL_RULES))),
)
def test_a_filter_keeps_the_rows_for_which_its_column_is_true(
    session, tables, clauses, condition, rows, disabled
):
    tables(rows, disabled)
    start = pipeline(clauses)
    kept = answer(session, f"{start} |> WHERE {condition} |> AGGREGATE count(*) AS n")
    counted = answer(
        session,
        f"{start} |> EXTEND ({condition}) AS c |> SELECT CASE WHEN c THEN 1 ELSE 0 END AS c"
        " |> AGGREGATE coalesce(sum(c), 0) AS n",
    )
    assert [r["n"] for r in kept] == [r["n"] for r in counted], f"{start} by {condition}"
