"""Parquet: footers, widened types, row groups."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zql.errors import StorageError, UsageError
from zql.storage import parquet_join, thrift, widening

from conftest import opened, read, table, types, write


def put(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


WIDER = {
    ("TINYINT", "BIGINT"): "BIGINT",
    ("UTINYINT", "TINYINT"): "SMALLINT",
    ("UBIGINT", "BIGINT"): "HUGEINT",
    ("UINTEGER", "USMALLINT"): "UINTEGER",
    ("INTEGER", "DOUBLE"): "DOUBLE",
    ("FLOAT", "DOUBLE"): "DOUBLE",
    ("SMALLINT", "FLOAT"): "FLOAT",
    ("INTEGER", "FLOAT"): "DOUBLE",
    ("DECIMAL(5,2)", "DECIMAL(7,1)"): "DECIMAL(8,2)",
    ("DECIMAL(5,2)", "INTEGER"): "DECIMAL(12,2)",
    ("DATE", "TIMESTAMP"): "TIMESTAMP",
    ("TIMESTAMP_S", "TIMESTAMP_MS"): "TIMESTAMP_MS",
    ("TIMESTAMP", "TIMESTAMP_NS"): "TIMESTAMP_NS",
    ("BIGINT", "DOUBLE"): "VARCHAR",
    ("BOOLEAN", "BIGINT"): "VARCHAR",
    ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"): "VARCHAR",
    ("BIGINT[]", "INTEGER[]"): "BIGINT[]",
    ("STRUCT(a INTEGER)", "STRUCT(a BIGINT, b VARCHAR)"): "STRUCT(a BIGINT, b VARCHAR)",
    ("STRUCT(a INTEGER)", "VARCHAR"): "JSON",
    ("BIGINT[]", "BIGINT"): "JSON",
    ("JSON", "VARCHAR"): "VARCHAR",
    ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, BIGINT)"): "MAP(VARCHAR, BIGINT)",
    ('STRUCT("a, b" INTEGER)', 'STRUCT("a, b" BIGINT)'): 'STRUCT("a, b" BIGINT)',
}


@pytest.mark.parametrize("pair", WIDER, ids=str)
def test_widest(pair):
    assert widening.widest(*pair) == WIDER[pair]
    assert widening.widest(*pair[::-1]).count("(") == WIDER[pair].count("(")


def test_files_are_joined_by_name_in_types_that_lose_nothing(engine, tmp_path):
    put(tmp_path / "0.parquet", v=pa.array([1], pa.int8()), s=["x"])
    put(tmp_path / "1.parquet", n=[1], v=[2**62])
    put(tmp_path / "2.parquet", v=pa.array([None], pa.int16()))
    dataset = opened(engine, tmp_path / "*.parquet")
    assert types(dataset) == {"v": "BIGINT", "s": "VARCHAR", "n": "BIGINT"}
    assert read(engine, dataset) == [(1, "x", None), (2**62, None, 1), (None, None, None)]


def test_integers_beside_floats(engine, tmp_path):
    put(tmp_path / "0.parquet", v=pa.array([5], pa.int32()))
    put(tmp_path / "1.parquet", v=[0.5])
    assert table(engine, tmp_path / "*.parquet") == [(5.0,), (0.5,)]
    put(tmp_path / "2.parquet", v=[2**53 + 1])
    assert table(engine, tmp_path / "*.parquet") == [("5",), ("0.5",), ("9007199254740993",)]


def test_nested_values_are_widened(engine, tmp_path):
    put(tmp_path / "0.parquet", v=pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])))
    put(tmp_path / "1.parquet", v=pa.array([{"a": 2, "b": ["x"]}]))
    dataset = opened(engine, tmp_path / "*.parquet")
    assert types(dataset) == {"v": "STRUCT(a BIGINT, b VARCHAR[])"}
    assert read(engine, dataset) == [({"a": 1, "b": None},), (None,), ({"a": 2, "b": ["x"]},)]


def test_texts_in_all_their_encodings(engine, tmp_path):
    put(tmp_path / "0.parquet", k=pa.array(["a", "b"]).dictionary_encode())
    put(tmp_path / "1.parquet", k=pa.array(["a"], pa.large_string()))
    put(tmp_path / "2.parquet", k=pa.array(["b"], pa.string_view()))
    assert table(engine, tmp_path / "*.parquet") == [("a",), ("b",), ("a",), ("b",)]


def test_times(engine, tmp_path):
    when = [dt.datetime.fromisoformat("1000-01-01"), dt.datetime.fromisoformat("9999-12-31 23:59")]
    pq.write_table(pa.table({"t": pa.array(when, pa.timestamp("us"))}), tmp_path / "a.parquet",
                   use_deprecated_int96_timestamps=True)  # fmt: skip
    assert [t for (t,) in table(engine, tmp_path / "a.parquet")] == when


def test_columns_that_cannot_be_told_apart(engine, tmp_path):
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "v"])
    pq.write_table(two, tmp_path / "a.parquet")
    with pytest.raises(StorageError, match=r'a\.parquet has two columns named "v"'):
        opened(engine, tmp_path / "a.parquet")
    three = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["v", "V", "v_1"])
    pq.write_table(three, tmp_path / "b.parquet")
    assert table(engine, tmp_path / "b.parquet") == [(1, 2, 3)]
    dataset = opened(engine, tmp_path / "b.parquet")
    assert read(engine, dataset, ("V",)) == [(2,)]


def test_columns_named_like_duckdbs_own(engine, tmp_path):
    for name in "ab":
        put(tmp_path / f"{name}.parquet", file_row_number=[7, 8], filename=["x", "y"],
            file_index=[5, 6])  # fmt: skip
    dataset = opened(engine, tmp_path / "*.parquet")
    assert read(engine, dataset) == [(7, "x", 5), (8, "y", 6)] * 2
    column = type(dataset.read_column("filename", "a"))
    columns = [column("n", "", "BIGINT", "row"), column("f", "", "VARCHAR", "filename")]
    sql = dataset.format.scan_sql(dataset.files, columns, {}, engine)
    [a, b] = [f.path for f in dataset.files]
    assert engine.rows(f"SELECT * FROM {sql}") == [(0, a), (1, a), (0, b), (1, b)]
    splits = dataset.format.splits(dataset.files, {}, 1, engine)
    assert [r for s in splits for r in read(engine, dataset, None, s)] == read(engine, dataset)


def test_places_grow_along_the_rows_of_all_files(engine, tmp_path):
    put(tmp_path / "a.parquet", v=[0, 1, 2])
    put(tmp_path / "b.parquet", v=[3, 4])
    put(tmp_path / "c.parquet", v=[5, 6], file_row_number=[9, 9])
    put(tmp_path / "d.parquet", v=[7], file_index=[3])
    put(tmp_path / "e.parquet", v=["8", "9"])
    dataset = opened(engine, *(tmp_path / f"{name}.parquet" for name in "abcde"))
    column = type(dataset.read_column("v", "a"))
    columns = [column("v", "v", "VARCHAR"), column("place", "", "BIGINT", "place")]
    sql = dataset.format.scan_sql(dataset.files, columns, {}, engine)
    rows = engine.rows(f"SELECT v, place FROM {sql} ORDER BY place")
    assert [v for v, _ in rows] == list("0123456789")
    assert len({place for _, place in rows}) == 10


@pytest.mark.parametrize("kept", [0, 3, 8, 50, -1, -8, -30])
def test_damaged_files_are_named(engine, tmp_path, kept):
    for name in "abc":
        put(tmp_path / f"{name}.parquet", v=list(range(1000)))
    data = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(data[:kept])
    with pytest.raises(StorageError, match=r"b\.parquet is no Parquet file"):
        table(engine, tmp_path / "*.parquet")


def test_row_groups_have_a_fixed_number_of_rows(engine, tmp_path):
    query = "SELECT range AS i, 'x' || range AS s FROM range(1000)"
    for batch_rows in (7, 300, 5000):
        write(engine, "parquet", tmp_path / "a.parquet", query, batch_rows=batch_rows,
              options={"row_group_size": 300})  # fmt: skip
        meta = pq.ParquetFile(tmp_path / "a.parquet").metadata
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [300] * 3 + [100]
    dataset = opened(engine, tmp_path / "a.parquet")
    splits = dataset.format.splits(dataset.files, {}, 1, engine)
    assert [(s.start, s.stop) for s in splits] == [(0, 300), (300, 600), (600, 900), (900, 1000)]


def test_compressions(engine, tmp_path):
    for name in ("zstd", "snappy", "gzip", "lz4", "brotli", "none", "uncompressed", None):
        write(engine, "parquet", tmp_path / "a.parquet", "SELECT 1 AS a", compression=name)
        assert table(engine, tmp_path / "a.parquet") == [(1,)]
    with pytest.raises(UsageError, match=r'no compression "ztsd".*\n.*did you mean "zstd"'):
        write(engine, "parquet", tmp_path / "a.parquet", "SELECT 1 AS a", compression="ztsd")


TYPES = """
    SELECT 1::HUGEINT AS h, '1'::BIT AS b, INTERVAL 1 DAY AS i, TIME '01:02:03' AS t,
           '01:02:03+01'::TIMETZ AS tz, uuid_extract_timestamp IS NULL AS u, 'x'::ENUM('x') AS e,
           [1, 2]::INTEGER[2] AS a, union_value(k := 1) AS un, NULL AS n, '{"a":1}'::JSON AS j,
           {'HUGEINT x': 5::HUGEINT} AS st, 1.5::DECIMAL(4,1) AS d, TIMESTAMPTZ '2024-01-01' AS ts
    FROM (SELECT 1 AS uuid_extract_timestamp)
