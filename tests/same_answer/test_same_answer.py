"""Every pipeline of up to three clauses gives what the interpreter says, optimized and run.

A small alphabet and small tables, exhaustively: the shortest pipeline that a wrong rule breaks is
found, always. Then longer pipelines at random; `make soak` draws more of them.
"""

from __future__ import annotations

import itertools
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import (
    FUNCTIONS,
    Aggregate,
    Check,
    Count,
    Distinct,
    DistinctOn,
    FlatMap,
    InQuery,
    Join,
    Lateral,
    Limit,
    Map,
    Pivot,
    PythonSet,
    PythonWhere,
    Recursion,
    Rollup,
    SemiJoin,
    SetSum,
    Sort,
    Swap,
    Switch,
    Undefined,
    UnionAll,
    UnionDistinct,
    Unnest,
    Where,
    WhereNull,
    WhereRank,
    interpret,
    script,
)
from zql.logical.context import Declarations
from zql.optimizer.optimizer import optimize
from zql.optimizer.rules import broadcast_joins
from zql.session import ALL_RULES, Session
from zql.source import Source

TABLE = [{"a": 2, "b": "x"}, {"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": 2, "b": "y"}]

ALPHABET = (
    Where("a", ">", 1),
    Swap(),
    Limit(2),
    Sort(descending=True),
    Distinct(),
    DistinctOn(),
    UnionAll(),
    Unnest(),
    Aggregate(),
    Rollup(),
    Pivot(),
    Lateral(),
    Recursion(),
    WhereRank(),
    PythonSet(),
    PythonWhere(),
    FlatMap(),
    Switch(),
    Check(),
)

MOVED = (
    Where("a", ">", 1),
    Swap(),
    Limit(2),
    Sort(descending=True),
    UnionAll(),
    WhereRank(),
    PythonSet(),
    PythonWhere(),
)
"""The clauses that rules move or are moved past; `make soak` takes the whole alphabet."""

SOAK = "ZQL_EXAMPLES" in os.environ
PIPELINES = [p for n in (1, 2) for p in itertools.product(ALPHABET, repeat=n)]
THREE = list(itertools.product(ALPHABET if SOAK else MOVED, repeat=3))
PIPELINES += THREE if SOAK else THREE[::3]  # each letter at each place as often as the others


def write_table(folder, rows, files=2):
    """The rows in JSONL files, cut in two: the optimizer sees a scan, Python its splits."""
    for i in range(files):
        part = rows[i * len(rows) // files : (i + 1) * len(rows) // files]
        text = "".join(json.dumps(row) + "\n" for row in part)
        (folder / f"t-{i}.jsonl").write_text(text)


def prepare(session, folder, more=""):
    """Imports the functions and declares `t`; what follows is one query a time."""
    (folder / "functions.py").write_text(FUNCTIONS + more)
    session.declarations = Declarations()
    text = (
        "IMPORT PYTHON 'functions.py' AS py;"
        " CREATE TEMP VIEW t AS FROM read_json('t-*.jsonl', columns => {a: 'BIGINT', b: 'VARCHAR'})"
    )
    list(session.statements(Source("setup", text), base_dir=str(folder)))


@pytest.fixture(scope="module")
def session():
    with Session(workers=1, threads=1) as made:
        list(made.statements(Source("first", "VALUES (1)")))  # what a session changes, it has now
        yield made


def answer(session, text):
    table = session.query(text, scan_locals=False).to_arrow()
    return table.to_pylist()


def agree(expected, got):
    key = lambda r: json.dumps(r, sort_keys=True)  # noqa: E731 - a sort key
    if expected.ordered:
        return list(map(key, got)) == list(map(key, expected.rows))
    return sorted(map(key, got)) == sorted(map(key, expected.rows))


def check(session, clauses, rows):
    try:
        expected = interpret(clauses, rows)
    except Undefined:
        return
    got = answer(session, script(clauses))
    assert agree(expected, got), f"{script(clauses)}\n{rows}\nexpected {expected}\ngot {got}"


@pytest.mark.parametrize("part", range(4))
def test_every_short_pipeline(session, tmp_path, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, TABLE)
    prepare(session, tmp_path)
    session.disabled = frozenset()
    for clauses in PIPELINES[part::4]:
        check(session, clauses, TABLE)


def test_every_shorter_pipeline_without_rules(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, TABLE)
    prepare(session, tmp_path)
    session.disabled = ALL_RULES
    for clauses in [(c,) for c in ALPHABET] + list(itertools.product(MOVED, repeat=2)):
        check(session, clauses, TABLE)


@pytest.fixture
def any_size(monkeypatch):
    """Tasks join their rows to others however few or many there are."""
    monkeypatch.setattr(broadcast_joins, "WORTH_BYTES", 0)
    monkeypatch.setattr(broadcast_joins, "SHARE", 1)


JOINED = (Join(), SemiJoin(False), SemiJoin(True))


def test_joins_in_tasks(session, tmp_path, monkeypatch, any_size):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, TABLE)
    prepare(session, tmp_path)
    session.disabled = frozenset()
    session.set("split_size", 20)
    others = (*MOVED, FlatMap(), Aggregate(), Check(), Unnest())
    pipelines = [
        clauses
        for join in JOINED
        for one in (PythonSet(), PythonWhere(), FlatMap())
        for other in (*others, *JOINED)
        for clauses in itertools.permutations((join, one, other))
    ]
    pipelines = pipelines if SOAK else pipelines[::5]  # each order as often as the others
    broadcast = 0
    for clauses in pipelines:
        text = session.query(script(clauses), scan_locals=False).explain()
        broadcast += "broadcast: the right side is" in text
        check(session, clauses, TABLE)
    assert broadcast > len(pipelines) / 3


