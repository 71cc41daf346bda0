"""What every format must keep, in every compression."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.errors import UsageError
from zql.logical.row_places import PLACED_FORMATS
from zql.storage import registry
from zql.storage.format import ReadColumn, WriteColumn

from conftest import SUFFIXES, format_named, opened, read, table, types, write

LINES = ("jsonl", "csv", "tsv")
OWN = ("rows", "blocks")
PLAIN = (*LINES, *OWN)
PACKED = [(f, c) for f in PLAIN for c in SUFFIXES] + [("parquet", "zstd"), ("parquet", "gzip")]
JOINED = [(f, c) for f, c in PACKED if f not in OWN]
"""A writer of the user's own is given all rows of a file at once: there are no parts to join."""
TABLE = """
    SELECT i AS id, 'v' || i AS name, i / 4 AS score, i % 3 = 0 AS flag,
           CASE WHEN i % 5 = 0 THEN NULL ELSE i * 10 END AS n
    FROM range(100) t(i)
"""


def path_for(folder, format, compression, name="a"):
    suffix = SUFFIXES[compression] if format in PLAIN else ""
    return folder / f"{name}.{format}{suffix}"


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_what_is_written_is_read(engine, tmp_path, format, compression):
    path = path_for(tmp_path, format, compression)
    assert write(engine, format, path, TABLE, compression=compression) == 100
    assert table(engine, path) == engine.rows(TABLE)


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_bytes_depend_on_rows_alone(engine, tmp_path, format, compression):
    paths = [tmp_path / str(rows) for rows in (1, 7, 2048)]
    for path, rows in zip(paths, (1, 7, 2048), strict=True):
        write(engine, format, path, TABLE, compression=compression, batch_rows=rows)
    contents = {path.read_bytes() for path in paths}
    assert len(contents) == 1


@pytest.mark.parametrize("format", LINES)
def test_copy_gives_the_bytes_of_the_writer(engine, tmp_path, format):
    one = registry.by_name(format)
    columns = [WriteColumn(n, n.upper(), t) for n, t in engine.describe(TABLE)]
    copy = one.copy(TABLE, columns, {}, None)
    assert copy is not None
    [(count,)] = engine.rows(f"COPY ({copy.select}) TO '{tmp_path}/copied' ({copy.options})")
    assert count - copy.extra_rows == 100
    sql = one.output_sql(TABLE, columns, {})
    with engine.connection.sql(sql).to_arrow_reader(10) as reader:
        one.writer(str(tmp_path / "written"), columns, reader.schema, {}, None).write_all(reader)
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "written").read_bytes()


@pytest.mark.parametrize("format", LINES)
def test_copy_is_left_out_where_it_packs_otherwise(format):
    assert registry.by_name(format).copy("SELECT 1", [], {}, "gzip") is None


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_no_rows_are_a_readable_file(engine, tmp_path, format, compression):
    path = path_for(tmp_path, format, compression)
    write(engine, format, path, f"{TABLE} WHERE false", compression=compression)
    dataset = opened(engine, path)
    assert read(engine, dataset) == []
    if format == "parquet":
        assert types(dataset)["name"] == "VARCHAR"
        assert types(dataset)["id"] == "BIGINT"
    elif format == "blocks":
        assert types(dataset)["name"] == "VARCHAR"
    elif format not in ("jsonl", "rows"):  # a file without lines cannot tell its keys
        assert dataset.schema.names == ("id", "name", "score", "flag", "n")


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_a_file_without_rows_changes_nothing(engine, tmp_path, format, compression):
    write(
        engine,
        format,
        path_for(tmp_path, format, compression, "00"),
        f"{TABLE} WHERE false",
        compression=compression,
    )
    write(
        engine,
        format,
        path_for(tmp_path, format, compression, "01"),
        TABLE,
        compression=compression,
    )
    assert table(engine, tmp_path / "*") == engine.rows(TABLE)


