"""MAP BATCHES and MAP SHARDS: how many rows a call gets, and which."""

import json

import pytest

FUNCTIONS = """
    from collections.abc import Iterator
    from typing import TypedDict

    import pyarrow as pa


    class Size(TypedDict):
        first: int
        rows: int


    def sizes(rows: list[dict]) -> list[Size]:
        return [{"first": rows[0]["id"], "rows": len(rows)}]


    def table_sizes(table: pa.Table) -> list[Size]:
        return [{"first": table["id"][0].as_py(), "rows": table.num_rows}]


    class Row(TypedDict):
        id: int
        index: int
        total: int
        path: str | None


    def shards(rows, shard) -> Iterator[Row]:
        for row in rows:
            yield {"id": row["id"], "index": shard.index, "total": shard.total, "path": shard.path}


    def first_of(rows) -> Iterator[Size]:
        yield {"first": next(iter(rows))["id"], "rows": 1}


    def endless(rows) -> Iterator[Size]:
        number = 0
        while True:
            number += 1
            yield {"first": number, "rows": 0}


    def counted(rows: list[dict]) -> list[dict[str, int]]:
        return [{"n": 1} for _ in rows]
"""


@pytest.fixture
def place(place):
    place.functions(FUNCTIONS)
    for number in range(3):
        place.rows(f"in-{number}.jsonl", [{"id": 10 * number + i} for i in range(5)])
    return place


def dicts(place, text, workers=2):
    query = place.shared(workers).query(f"IMPORT PYTHON 'udf.py' AS q; FROM 'in-*.jsonl' {text}")
    return query.to_dicts()


def test_batches_have_the_rows_asked_for_within_a_task(place):
    found = dicts(place, "|> MAP BATCHES @{batch_size = 2} q.sizes")
    assert [(r["first"], r["rows"]) for r in found] == [
        (0, 2), (2, 2), (4, 1), (10, 2), (12, 2), (14, 1), (20, 2), (22, 2), (24, 1)
    ]  # fmt: skip
    assert dicts(place, "|> MAP BATCHES q.table_sizes") == [
        {"first": 0, "rows": 5}, {"first": 10, "rows": 5}, {"first": 20, "rows": 5}
    ]  # fmt: skip


def test_batches_are_filled_again_behind_a_filter(place):
    found = dicts(place, "|> WHERE id % 2 = 0 |> MAP BATCHES @{batch_size = 2} q.sizes")
    assert [r["rows"] for r in found] == [2, 1, 2, 1, 2, 1]
    before = "|> MAP BATCHES @{batch_size = 1} q.sizes |> RENAME first AS id"
    found = dicts(place, f"{before} |> MAP BATCHES @{{batch_size = 4}} q.sizes")
    assert [r["rows"] for r in found] == [4, 1, 4, 1, 4, 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_the_tasks_whatever_the_workers(place, workers):
    script = "IMPORT PYTHON 'udf.py' AS q; FROM 'in-*.jsonl' |> MAP SHARDS q.shards |> WRITE 'o/'"
    place.run(script + " OPTIONS (format = 'jsonl', mode = 'overwrite')", workers)
    rows = place.read("o/*.jsonl")
    assert [(r["id"], r["index"], r["total"]) for r in rows] == [
        (10 * number + i, number, 3) for number in range(3) for i in range(5)
    ]
    assert {r["path"].rpartition("/")[2] for r in rows} == {f"in-{n}.jsonl" for n in range(3)}


def test_a_shard_done_again_knows_its_number(place):
    script = "IMPORT PYTHON 'udf.py' AS q; FROM 'in-*.jsonl' |> MAP SHARDS q.shards |> WRITE 'o/'"
    script += " OPTIONS (format = 'jsonl', mode = 'skip')"
    place.run(script)
    before = place.bytes("o/part-*")
    (place.folder / "o" / sorted(before)[1]).unlink()
    place.run(script)
    assert place.bytes("o/part-*") == before


def test_a_shard_may_be_left_unread(place):
    assert [r["first"] for r in dicts(place, "|> MAP SHARDS q.first_of")] == [0, 10, 20]


def test_records_of_a_shard_are_streamed(place):
    found = dicts(place, "|> MAP SHARDS q.endless |> LIMIT 3000")
    assert [r["first"] for r in found] == list(range(1, 3001))


def test_a_batch_counts_as_a_call(place):
    report = place.run(
        "IMPORT PYTHON 'udf.py' AS q; FROM 'in-*.jsonl'"
        " |> MAP BATCHES @{batch_size = 3} q.counted RETURNS (n BIGINT) |> WRITE 'n.jsonl'"
    )
    assert report.counters["python_calls"] == 6
    assert len((place.folder / "n.jsonl").read_text().splitlines()) == 15
    assert json.loads((place.folder / "n.jsonl").read_text().splitlines()[0]) == {"n": 1}