def test_optimizing_twice_changes_nothing(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, TABLE)
    prepare(session, tmp_path)
    for clauses in PIPELINES:
        # What puts rows back behind a window would do so again: it is a window of its own.
        if len(clauses) == 2 and WhereRank() not in clauses:
            plan = session.query(script(clauses), scan_locals=False)._plan
            once, _ = optimize(plan)
            again, _ = optimize(once)
            assert once == again, script(clauses)
            assert once.columns == plan.columns


# ---- longer pipelines --------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.integers(-2, 4))
TEXTS = st.one_of(st.none(), st.sampled_from(["x", "y", ""]))
CLAUSES = st.one_of(
    st.builds(
        Where,
        st.just("a"),
        st.sampled_from(["=", "<>", "<", ">", "<=", ">="]),
        st.integers(-1, 3),
        st.booleans(),
    ),
    st.builds(Where, st.just("b"), st.sampled_from(["=", "<>"]), st.just("x"), st.booleans()),
    st.builds(WhereNull, st.sampled_from(["a", "b"]), st.booleans()),
    st.builds(SetSum, st.integers(-1, 2)),
    st.builds(Limit, st.integers(0, 5), st.integers(0, 2)),
    st.builds(Sort, st.booleans()),
    st.builds(SemiJoin, st.booleans()),
    st.sampled_from(
        [
            WhereRank(),
            Swap(),
            Count(),
            Distinct(),
            DistinctOn(),
            UnionAll(),
            UnionDistinct(),
            Unnest(),
            Aggregate(),
            Join(),
            Rollup(),
            Pivot(),
            Lateral(),
            Recursion(),
            InQuery(),
            PythonSet(),
            PythonWhere(),
            FlatMap(),
            Map(),
            Switch(),
            Check(),
        ]
    ),
)
TABLES = st.lists(st.fixed_dictionaries({"a": NUMBERS, "b": TEXTS}), max_size=6)
EXAMPLES = int(os.environ.get("ZQL_EXAMPLES", "30"))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    clauses=st.lists(CLAUSES, max_size=6),
    rows=TABLES,
    files=st.integers(1, 3),
    split=st.sampled_from([20, 1 << 20]),
    disabled=st.sets(st.sampled_from(sorted(ALL_RULES))),
)
def test_longer_pipelines(  # noqa: PLR0913 - what is drawn
    session, tmp_path, monkeypatch, any_size, clauses, rows, files, split, disabled
):
    monkeypatch.chdir(tmp_path)
    for old in tmp_path.glob("t-*.jsonl"):
        old.unlink()
    write_table(tmp_path, rows, files)
    prepare(session, tmp_path)
    session.disabled = frozenset(disabled)
    session.set("split_size", split)
    check(session, clauses, rows)
