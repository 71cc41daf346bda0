"""What the tests of ZQL's ancestor check of rows, groups and shuffles, said in ZQL.

Each runs with one worker and with two. Named after what they are about, in the ancestor's words.
"""

import itertools
import json

import pyarrow.parquet as pq
import pytest
import zql
from zql.errors import BindError, UdfError, ZqlError

FUNCTIONS = """
    import dataclasses
    import itertools
    import os


    def double(row):
        return {"n": row["n"] * 2}


    def odd(n: int) -> bool:
        return n % 2 == 1


    def twice(row):
        yield {"n": row["n"]}
        yield {"n": row["n"]}


    def take(rows, count: int):
        return itertools.islice(rows, count)


    def sizes(rows: list) -> list[int]:
        return [len(rows)]


    def by_sum(rows, most: int):
        '''Lists of neighbours whose sum is not above `most`.'''
        found, total = [], 0
        for row in rows:
            if found and total + row["n"] > most:
                yield {"window": found}
                found, total = [], 0
            found.append(row["n"])
            total += row["n"]
        if found:
            yield {"window": found}


    def running(rows):
        total = 0
        for row in rows:
            total += row["n"]
            yield {"n": row["n"], "total": total}


    def nothing(rows):
        return []


    def fails(rows):
        for row in rows:
            if row["n"] == 5:
                raise ValueError("five is right out")
            yield row


    def told(rows, shard):
        count = sum(1 for _ in rows)
        yield {"index": shard.index, "total": shard.total, "name": os.path.basename(shard.path),
               "count": count}


    def logged(row, path: str):
        with open(path, "a") as file:
            file.write("called\\n")
        return row


    def count(key, rows):
        return {"key": key, "count": sum(1 for _ in rows)}


    def total(key, rows):
        return {"key": key, "total": sum(row["n"] for row in rows)}


    def values(key, rows):
        return {"key": key, "values": [row["n"] for row in rows]}


    def generated(key, rows):
        for row in rows:
            yield {"key": key, "n": row["n"]}


    def expression(key, rows):
        return ({"key": key, "n": row["n"]} for row in rows)


    def mapped(key, rows):
        return map(lambda row: {"key": key, "n": row["n"]}, rows)


    def none(key, rows):
        return None if key % 2 else {"key": key}


    def first(key, rows):
        return next(rows)


    def partial(key, rows):
        return {"n": sum(row["n"] for row in rows)}


    def drifting(key, rows):
        return {"key": key, "value": None if key == 0 else key}


    @dataclasses.dataclass
    class Point:
        x: int
        y: int


    def point(row) -> Point:
        return Point(row["n"], row["n"] ** 2)
"""


@pytest.fixture(params=[1, 2])
def workers(request):
    return request.param


@pytest.fixture
def numbers(place):
    """Ten numbers in three files: 0 to 3, 4 to 6, 7 to 9."""
    place.functions(FUNCTIONS)
    for name, chosen in (("a", range(4)), ("b", range(4, 7)), ("c", range(7, 10))):
        place.rows(f"{name}.jsonl", [{"n": n, "k": n % 3} for n in chosen])
    place.rows("none.jsonl", [])
    return place


@pytest.fixture
def ask(numbers, workers):
    def ask(pipe: str, source: str = "'[abc].jsonl'") -> list[dict]:
        session = numbers.shared(workers)
        return session.query(f"IMPORT PYTHON 'udf.py' AS f; FROM {source} {pipe}").to_dicts()

    return ask


def ns(rows):
    return [row["n"] for row in rows]


# ---- rows --------------------------------------------------------------------------------------


def test_from_list_and_from_nested_files(numbers):
    rows = [{"n": 3}, {"n": 1}]
    assert zql.query("FROM rows |> WHERE n > 1", tables={"rows": rows}).to_dicts() == [{"n": 3}]
    (numbers.folder / "deep" / "er").mkdir(parents=True)
    numbers.rows("deep/er/d.jsonl", [{"n": 7}])
    assert zql.query("FROM 'deep/**/*.jsonl'").to_dicts() == [{"n": 7}]
    with pytest.raises(ZqlError, match="no file matches"):
        zql.query("FROM 'none/**/*.jsonl'")