"""


def test_types_that_parquet_lacks(engine, tmp_path):
    write(engine, "parquet", tmp_path / "a.parquet", TYPES)
    dataset = opened(engine, tmp_path / "a.parquet")
    assert types(dataset) == {
        "h": "DECIMAL(38,0)", "b": "VARCHAR", "i": "VARCHAR", "t": "TIME", "tz": "VARCHAR",
        "u": "BOOLEAN", "e": "VARCHAR", "a": "INTEGER[]", "un": "JSON", "n": "VARCHAR",
        "j": "JSON", "st": 'STRUCT("HUGEINT x" DECIMAL(38,0))', "d": "DECIMAL(4,1)",
        "ts": "TIMESTAMP WITH TIME ZONE",
    }  # fmt: skip
    [row] = read(engine, dataset, ("h", "b", "i", "un", "j", "st"))
    assert row == (Decimal(1), "1", "1 day", '{"k":1}', '{"a":1}', {"HUGEINT x": Decimal(5)})


def test_joined_files_are_read_by_others(engine, tmp_path):
    parts = []
    for number, rows in enumerate((300, 0, 1, 250)):
        parts.append(str(tmp_path / f"{number}.parquet"))
        query = f"""SELECT i, 't' || i % 7 AS s, [i, NULL] AS l, {{'x': i}} AS st
                    FROM range({rows}) t(i)"""
        write(engine, "parquet", parts[-1], query, options={"row_group_size": 100})
    parquet_join.concatenate(parts, str(tmp_path / "joined.parquet"))
    joined = pq.read_table(tmp_path / "joined.parquet")
    assert joined.num_rows == 551
    assert joined.equals(pa.concat_tables([pq.read_table(p) for p in parts]))
    assert len(table(engine, tmp_path / "joined.parquet")) == 551
    meta = pq.ParquetFile(tmp_path / "joined.parquet").metadata
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [
        100, 100, 100, 1, 100, 100, 50
    ]  # fmt: skip
    filtered = "SELECT count(*) FROM '{}' WHERE i BETWEEN 240 AND 260".format(
        tmp_path / "joined.parquet"
    )
    assert engine.rows(filtered) == [(21 + 10,)]


def test_a_footer_is_written_as_it_was_read(engine, tmp_path):
    write(engine, "parquet", tmp_path / "a.parquet", TYPES)
    with (tmp_path / "a.parquet").open("rb") as file:
        footer, start = parquet_join.read_footer(file)
        file.seek(start)
        before = file.read()[:-8]
    writer = thrift.Writer()
    writer.struct(footer)
    assert bytes(writer.data) == before


def test_huge_values_end_a_row_group_early(engine, tmp_path, monkeypatch):
    from zql.storage import parquet_write

    monkeypatch.setattr(parquet_write, "_GROUP_BYTES", 1_500_000)
    query = "SELECT range AS i, repeat('x', 500) AS s FROM range(10_000)"
    contents = set()
    for batch_rows in (100, 2048, 20_000):
        write(engine, "parquet", tmp_path / "a.parquet", query, batch_rows=batch_rows)
        contents.add((tmp_path / "a.parquet").read_bytes())
    assert len(contents) == 1
    meta = pq.ParquetFile(tmp_path / "a.parquet").metadata
    sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    assert sizes == [3072, 3072, 3072, 784]
    assert [i for i, _ in table(engine, tmp_path / "a.parquet")] == list(range(10_000))


def test_dictionaries_may_differ_from_batch_to_batch(tmp_path, engine):
    from zql.storage import registry
    from zql.storage.format import WriteColumn

    batches = [
        pa.record_batch({"c0": pa.array(v).dictionary_encode()}) for v in (["a"], ["b", "a"])
    ]
    columns = [WriteColumn("c0", "k", "VARCHAR")]
    path = str(tmp_path / "a.parquet")
    writer = registry.by_name("parquet").writer(path, columns, batches[0].schema, {}, None)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert table(engine, path) == [("a",), ("b",), ("a",)]


def test_a_huge_row_group_is_cut_between_its_rows(engine, tmp_path):
    query = "SELECT range AS i, md5('x' || range) AS s FROM range(30000)"
    write(engine, "parquet", tmp_path / "a.parquet", query, options={"row_group_size": 20000})
    dataset = opened(engine, tmp_path / "a.parquet")
    whole = read(engine, dataset)
    for target in (1, 100_000, 300_000, 10**9):
        splits = dataset.format.splits(dataset.files, {}, target, engine)
        assert [row for s in splits for row in read(engine, dataset, None, s)] == whole
        assert splits == dataset.format.splits(dataset.files, {}, target, engine)
        assert len(splits) > 1 or target == 10**9
