"""What depends on a seed and the places of rows is the same however the work is divided."""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from itertools import count

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.session import ALL_RULES, Session

ROWS = 3000
_numbers = count()

PIPES = {
    "bernoulli": "TABLESAMPLE BERNOULLI (20 PERCENT) REPEATABLE (5)",
    "reservoir": "TABLESAMPLE RESERVOIR (100 ROWS) REPEATABLE (5)",
    "stratified": "TABLESAMPLE RESERVOIR (7 ROWS PARTITION BY k) REPEATABLE (5)",
    "shuffle": "SHUFFLE SEED 5 INTO 4 SHARDS",
    "round robin": "DISTRIBUTE INTO 5 SHARDS",
    "by key": "DISTRIBUTE BY k INTO 5 SHARDS",
}

AROUND = {
    "native": "",
    "python before": "FLATMAP q.twice |>",
    "python behind": "|> EXTEND q.double(x) AS d",
    "records behind": "|> FLATMAP q.twice |> MAP q.same",
}


@pytest.fixture
def place(place):
    for i in range(3):
        rows = [{"x": x, "k": f"k{x % 7}"} for x in range(i, ROWS, 3)]
        place.rows(f"in{i}.jsonl", rows)
    place.functions(
        """
        from typing import Iterator, TypedDict
        class Row(TypedDict):
            x: int
            k: str
        def double(x: int) -> int:
            return 2 * x
        def twice(row: dict) -> Iterator[Row]:
            for i in range(row["x"] % 3):
                yield {"x": row["x"] * 10 + i, "k": row["k"]}
        def same(row: dict) -> Row:
            return row
        """
    )
    return place


def script(pipe: str, around: str, out: str) -> str:
    before = AROUND[around] if around == "python before" else ""
    behind = "" if before else AROUND[around]
    asked = "" if "INTO" in PIPES[pipe] else " OPTIONS (shards = 3)"
    return (
        "IMPORT PYTHON 'udf.py' AS q; FROM 'in*.jsonl' |> "
        f"{before} {PIPES[pipe]} {behind} |> WRITE '{out}/{{shard}}.jsonl'{asked}"
    )


@pytest.mark.parametrize("around", AROUND)
def test_the_same_bytes_however_it_is_run(place, around):
    def run(session, name, pipes=tuple(PIPES)):
        for pipe in pipes:
            session.run(script(pipe, around, f"{name}/{pipe}"))
        found = {pipe: place.bytes(f"{name}/{pipe}/*.jsonl") for pipe in pipes}
        assert all(map(any, (files.values() for files in found.values())))
        return found

    expected = run(place.shared(1), "one worker")
    assert run(place.shared(4), "four workers") == expected
    with place.session(workers=2, threads=1) as session:
        session.settings = replace(session.settings, split_size=5000, batch_rows=64)
        assert run(session, "small splits") == expected
        session.disabled = frozenset(ALL_RULES)
        assert run(session, "no rules") == expected


def shards(place, folder):
    found = sorted((place.folder / folder).glob("*.jsonl"), key=lambda p: int(p.stem))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in found]


def test_equal_keys_share_a_shard_in_input_order(place):
    place.run(script("by key", "native", "out"))
    found = shards(place, "out")
    homes = {row["k"]: number for number, rows in enumerate(found) for row in rows}
    assert all(homes[row["k"]] == number for number, rows in enumerate(found) for row in rows)
    order = [row["x"] for i in range(3) for row in place.read(f"in{i}.jsonl")]
    place_of = {x: i for i, x in enumerate(order)}
    for rows in found:
        assert [place_of[r["x"]] for r in rows] == sorted(place_of[r["x"]] for r in rows)
    assert sum(map(len, found)) == ROWS


def test_records_of_functions_stay_in_the_shard_of_their_row(place):
    place.run(script("by key", "native", "rows"))
    place.run(script("by key", "records behind", "made"))
    homes = [{row["k"] for row in rows} for rows in shards(place, "rows")]
    made = shards(place, "made")
    assert [{row["k"] for row in rows} for rows in made] == homes
    assert sum(map(len, made)) == sum(x % 3 for x in range(ROWS))


def test_round_robin_deals_rows_one_by_one(place):
    place.run(script("round robin", "native", "out"))
    order = [row["x"] for i in range(3) for row in place.read(f"in{i}.jsonl")]
    assert [[r["x"] for r in rows] for rows in shards(place, "out")] == [
        order[i::5] for i in range(5)
    ]