def test_nothing_runs_before_it_is_asked_for(numbers, workers):
    log = numbers.folder / "log"
    text = "FROM 'a.jsonl' |> MAP f.logged(path => $p) RETURNS (n BIGINT, k BIGINT)"
    session = numbers.shared(workers)
    query = session.query(f"IMPORT PYTHON 'udf.py' AS f; {text}", {"p": str(log)})
    query.explain()
    assert query.columns == ["n", "k"]
    assert not log.exists()
    assert query.count() == 4
    assert log.read_text() == "called\n" * 4


@pytest.mark.parametrize(
    "pipe",
    [
        "|> MAP f.double RETURNS (n BIGINT)",
        "|> FLATMAP f.twice RETURNS (n BIGINT)",
        "|> WHERE f.odd(n::BIGINT)",
        "|> MAP BATCHES f.sizes",
        "|> MAP SHARDS f.running RETURNS (n BIGINT, total BIGINT)",
        "|> REDUCE f.count GROUP BY n RETURNS (key BIGINT, count BIGINT)",
        "|> ORDER BY n",
        "|> DISTINCT",
        "|> SHUFFLE SEED 1",
        "|> AGGREGATE count(*) AS c GROUP BY n",
        "|> JOIN 'a.jsonl' AS a USING (n) |> SELECT n",
    ],
)
def test_an_empty_table_through_every_operator(ask, pipe):
    source = "read_json('none.jsonl', columns => {n: 'BIGINT', k: 'BIGINT'})"
    assert ask(pipe, source) == []


def test_order_inside_a_shard(ask):
    assert ns(ask("|> MAP f.double")) == list(range(0, 20, 2))
    assert ns(ask("|> WHERE f.odd(n)")) == [1, 3, 5, 7, 9]
    assert ns(ask("|> FLATMAP f.twice")) == [n for n in range(10) for _ in "ab"]


@pytest.mark.parametrize(("count", "wanted"), [(2, [0, 1, 4, 5, 7, 8]), (0, [])])
def test_take_per_shard(ask, count, wanted):
    assert ns(ask(f"|> MAP SHARDS f.take(count => {count}) RETURNS (n BIGINT, k BIGINT)")) == wanted


def test_take_over_several_shards(ask):
    assert ns(ask("|> MAP f.double |> LIMIT 5")) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("size", "wanted"), [(2, [2, 2]), (3, [3, 1]), (9, [4])])
def test_window(ask, size, wanted):
    rows = ask(f"|> MAP BATCHES @{{batch_size = {size}}} f.sizes", "'a.jsonl'")
    assert [row["value"] for row in rows] == wanted


def test_window_by_sum(ask):
    rows = ask("|> MAP SHARDS f.by_sum(most => 7)")
    wanted = [[0, 1, 2, 3], [4], [5], [6], [7], [8], [9]]
    assert [row["window"] for row in rows] == wanted


@pytest.mark.parametrize("shards", [1, 2, 5, 12])
def test_reshard_up_and_down(numbers, workers, shards):
    numbers.run(
        f"IMPORT PYTHON 'udf.py' AS f; FROM '[abc].jsonl' |> MAP f.double "
        f"|> DISTRIBUTE INTO {shards} SHARDS |> WRITE 'out-{{shard}}.jsonl'",
        workers,
    )
    assert len(list(numbers.folder.glob("out-*.jsonl"))) == shards
    assert sorted(ns(numbers.read("out-*.jsonl"))) == list(range(0, 20, 2))


def test_reshard_to_nothing_is_an_error(ask):
    with pytest.raises(ZqlError, match="SHARDS"):
        ask("|> DISTRIBUTE INTO 0 SHARDS")


def test_map_shard_has_state_within_its_shard(ask):
    totals = [row["total"] for row in ask("|> MAP SHARDS f.running")]
    assert totals == [0, 1, 3, 6, 4, 9, 15, 7, 15, 24]


def test_map_shard_may_give_nothing(ask):
    assert ask("|> MAP SHARDS f.nothing RETURNS (n BIGINT)") == []


def test_map_shard_tells_where_it_failed(ask):
    with pytest.raises(UdfError, match=r"udf\.fails.*b\.jsonl.*five is right out"):
        ask("|> MAP SHARDS f.fails RETURNS (n BIGINT, k BIGINT)")