@pytest.mark.parametrize(("format", "compression"), PACKED)
@pytest.mark.parametrize("target", [1, 50, 400, 10_000_000])
def test_splits_cover_each_row_once(engine, tmp_path, format, compression, target):
    for number in range(3):
        query = f"SELECT id + {100 * number} AS id, name FROM ({TABLE})"
        path = path_for(tmp_path, format, compression, str(number))
        options = {"row_group_size": 7} if format == "parquet" else {}
        write(engine, format, path, query, compression=compression, options=options)
    dataset = opened(engine, tmp_path / "*")
    names = ("id", "name", "filename", "file_row_number")
    splits = dataset.format.splits(dataset.files, dataset.options, target, engine)
    rows = [row for split in splits for row in read(engine, dataset, names, split)]
    assert rows == read(engine, dataset, names)
    assert [row[0] for row in rows] == list(range(300))
    assert [row[3] for row in rows] == [*range(100)] * 3
    assert splits == dataset.format.splits(dataset.files, dataset.options, target, engine)


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_union_by_name_in_any_order(engine, tmp_path, format, compression):
    def put(name, query):
        path = path_for(tmp_path, format, compression, name)
        write(engine, format, path, query, compression=compression)
        return path

    a = put("a", "SELECT 1 AS id, 'x' AS s")
    b = put("b", "SELECT 'y' AS s, 2 AS id, 2.5::DOUBLE AS d")
    c = put("c", "SELECT 3 AS id, 7::DOUBLE AS d")
    found = {}
    for order in ([a, b, c], [c, b, a], [b, a, c]):
        dataset = opened(engine, *order)
        rows = sorted(read(engine, dataset, ("id", "s", "d")))
        found[tuple(rows)] = sorted(
            (n, t.replace("INTEGER", "BIGINT")) for n, t in types(dataset).items()
        )
    assert found == {
        ((1, "x", None), (2, "y", 2.5), (3, None, 7.0)): [
            ("d", "DOUBLE"), ("id", "BIGINT"), ("s", "VARCHAR")
        ]
    }  # fmt: skip


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_folders_and_the_files_themselves_are_columns(engine, tmp_path, format, compression):
    for value in ("007", "__HIVE_DEFAULT_PARTITION__", "a%2Fb"):
        (tmp_path / f"k={value}").mkdir()
        path = path_for(tmp_path / f"k={value}", format, compression)
        write(engine, format, path, "SELECT 1 AS id", compression=compression)
    dataset = opened(engine, tmp_path / "k=*" / "*")
    rows = read(engine, dataset, ("k", "id", "filename", "file_row_number"))
    assert [(k, i, n) for k, i, _, n in rows] == [("007", 1, 0), (None, 1, 0), ("a/b", 1, 0)]
    assert [f for _, _, f, _ in rows] == [f.path for f in dataset.files]
    assert opened(engine, tmp_path / "k=*" / "*", hive_partitioning=False).schema.names == ("id",)


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_file_names_and_rows_as_columns(engine, tmp_path, format, compression):
    for name in "ab":
        path = path_for(tmp_path, format, compression, name)
        write(engine, format, path, TABLE, compression=compression)
    dataset = opened(engine, tmp_path / "*", filename=True, file_row_number=True)
    assert dataset.schema.names[-2:] == ("filename", "file_row_number")
    rows = read(engine, dataset, ("id", "filename", "file_row_number"))
    assert rows == [(i, f.path, i) for f in dataset.files for i in range(100)]
    splits = dataset.format.splits(dataset.files, dataset.options, 500, engine)
    names = ("id", "filename", "file_row_number")
    assert [r for s in splits for r in read(engine, dataset, names, s)] == rows
    taken = path_for(tmp_path, format, compression, "c")
    write(engine, format, taken, "SELECT 'x' AS filename", compression=compression)
    with pytest.raises(UsageError, match='"filename" of their own'):
        opened(engine, taken, filename=True)
    assert table(engine, taken, union_by_name=True) == [("x",)]
    with pytest.raises(UsageError, match="must be TRUE"):
        opened(engine, taken, union_by_name=False)


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_columns_of_the_file_win_over_folders(engine, tmp_path, format, compression):
    (tmp_path / "id=5").mkdir()
    path = path_for(tmp_path / "id=5", format, compression)
    write(engine, format, path, "SELECT 1 AS id, true AS k", compression=compression)
    assert table(engine, tmp_path / "*" / "*") == [(1, True)]


