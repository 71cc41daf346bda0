"""Tasks that join their rows to few others: the same rows as without it, and the right places."""

import collections

import pytest
from zql.errors import RunError, UdfError
from zql.optimizer.rules.broadcast_joins import broadcast_joins

FUNCTIONS = """
from typing import TypedDict
class Out(TypedDict):
    id: int
    x: float | None
    word: str | None
class Count(TypedDict):
    word: str | None
    n: int
def loud(word: str) -> str:
    if word == "bad":
        raise ValueError("a bad word")
    return word.upper()
def same(row: dict) -> Out:
    return {"id": row["id"], "x": row["x"], "word": row["word"]}
def twice(row: dict) -> list[Out]:
    return [same(row), same(row)] if row["id"] % 2 else []
def batch(rows: list[dict]) -> list[Out]:
    if any(row["word"] == "bad" for row in rows):
        raise ValueError("a bad word")
    return [same(row) for row in rows]
def count(key, rows) -> Count:
    return {"word": key, "n": sum(1 for _ in rows)}
class Longest:
    def __init__(self): self.best = ""
    def step(self, word: str): self.best = max(self.best, word or "")
    def merge(self, other): self.step(other.best)
    def finish(self) -> str: return self.best
"""
OFF = frozenset({broadcast_joins.__name__})
HEAD = "IMPORT PYTHON 'udf.py' AS q;\n"
BIG = (
    "(FROM read_json('big*.jsonl', columns => {id: 'BIGINT', k: 'VARCHAR', word: 'VARCHAR'})"
    " |> SELECT id, CAST(k AS DOUBLE) AS x, word)"
)
SMALL = (
    "(FROM read_json('small.jsonl', columns => {k: 'VARCHAR', word: 'VARCHAR', least: 'BIGINT'})"
    " |> SELECT CAST(k AS DOUBLE) AS x, word, least)"
)
KEYS = [None, "nan", "0.0", "-0.0", "1.5", "7", "1e300", "inf"]


@pytest.fixture
def place(place):
    for i in range(3):
        rows = [{"id": i * 40 + k, "k": KEYS[k % 8], "word": f"w{k % 5}"} for k in range(40)]
        place.rows(f"big{i}.jsonl", rows if i != 1 else [])
    keys = [None, None, "nan", "-0.0", "1.5", "1.5", "1.5", "inf", "-inf"]
    place.rows(
        "small.jsonl", [{"k": k, "word": f"w{i}", "least": i * 9} for i, k in enumerate(keys)]
    )
    place.functions(FUNCTIONS)
    return place


def joined(kind, on, right=SMALL, strategy="broadcast"):
    return f"{kind} JOIN @{{strategy = {strategy}}} {right} AS s {on}"


def told(rows):
    """Rows as they can be counted: NaN is no NaN."""
    shown = lambda v: repr(v) if isinstance(v, float) else v  # noqa: E731 - of one value
    return collections.Counter(tuple(map(shown, row.values())) for row in rows)


def answer(session, text, disabled=frozenset()):
    session.disabled = disabled
    try:
        query = session.query(HEAD + text, scan_locals=False)
        return told(query.to_arrow().to_pylist()), query.explain()
    finally:
        session.disabled = frozenset()


def stages_that_join(explained):
    stages = explained.partition("\n\nNotes")[0].split("\n\n")
    return [stage for stage in stages if ": tasks" in stage and "JOIN" in stage]


ONS = {
    "a key": "ON b.x = s.x",
    "two keys": "ON b.x = s.x AND s.word = b.word",
    "a key and more": "ON b.x = s.x AND b.id > s.least",
    "nulls too": "ON b.x IS NOT DISTINCT FROM s.x",
    "no key": "ON b.id < s.least",
    "using": "USING (x)",
}
KINDS = ("", "LEFT", "SEMI", "ANTI")