def test_map_shard_knows_its_shard(ask):
    rows = ask("|> MAP SHARDS f.told")
    assert [(r["index"], r["total"], r["name"], r["count"]) for r in rows] == [
        (0, 3, "a.jsonl", 4),
        (1, 3, "b.jsonl", 3),
        (2, 3, "c.jsonl", 3),
    ]


def test_operators_can_be_looked_at(numbers):
    query = zql.query(
        "IMPORT PYTHON 'udf.py' AS f; FROM 'a.jsonl' |> WHERE f.odd(n) |> MAP f.double"
    )
    shown = query.explain()
    assert "udf.odd(n)" in shown
    assert "MAP udf.double({n})" in shown


def test_absent_columns_are_errors_before_anything_runs(ask):
    with pytest.raises(BindError, match='unknown column "m"'):
        ask("|> SELECT n, m")


def test_filters_on_nested_fields_and_of_several_parts(numbers, ask):
    numbers.rows("deep.jsonl", [{"meta": {"n": n, "s": str(n)}} for n in range(6)])
    rows = ask("|> WHERE meta.n > 1 AND (meta.s = '2' OR f.odd(meta.n)) |> SELECT meta.n AS n",
               "'deep.jsonl'")  # fmt: skip
    assert ns(rows) == [2, 3, 5]


def test_dataclass_records(ask):
    assert ask("|> MAP f.point |> LIMIT 3") == [{"x": n, "y": n * n} for n in range(3)]


# ---- groups ------------------------------------------------------------------------------------


def by_key(rows):
    return {row["key"]: row for row in rows}


def test_group_by_counts_sums_lists(ask):
    assert {k: r["count"] for k, r in by_key(ask("|> REDUCE f.count GROUP BY k")).items()} == {
        0: 4, 1: 3, 2: 3}  # fmt: skip
    assert {k: r["total"] for k, r in by_key(ask("|> REDUCE f.total GROUP BY k")).items()} == {
        0: 18, 1: 12, 2: 15}  # fmt: skip
    assert by_key(ask("|> REDUCE f.values GROUP BY k"))[0]["values"] == [0, 3, 6, 9]


def test_one_group(ask):
    assert [r["count"] for r in ask("|> REDUCE f.count GROUP BY 1 AS one")] == [10]
    assert ask("|> REDUCE f.count") == [{"key": None, "count": 10}]


def test_group_by_between_maps_and_filters(ask):
    pipe = """|> MAP f.double |> WHERE n > 4 |> REDUCE f.total GROUP BY n % 4 AS q
              |> WHERE total > 30 |> SELECT key, total"""
    assert ask(pipe) == [{"key": 0, "total": 8 + 12 + 16}, {"key": 2, "total": 6 + 10 + 14 + 18}]


def test_many_documents_by_hash(numbers, workers):
    numbers.rows("docs.jsonl", [{"n": i, "text": f"document {i % 100}"} for i in range(500)])
    rows = numbers.shared(workers).query(
        "IMPORT PYTHON 'udf.py' AS f; FROM 'docs.jsonl' |> REDUCE f.count GROUP BY md5(text) AS h"
    )
    counts = [row["count"] for row in rows.to_dicts()]
    assert counts == [5] * 100


@pytest.mark.parametrize("function", ["generated", "expression", "mapped"])
def test_reducers_that_give_many_records(numbers, workers, function):
    numbers.run(
        f"IMPORT PYTHON 'udf.py' AS f; FROM '[abc].jsonl' |> REDUCE f.{function} GROUP BY k "
        "|> WRITE 'out.parquet'",
        workers,
    )
    rows = pq.read_table(numbers.folder / "out.parquet").to_pylist()
    assert [(r["key"], r["n"]) for r in rows] == sorted((n % 3, n) for n in range(10))


def test_secondary_sort(ask):
    rows = ask("|> REDUCE f.generated GROUP BY k ORDER BY n DESC")
    assert [(r["key"], r["n"]) for r in rows] == sorted(
        ((n % 3, n) for n in range(10)), key=lambda pair: (pair[0], -pair[1])
    )