@pytest.mark.parametrize(("format", "compression"), PACKED)
def test_names_that_differ_in_case_only(engine, tmp_path, format, compression):
    path = path_for(tmp_path, format, compression)
    one = format_named(format)
    columns = [WriteColumn("a", "Id", "INTEGER"), WriteColumn("b", "id", "VARCHAR")]
    sql = one.output_sql("SELECT 1 AS a, 'x' AS b", columns, {})
    with engine.connection.sql(sql).to_arrow_reader(10) as reader:
        one.writer(str(path), columns, reader.schema, {}, compression).write_all(reader)
    dataset = opened(engine, path)
    assert dataset.schema.names == ("Id", "id")
    assert read(engine, dataset) == [(1, "x")]
    assert read(engine, dataset, ("id",)) == [("x",)]
    assert read(engine, dataset, ("Id",)) == [(1,)]


@pytest.mark.parametrize(("format", "compression"), JOINED)
def test_parts_are_joined_in_order(engine, tmp_path, format, compression):
    one = registry.by_name(format)
    packed = one.part_compression(compression)
    cuts = [(0, 40), (40, 40), (40, 100)]
    parts = []
    for number, (start, stop) in enumerate(cuts):
        parts.append(str(tmp_path / f".part{number}"))
        query = f"{TABLE} WHERE i >= {start} AND i < {stop}"
        write(engine, format, parts[-1], query, compression=packed)
    columns = [WriteColumn(n, n, t) for n, t in engine.describe(TABLE)]
    path = path_for(tmp_path, format, compression)
    one.concatenate(parts, str(path), columns, {}, compression)
    assert table(engine, path) == engine.rows(TABLE)
    if format != "parquet":
        whole = tmp_path / "whole"
        write(engine, format, whole, TABLE, compression=compression)
        assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("format", ["jsonl", "csv", "rows"])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "xz", "bzip2"])
def test_cut_packed_files_are_errors_that_name_them(engine, tmp_path, format, compression):
    path = path_for(tmp_path, format, compression)
    write(engine, format, path, TABLE, compression=compression)
    whole = path.read_bytes()
    for kept in (len(whole) - 1, len(whole) - 9, len(whole) * 2 // 3, 20):
        path.write_bytes(whole[:kept])
        with pytest.raises(Exception, match=path.name.replace(".", r"\.")) as caught:
            table(engine, path)
        assert type(caught.value).__name__ == "StorageError"


@pytest.mark.parametrize("format", ["jsonl", "csv", "rows"])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "xz", "bzip2"])
def test_all_members_of_a_packed_file_are_read(engine, tmp_path, format, compression):
    path = path_for(tmp_path, format, compression)
    write(engine, format, path, "SELECT 1 AS a", compression=compression)
    write(engine, format, tmp_path / "b", "SELECT 2 AS a", compression=compression,
          options={"header": False} if format == "csv" else {})  # fmt: skip
    path.write_bytes(path.read_bytes() + (tmp_path / "b").read_bytes())
    assert table(engine, path) == [(1,), (2,)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", " ", "NULL", "NA", "00123", "1e5", "2024-01-01", '"', "'", "a,b", "a\tb", "\n", "\r\n",
     "\r", "\\", "\\N", "\x00", "\u2028", "x" * 70_000, "true", "1", "-0", "\ufeff", "#", "{}",
     "=1"]
)  # fmt: skip
INTS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 2**53 + 1, -(2**53) - 1])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.tuples(INTS, TEXTS | st.none(), FLOATS | st.none()), min_size=1, max_size=8)


