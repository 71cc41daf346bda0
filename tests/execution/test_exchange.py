"""An exchange gives rows in the order of a sort, in parts of any size and from any row on."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.errors import StorageError
from zql.execution import exchange
from zql.execution.exchange import Exchange, InTurn, deal
from zql.expr.expression import Column
from zql.optimizer.rules import partition_shuffles
from zql.physical.plan import Spread
from zql.session import Session
from zql.source import Source

TICKETS = st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1), st.just(2**63 - 1))
CHANCES = st.floats(0, 1, exclude_max=True)


def dealt(path, rows, kind, parts, cut, held):
    ticket = pa.array([t for t, _ in rows], pa.int64() if kind == "BIGINT" else pa.float64())
    place = pa.array(range(len(rows)), pa.int64())
    text = pa.array([x for _, x in rows], pa.string())
    table = pa.table({"text": text, "ticket": ticket, "place": place})
    spread = Spread(Column("ticket", kind), Column("place", "BIGINT"), parts)
    batches = table.to_batches(max_chunksize=cut)
    return table, deal(batches, table.schema, spread, str(path), held)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just("BIGINT"), st.lists(st.tuples(TICKETS, st.text(max_size=5)))),
        st.tuples(st.just("DOUBLE"), st.lists(st.tuples(CHANCES, st.text(max_size=5)))),
    ),
    st.sampled_from([2, 8, 64]),
    st.integers(1, 9),
    st.sampled_from([1 << 40, 16 * 40, 16]),
    st.integers(0, 10),
    st.integers(0, 10),
)
def test_order(tmp_path_factory, given, parts, cut, budget, start, count):
    kind, rows = given
    path = tmp_path_factory.mktemp("exchange") / "x.arrow"
    table, found = dealt(path, rows, kind, parts, cut, budget)
    expected = table.sort_by([("ticket", "ascending"), ("place", "ascending")]).to_pylist()
    assert found.rows == len(rows)

    def read(first, last):
        return pa.Table.from_batches(found.batches(first, last), table.schema).to_pylist()

    assert read(0, len(rows)) == expected
    stop = min(start + count, len(rows))
    assert read(min(start, stop), stop) == expected[start:stop]


def test_a_saved_exchange_has_its_own_number_of_partitions(tmp_path):
    rows = [(i * (1 << 55) % (1 << 63), "x" * 50) for i in range(200)]
    table, found = dealt(tmp_path / "x.arrow", rows, "BIGINT", 64, 20, 16)
    found.save_index(str(tmp_path / "index"))
    asked = Spread(found.spread.ticket, found.spread.place, 2)
    again = Exchange.saved(found.paths, str(tmp_path / "index"), asked, 16)
    expected = table.sort_by([("ticket", "ascending"), ("place", "ascending")])
    assert pa.Table.from_batches(again.batches(0, 200)).to_pylist() == expected.to_pylist()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_a_full_disk():
    with pytest.raises(StorageError, match="cannot keep rows") as error:
        dealt("/dev/full", [(i, "x" * 99) for i in range(99)], "BIGINT", 4, 10, 1 << 20)
    assert "temp_dir" in error.value.hint


def test_readers_in_turn():
    batches = pa.table({"n": range(10)}).to_batches(max_chunksize=4)
    turns = InTurn(iter(batches))
    found = [[n for b in turns.take(k) for n in b["n"].to_pylist()] for k in (3, 0, 6, 1)]
    assert found == [[0, 1, 2], [], [3, 4, 5, 6, 7, 8], [9]]


@pytest.fixture
def exchanged(monkeypatch):
    """SHUFFLE of however little, and a partition in several parts."""
    monkeypatch.setattr(partition_shuffles, "_WORTH_BYTES", 0)
    monkeypatch.setattr(partition_shuffles, "_PARTITION_BYTES", 1 << 12)
    monkeypatch.setattr(exchange, "_HELD_BYTES", 1 << 12)
    monkeypatch.setattr(exchange, "PIECE_BYTES", 1 << 9)


SHUFFLED = "FROM 'in.parquet' |> SHUFFLE SEED 3"
WAYS = {
    "shards": " INTO 3 SHARDS |> WRITE 'out/' OPTIONS (format = 'parquet');",
    "one file": " |> WRITE 'out/x.parquet';",
    "computed": " INTO 3 SHARDS |> SELECT n * 2 AS m, upper(s) AS s |> WRITE 'out/x-{shard}.csv';",
    "no column as it is": " INTO 2 SHARDS |> SELECT h, b, n |> WRITE 'out/x-{shard}.parquet';",
    "more shards than rows": " INTO 5 SHARDS |> WHERE n < 2 |> WRITE 'out/x-{shard}.jsonl';",
    "filtered behind": " |> WHERE n + random() * 0 > 9 |> SELECT n, s |> WRITE 'out/x.jsonl';",
    "sharded by key": " |> DISTRIBUTE BY b INTO 2 SHARDS |> WRITE 'out/x-{shard}.jsonl';",
    "aggregated": " |> AGGREGATE list(n) AS ns |> WRITE 'out/x.jsonl';",
}


@pytest.mark.parametrize("way", WAYS)
def test_same_files(way, exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session(workers=1, threads=2) as session:
        session.run(
            "FROM range(3000) AS r (n)"
            " |> EXTEND 'text ' || n % 7 AS s, n % 2 = 0 AS b, n::HUGEINT AS h"
            " |> WRITE 'in.parquet';"
        )
        files = []
        for off in ([], ["partition_shuffles"]):
            session.set("disabled_rules", off)
            assert ("Exchange" in session.explain(Source("", SHUFFLED + WAYS[way]))) == (not off)
            session.run(SHUFFLED + WAYS[way])
            out = tmp_path / "out"
            made = sorted(path for path in out.iterdir() if not path.name.startswith("_"))
            files.append({path.name: path.read_bytes() for path in made})
            out.rename(tmp_path / f"out-{len(off)}")
    assert files[0] == files[1]


BY_SIZE = {
    "exchanged": " |> WRITE 'out/x-{shard}-of-{shards}.parquet'",
    "computed": " |> SELECT n * 2 AS m |> WRITE 'out/{shard}.jsonl'",
    "filtered behind": " |> WHERE n + random() * 0 > 9 |> WRITE 'out/{shard}.jsonl'",
    "filtered before": " |> WHERE n < 5 |> WRITE 'out/{shard}.jsonl'",
    "into folders": " |> SELECT n, n % 3 AS k"
    " |> WRITE 'out/' OPTIONS (format = 'csv', partition_by = [k])",
}


@pytest.mark.parametrize("way", BY_SIZE)
@pytest.mark.parametrize("source", ["FROM 'in.parquet'", "FROM 'in.parquet' |> EXTEND py(n) AS m"])
def test_as_many_files_as_the_input_has_splits(way, source, exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for workers, off in ((1, []), (1, ["partition_shuffles"]), (3, [])):
        with Session(workers=workers, threads=workers) as session:
            session.run(
                "FROM range(3000) AS r (n) |> WRITE 'in.parquet' OPTIONS (mode='overwrite')"
            )
            session.udf(lambda n: n + 1, name="py", returns="BIGINT")
            session.set("split_size", (tmp_path / "in.parquet").stat().st_size // 5)
            session.set("disabled_rules", off)
            text = f"{source} |> SHUFFLE SEED 3{BY_SIZE[way]}"
            report = session.run(text)
        sizes = [file.rows for file in report.outputs]
        if source.endswith("m") or way in ("exchanged", "computed"):
            assert len(sizes) > 3
        if way in ("exchanged", "computed") and not source.endswith("m"):
            assert sizes == [600] * 5
        out = tmp_path / "out"
        files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("[!_]*") if p.is_file()}
        found.append(files)
        out.rename(tmp_path / f"out-{len(found)}")
    assert found[0] == found[1] == found[2]


def test_shuffled_files_of_a_small_input_are_one(exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session(workers=1, threads=2) as session:
        session.run("FROM range(3000) AS r (n) |> WRITE 'in.parquet'")
        for name in ("in.parquet", "range(9)"):
            source = f"'{name}'" if name.endswith("t") else name
            report = session.run(
                f"FROM {source} |> SHUFFLE |> WRITE 'o/{{shard}}.csv' OPTIONS (mode = 'overwrite')"
            )
            assert len(report.outputs) == 1


def test_shuffled_files_that_are_there_stay(exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "FROM 'in.parquet' |> SHUFFLE SEED 3 |> WRITE 'o/{shard}.csv' OPTIONS (mode = 'skip')"
    with Session(workers=1, threads=2) as session:
        session.run("FROM range(3000) AS r (n) |> WRITE 'in.parquet'")
        session.set("split_size", (tmp_path / "in.parquet").stat().st_size // 20)
        first = session.run(text)
        assert session.run(text).counters["records_kept"] == 3000
        before = [(tmp_path / file.path).read_bytes() for file in first.outputs]
        (tmp_path / first.outputs[2].path).unlink()
        session.run(text)
    assert [(tmp_path / file.path).read_bytes() for file in first.outputs] == before
    assert len(before) == 10, "neighbours are put together where there are more"


def test_rows_for_the_caller_and_for_functions(exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SHUFFLED + " |> EXTEND py(n) AS m |> SELECT n, m"
    with Session(workers=1, threads=2) as session:
        session.run("FROM range(500) AS r (n) |> WRITE 'in.parquet';")
        session.udf(lambda n: n + 1, name="py", returns="BIGINT")
        found = []
        for off in ([], ["partition_shuffles"]):
            session.set("disabled_rules", off)
            rows = session.query(SHUFFLED).to_arrow().column("n").to_pylist()
            assert session.query(text).to_arrow().column("n").to_pylist() == rows
            found.append(rows)
    assert found[0] == found[1] != sorted(found[0])
    assert sorted(found[0]) == list(range(500))