def test_a_reducer_that_gives_none_gives_no_row(ask):
    assert sorted(row["key"] for row in ask("|> REDUCE f.none GROUP BY k")) == [0, 2]


def test_a_column_that_begins_with_nulls(ask):
    rows = by_key(ask("|> REDUCE f.drifting GROUP BY k"))
    assert {k: r["value"] for k, r in rows.items()} == {0: None, 1: 1, 2: 2}


def test_combiners(ask):
    rows = ask("|> REDUCE f.total GROUP BY k COMBINE f.partial")
    assert {k: r["total"] for k, r in by_key(rows).items()} == {0: 18, 1: 12, 2: 15}


def test_deduplication(ask):
    assert [r["n"] for r in ask("|> DISTINCT ON (k)")] == [0, 1, 2]
    assert sorted(r["n"] for r in ask("|> REDUCE f.first GROUP BY k")) == [0, 1, 2]
    assert ask("|> SELECT k |> DISTINCT |> ORDER BY k") == [{"k": 0}, {"k": 1}, {"k": 2}]


# ---- shuffle -----------------------------------------------------------------------------------


def test_nothing_is_lost_and_nothing_doubled(numbers, workers):
    rows = [{"id": i, "key": f"k{i % 37}"} for i in range(5000)]
    numbers.rows("many.jsonl", rows)
    numbers.run("FROM 'many.jsonl' |> DISTRIBUTE BY key INTO 7 SHARDS |> WRITE 'out-{shard}.jsonl'",
                workers)  # fmt: skip
    homes: dict[str, set[str]] = {}
    found = []
    for path in sorted(numbers.folder.glob("out-*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found.append(row["id"])
            homes.setdefault(row["key"], set()).add(path.name)
    assert sorted(found) == list(range(5000))
    assert all(len(names) == 1 for names in homes.values()), "a key is in several shards"


def test_routing_is_the_same_in_every_run(numbers):
    rows = [{"key": f"k{i}"} for i in range(50)]
    places = []
    for workers, order in itertools.product((1, 2), (1, -1)):
        numbers.rows("keys.jsonl", rows[::order])
        numbers.run(
            "FROM 'keys.jsonl' |> DISTRIBUTE BY key INTO 4 SHARDS "
            "|> WRITE 'out-{shard}.jsonl' OPTIONS (mode = 'overwrite')",
            workers,
        )
        names = sorted(p.name for p in numbers.folder.glob("out-*.jsonl"))
        places.append([sorted(r["key"] for r in numbers.read(name)) for name in names])
    assert all(place == places[0] for place in places)


def test_null_keys_are_one_group_and_null_sort_values_come_last(numbers, ask):
    rows = [{"k": k, "n": n} for k in (None, 1) for n in (3, None, 1)]
    numbers.rows("nulls.jsonl", rows)
    found = ask("|> REDUCE f.values GROUP BY k ORDER BY n", "'nulls.jsonl'")
    assert {r["key"]: r["values"] for r in found} == {None: [1, 3, None], 1: [1, 3, None]}


def test_rows_of_objects_that_only_the_caller_knows(numbers, workers):
    class Secret:
        def __init__(self, n):
            self.n = n

    def opened(key, rows):
        return {"key": key, "total": sum(Secret(row["n"]).n for row in rows)}

    with numbers.session(workers=workers) as session:
        session.udf(opened)
        rows = session.query("FROM '[abc].jsonl' |> REDUCE opened GROUP BY k").to_dicts()
    assert {r["key"]: r["total"] for r in rows} == {0: 18, 1: 12, 2: 15}


def test_what_cannot_be_sent_is_told_before_the_run(numbers):
    import threading

    lock = threading.Lock()

    def locked(n: int) -> int:
        with lock:
            return n

    with numbers.session() as session, pytest.raises(BindError, match="locked cannot be sent"):
        session.udf(locked)


def test_values_that_no_column_takes(numbers, workers):
    def fancy(key, rows):
        return {"key": key, "value": object()}

    with numbers.session(workers=workers) as session:
        session.udf(fancy)
        with pytest.raises(ZqlError, match="fancy"):
            session.query("FROM 'a.jsonl' |> REDUCE fancy GROUP BY k").to_dicts()