def values_sql(engine, rows):
    engine.connection.execute("CREATE OR REPLACE TABLE given (i BIGINT, s VARCHAR, f DOUBLE)")
    engine.connection.executemany("INSERT INTO given VALUES (?, ?, ?)", rows)
    return "SELECT * FROM given"


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv", "parquet", *OWN])
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(rows=ROWS)
def test_any_values_come_back(engine, tmp_path, format, rows):
    from zql.storage import schema_cache

    schema_cache.forget()
    path = tmp_path / f"a.{format}"
    write(engine, format, path, values_sql(engine, rows))
    declared = {"types": {"i": "BIGINT", "s": "VARCHAR", "f": "DOUBLE"}}
    found = table(engine, path, **(declared if format in {"csv", "tsv"} else {}))
    if format == "jsonl" and all(s is None for _, s, _ in rows):
        found = [(i, None, f) for i, _, f in found]
    assert [(i, s) for i, s, _ in found] == [(i, s) for i, s, _ in rows]
    for (_, _, got), (_, _, put) in zip(found, rows, strict=True):
        assert got == put or (got is None and put is None)
        if put is not None:
            assert math.copysign(1, got) == math.copysign(1, put)


TYPED = {
    "TRUE": True,
    "170141183460469231731687303715884105727::HUGEINT": None,
    "18446744073709551615::UBIGINT": 18446744073709551615,
    "12345678901234567890.12::DECIMAL(22,2)": Decimal("12345678901234567890.12"),
    "DATE '0001-01-01'": dt.date(1, 1, 1),
    "TIMESTAMP '2024-01-02 03:04:05.678901'": dt.datetime.fromisoformat(
        "2024-01-02 03:04:05.678901"
    ),
    "TIME '01:02:03'": dt.time(1, 2, 3),
    "[1, NULL, 3]": [1, None, 3],
    "[]::VARCHAR[]": [],
    "{'a': 1, 'b': {'c': 'x'}}": {"a": 1, "b": {"c": "x"}},
    "MAP {'k': 1}": {"k": 1},
    "'\\x00\\xFF'::BLOB": b"\x00\xff",
    "'{\"a\": [1]}'::JSON": '{"a": [1]}',
    "NULL": None,
}


@pytest.mark.parametrize("value", TYPED)
def test_parquet_keeps_types(engine, tmp_path, value):
    if "HUGEINT" in value:
        value = "12345678901234567890123456789::HUGEINT"
    write(engine, "parquet", tmp_path / "a.parquet", f"SELECT {value} AS v")
    [(got,)] = table(engine, tmp_path / "a.parquet")
    assert got == TYPED.get(value, Decimal(12345678901234567890123456789))


def test_parquet_refuses_what_it_cannot_hold(engine, tmp_path):
    value = "SELECT 170141183460469231731687303715884105727::HUGEINT AS v"
    with pytest.raises(Exception, match="DECIMAL"):
        write(engine, "parquet", tmp_path / "a.parquet", value)


@pytest.mark.parametrize("value", [v for v in TYPED if "BLOB" not in v and "TIME" not in v])
def test_jsonl_keeps_values(engine, tmp_path, value):
    write(engine, "jsonl", tmp_path / "a.jsonl", f"SELECT 1 AS i, {value} AS v")
    [(_, got)] = table(engine, tmp_path / "a.jsonl")
    [(want,)] = engine.rows(f"SELECT {value}")
    if isinstance(want, dt.date):
        assert got == str(want)
    elif isinstance(want, Decimal):
        assert got == pytest.approx(float(want))
    elif isinstance(want, str):
        assert got in ({"a": [1]}, '{"a":[1]}')
    else:
        assert got == want


@pytest.mark.parametrize("format", sorted(PLACED_FORMATS))
def test_places_of_rows(engine, tmp_path, format):
    for number in range(3):
        query = f"SELECT {number} * 5000 + i AS i FROM range(5000) t(i)"
        write(engine, format, tmp_path / f"{number}.{format}", query)
    dataset = opened(engine, tmp_path / f"*.{format}")
    columns = [dataset.read_column("i", "i"), ReadColumn("place", "", "BIGINT", "place")]
    sql = dataset.format.scan_sql(dataset.files, columns, {}, engine)
    rows = engine.rows(f"SELECT i FROM {sql} ORDER BY place")
    assert rows == [(i,) for i in range(15_000)]