@pytest.mark.parametrize("number", [1, 7, 64])
def test_a_shuffle_is_dealt_out_evenly(place, number):
    place.run(
        f"FROM 'in*.jsonl' |> SHUFFLE SEED 1 INTO {number} SHARDS |> WRITE 'out/{{shard}}.jsonl'"
    )
    sizes = [len(rows) for rows in shards(place, "out")]
    assert len(sizes) == number
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == ROWS


def test_empty_shards_are_files_with_their_columns(place):
    place.run(
        "FROM 'in*.jsonl' |> WHERE x = 1 |> DISTRIBUTE BY k INTO 6 SHARDS |> SELECT k, x"
        " |> WRITE 'out/' OPTIONS (format = 'parquet')"
    )
    tables = [pq.read_table(path) for path in sorted((place.folder / "out").glob("*.parquet"))]
    assert sorted(table.num_rows for table in tables) == [0, 0, 0, 0, 0, 1]
    assert {tuple(table.schema.names) for table in tables} == {("k", "x")}
    assert len({table.schema.remove_metadata() for table in tables}) == 1


def test_no_rows_at_all(place):
    place.run(
        "FROM 'in*.jsonl' |> WHERE x < 0 |> DISTRIBUTE INTO 2 SHARDS"
        " |> WRITE 'out/' OPTIONS (format = 'parquet')"
    )
    assert [pq.read_table(p).num_rows for p in (place.folder / "out").glob("*.parquet")] == [0, 0]


def test_without_a_seed_each_run_is_another(place):
    for pipe in (
        "SHUFFLE",
        "TABLESAMPLE RESERVOIR (100 ROWS)",
        "TABLESAMPLE BERNOULLI (50 PERCENT)",
    ):
        for out in ("a", "b"):
            place.run(
                f"FROM 'in*.jsonl' |> {pipe}"
                f" |> WRITE 'out/{out}.jsonl' OPTIONS (mode = 'overwrite')"
            )
        assert place.read("out/a.jsonl") != place.read("out/b.jsonl")


def test_samples_are_fair(place):
    """Over many seeds each row is chosen about as often as another: chi-square within 5 sigma."""
    seen: Counter[int] = Counter()
    with Session(threads=1) as session:
        for seed in range(200):
            pipe = f"FROM range(50) |> TABLESAMPLE RESERVOIR (10 ROWS) REPEATABLE ({seed})"
            seen.update(session.query(pipe).to_arrow()["range"].to_pylist())
    expected = 200 * 10 / 50
    chi = sum((seen[x] - expected) ** 2 / expected for x in range(50))
    assert sum(seen.values()) == 2000
    assert chi < 49 + 5 * (2 * 49) ** 0.5


def test_bernoulli_takes_about_the_share_that_it_says(place):
    with Session() as session:
        for percent in (1, 10, 50, 90):
            text = (
                f"FROM range(100000) |> TABLESAMPLE BERNOULLI ({percent} PERCENT) REPEATABLE (3)"
                " |> AGGREGATE count(*) AS n"
            )
            n = session.query(text).to_arrow()["n"][0].as_py()
            share = percent / 100
            assert abs(n - 100000 * share) < 5 * (100000 * share * (1 - share)) ** 0.5


def reference(text: str | None, seed: int) -> int:
    """The hash as the manual describes it."""
    marked = f"{seed}" if text is None else f"{seed}:{text}"
    return int.from_bytes(hashlib.md5(marked.encode()).digest()[:8], "little") & (2**63 - 1)


@pytest.fixture(scope="module")
def session():
    with Session(threads=1) as made:
        yield made


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.integers(-(2**31), 2**63 - 1),
)
def test_stable_hash_is_what_the_manual_says(session, texts, numbers, seed):
    assert hashes(session, texts, seed) == [reference(t, seed) for t in texts]
    assert hashes(session, numbers, 0) == [reference(str(n), 0) for n in numbers]


def hashes(session, values, seed):
    name = f"rows_{next(_numbers)}"
    text = f"FROM {name} |> SELECT stable_hash(x, {seed}) AS h"
    return session.query(text, tables={name: {"x": values}}).to_arrow()["h"].to_pylist()