@pytest.mark.parametrize("on", ONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_as_in_one_statement(place, kind, on):
    columns = "b.id, b.word" + ("" if kind in ("SEMI", "ANTI") else ", s.word AS other, s.least")
    columns += ", x" if on == "using" else ", b.x"
    join = joined(kind, ONS[on])
    session = place.shared(2)
    session.set("split_size", 500)
    texts = [
        f"FROM {BIG} AS b |> {join} |> SELECT {columns}, q.loud(b.word) AS loud",
        f"FROM {BIG} |> FLATMAP q.twice |> AS b |> {join} |> SELECT {columns}",
    ]
    if on == "using":
        texts += [
            f"FROM {BIG} AS b |> WHERE q.loud(b.word) <> 'W1' |> {join} |> SELECT {columns}",
            f"FROM {BIG} |> MAP q.same |> AS b |> {join} |> SELECT {columns}, q.loud(b.word) AS l",
        ]
    for text in texts:
        found, explained = answer(session, text)
        expected, plain = answer(session, text, OFF)
        assert stages_that_join(explained)
        assert not stages_that_join(plain)
        assert found == expected
        assert found


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("format", ["jsonl", "parquet", "csv"])
def test_written_by_any_number_of_workers(place, workers, format):
    text = (
        f"FROM {BIG} |> MAP q.same |> AS b |> {joined('LEFT', 'USING (x)')}"
        " |> SELECT id, x::VARCHAR AS x, b.word, s.word AS other"
        " |> WRITE 'out/{shard}." + format + "'"
    )
    with place.session(workers, config={"split_size": 400}) as session:
        report = session.run(HEAD + text)
        (tasks,) = (stage for stage in report.stages if stage.kind == "tasks")
        assert tasks.tasks > 4
        read = f"FROM 'out/*.{format}' |> SELECT id, x::VARCHAR AS x, word, other"
        found, _ = answer(session, read)
        text = text.partition(" |> WRITE")[0]
        assert found == answer(session, text, OFF)[0]


@pytest.mark.parametrize(
    "right",
    [
        SMALL.replace("|> SELECT", "|> WHERE false |> SELECT"),
        SMALL.replace("|> SELECT", "|> WHERE q.loud(word) = 'W4' |> SELECT"),
        SMALL.replace(")\n", ") |> DISTINCT\n"),
        "(VALUES (1.5::DOUBLE, 'one', 1), (NULL, 'none', 2))",
    ],
    ids=["empty", "python", "distinct", "values"],
)
@pytest.mark.parametrize("kind", ["", "LEFT", "ANTI"])
def test_right_sides(place, kind, right):
    name = "s(x, word, least)" if "VALUES" in right else "s"
    join = joined(kind, "ON b.x = s.x", right).replace("AS s", f"AS {name}")
    text = f"FROM {BIG} AS b |> {join} |> SELECT b.id, b.word, q.loud(b.word) AS loud"
    session = place.shared(2)
    found, explained = answer(session, text)
    assert stages_that_join(explained)
    assert found == answer(session, text, OFF)[0]


def test_no_rows_on_the_left(place):
    left = BIG.replace("|> SELECT", "|> WHERE id < 0 |> SELECT")
    for kind in KINDS:
        join = joined(kind, "ON b.x = s.x")
        text = f"FROM {left} |> MAP q.same |> AS b |> {join} |> SELECT q.loud(b.word) AS loud"
        assert answer(place.shared(2), text)[0] == {}


@pytest.mark.parametrize(
    "more",
    [
        "SELECT id, x, word |> MAP BATCHES q.batch",
        "SELECT id, x, word |> REDUCE q.count GROUP BY word",
        "AGGREGATE q.Longest(other) AS longest GROUP BY word",
        "AGGREGATE q.Longest(other) AS longest, count(*) AS n GROUP BY word",
        "SELECT id, x, word |> MAP q.same |> WHERE q.loud(word) <> 'W2' |> DISTINCT",
        "WHERE q.loud(word) <> 'W2' |> LIMIT 100000",
    ],
)
def test_what_follows(place, more):
    rows = f"FROM {BIG} AS b |> {joined('', 'USING (x)')} |> SELECT id, x, b.word, s.word AS other"
    session = place.shared(2)
    session.set("split_size", 500)
    found, explained = answer(session, f"{rows} |> {more}")
    grouped_by_sql = "REDUCE" in more or "count" in more  # which joins in the same statement
    assert bool(stages_that_join(explained)) is not grouped_by_sql
    assert found == answer(session, f"{rows} |> {more}", OFF)[0]


def test_more_rows_than_a_batch_holds(place):
    place.rows("many.jsonl", [{"id": i, "k": i % 100, "word": "w"} for i in range(30_000)])
    place.rows("few.jsonl", [{"k": i, "d": d} for i in range(50) for d in range(3)])
    text = (
        "FROM 'many.jsonl' |> EXTEND q.loud(word) AS a"
        " |> JOIN @{strategy = broadcast} 'few.jsonl' USING (k) |> EXTEND q.loud(a) AS b"
        " |> AGGREGATE count(*) AS n, count(DISTINCT id) AS ids, sum(d) AS d, min(b) AS b"
    )
    found, explained = answer(place.shared(1), text)
    assert stages_that_join(explained)
    assert found == {(45_000, 15_000, 45_000, "W"): 1}


# ---- places --------------------------------------------------------------------------------------


def with_bad_row(place, number=23):
    """The third file has a bad word in this row, which finds three others."""
    lines = [{"id": k, "k": "1.5", "word": "bad" if k == number else "w"} for k in range(1, 41)]
    place.rows("big2.jsonl", lines)


@pytest.mark.parametrize("split", [200, 1 << 20])
@pytest.mark.parametrize("before", ["", "|> WHERE id > 3 ", "|> MAP q.same "])
@pytest.mark.parametrize("disabled", [frozenset(), frozenset({"fuse_steps"})], ids=["", "unfused"])
def test_a_failure_names_the_row_of_the_file(place, before, split, disabled):
    with_bad_row(place)
    text = (
        f"{HEAD}FROM {BIG} {before}|> AS b |> {joined('LEFT', 'USING (x)')} |> WHERE s.word <> 'w5'"
        " |> SELECT id, q.loud(b.word) AS loud |> WRITE 'out.jsonl'"
    )
    session = place.shared(2)
    session.set("split_size", split)
    session.disabled = disabled
    try:
        with pytest.raises(UdfError, match=r"loud on row 23 of big2\.jsonl raised ValueError"):
            session.run(text)
    finally:
        session.disabled = frozenset()


def test_a_row_of_parquet_whose_neighbours_are_not_read(place):
    """DuckDB passes over rows whose keys are not among the small side's: not over their numbers."""
    session = place.shared(2)
    session.run(
        "FROM range(60_000) AS r(i) |> SELECT i // 100 AS k, if(i = 45_007, 'bad', 'w') AS word"
        " |> ORDER BY k |> WRITE 'in.parquet'"
    )
    place.rows("few.jsonl", [{"k": k, "d": d} for k in (450, 451) for d in range(2)])
    text = (
        f"{HEAD}FROM 'in.parquet' |> JOIN @{{strategy = broadcast}} 'few.jsonl' USING (k)"
        " |> SELECT q.loud(word) AS loud |> WRITE 'out.jsonl'"
    )
    with pytest.raises(UdfError, match=r"loud on row 45008 of in\.parquet raised ValueError"):
        session.run(text)


def test_a_failed_batch_names_its_rows(place):
    with_bad_row(place)
    text = (
        f"{HEAD}FROM {BIG} AS b |> WHERE id <= 30 |> {joined('', 'USING (x)')}"
        " |> SELECT id, x, b.word |> MAP BATCHES q.batch |> WRITE 'out.parquet'"
    )
    with pytest.raises(UdfError, match=r"batch on rows 1 to 30 of big2\.jsonl raised ValueError"):
        place.run(text)


def test_a_failure_below_the_join_is_told_as_it_is(place):
    with_bad_row(place)
    text = (
        f"FROM {BIG} |> EXTEND q.loud(word) AS loud |> {joined('LEFT', 'USING (x)')}"
        " |> SELECT id, loud"
    )
    expected = r"loud on row 23 of big2\.jsonl raised ValueError: a bad word"
    with pytest.raises(UdfError, match=expected):
        answer(place.shared(2), text)
    with pytest.raises(UdfError, match=expected):
        place.run(f"{HEAD}{text} |> WRITE 'out.parquet'")


def test_a_failed_cast_behind_the_join(place):
    text = (
        f"{HEAD}FROM {BIG} |> MAP q.same |> AS b |> {joined('', 'USING (x)')}"
        " |> SELECT id, CAST(s.word AS INTEGER) AS n |> WRITE 'out.jsonl'"
    )
    with pytest.raises(RunError) as caught:
        place.run(text)
    assert caught.value.span.text == "CAST(s.word AS INTEGER)"


@pytest.mark.parametrize("before", ["", "|> MAP q.same "])
def test_rows_that_are_let_go_have_their_places(place, before):
    with_bad_row(place)
    text = (
        f"{HEAD}FROM {BIG} {before}|> AS b |> {joined('', 'ON b.x = s.x')}"
        " |> SELECT id, b.word, s.word AS other"
        " |> EXTEND q.loud(word) AS loud ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'out.jsonl'"
    )
    place.run(text)
    bad = place.read("bad.jsonl")
    assert sorted(row["other"] for row in bad) == ["w4", "w5", "w6"]
    assert {(row["_file"], row["_row"]) for row in bad} == {("big2.jsonl", 23)}
    assert len([row for row in place.read("out.jsonl") if row["word"] == "w"]) == 39 * 3


# ---- finished work -------------------------------------------------------------------------------


def test_results_depend_on_the_right_side(place):
    text = (
        "SET cache = 'kept'; FROM 'big*.jsonl' |> SELECT id, word"
        " |> JOIN @{strategy = broadcast} 'pick.jsonl' USING (word)"
        " |> EXTEND q.loud(d) AS loud |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"
    )

    def reused(d):
        with place.session(1) as session:
            report = session.run(HEAD + text)
        assert {row["loud"] for row in place.read("out.jsonl")} == {d.upper()}
        (tasks,) = (stage for stage in report.stages if stage.kind == "tasks")
        assert tasks.tasks > 1
        return tasks.reused / tasks.tasks

    place.rows("pick.jsonl", [{"word": "w1", "d": "one"}])
    assert reused("one") == 0
    assert reused("one") == 1
    place.rows("pick.jsonl", [{"word": "w1", "d": "two"}])
    assert reused("two") == 0
    assert reused("two") == 1
