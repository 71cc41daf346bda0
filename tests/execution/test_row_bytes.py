"""Bytes of values depend on the values alone; rows are cut by them alike however they come."""

import datetime
import decimal
import random

import pyarrow as pa
import pytest
from zql.execution.engine import Engine
from zql.execution.row_bytes import Shares, bits_of, rows_of
from zql.execution.settings import Settings

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
ARRAYS = {
    "integers": (pa.array([1, None, 3], pa.int16()), 3 * 16),
    "truths": (pa.array([True, False, None]), 3),
    "texts": (pa.array(["a", None, "", "\u00e9\u00e9"]), 8 * 5),
    "large texts": (pa.array(["a", None, "bcd"], pa.large_string()), 8 * 4),
    "bytes": (pa.array([b"a", None, b"bcd"]), 8 * 4),
    "views": (pa.array(["a", None, "\u00e9" * 20], pa.string_view()), 8 * 41),
    "lists": (pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64())), 64 * 3),
    "large lists": (pa.array([["a"], ["bc", "d"]], pa.large_list(pa.string())), 8 * 4),
    "fixed lists": (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), 8 * 4),
    "records": (pa.array([{"x": 1, "y": "ab"}, {"x": 2, "y": "c"}], POINT), 64 + 8 * 3),
    "maps": (pa.array([[("k", 1)], [("ll", 2)]], pa.map_(pa.string(), pa.int32())), 8 * 3 + 64),
    "words": (pa.array(["a", "b", "a"]).dictionary_encode(), 3 * 32),
    "nothing": (pa.nulls(5), 0),
    "days": (pa.array([datetime.date(2024, 1, 1)]), 32),
    "decimals": (pa.array([decimal.Decimal("1.5")], pa.decimal128(10, 2)), 128),
    "fixed bytes": (pa.array([b"abc", None], pa.binary(3)), 48),
    "lists of records": (pa.array([[{"x": 1, "y": "ab"}], []], pa.list_(POINT)), 32 + 16),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_bits_of_values(name):
    array, bits = ARRAYS[name]
    assert bits_of(batch_of(array)) == bits
    for at in range(len(array) + 1):  # what is before and behind does not count
        assert bits_of(batch_of(array.slice(0, at))) + bits_of(batch_of(array.slice(at))) == bits


def batch_of(*arrays):
    return pa.RecordBatch.from_arrays(list(arrays), names=[f"c{i}" for i in range(len(arrays))])


TYPES = (
    "i::HUGEINT, i::VARCHAR::JSON, i::DECIMAL(30,3), i::UINTEGER, i::BIT",
    "make_timestamp(i), INTERVAL (i) DAY, '12:00'::TIME::TIMETZ, gen_random_uuid(), '12:00'::TIME",
    "[i, NULL], {'a': i, 'b': [i::VARCHAR]}, MAP {i: i::VARCHAR}, [i, i]::INT[2]",
    "union_value(a := i), NULL, i % 2 = 0, CASE WHEN i % 3 = 0 THEN 'x' END",
    "CASE WHEN i % 5 > 1 THEN 'a' END::ENUM ('a', 'b'), i::VARCHAR::BLOB",
)


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("types", TYPES)
def test_whatever_duckdb_gives_is_counted_alike_in_all_batches(types, lossless):
    found = []
    with Engine(Settings()) as engine:
        for rows in (5000, 2048, 700):
            sql = f"SELECT {types} FROM range(5000) AS r (i)"
            with engine.batches(sql, rows, lossless=lossless) as stream:
                found.append([bits_of(batch) for batch in stream])
    assert len(set(map(sum, found))) == 1
    assert len(found[0]) < len(found[2])


def test_cuts_are_the_same_however_rows_come():
    chance = random.Random(4)
    texts = [None if chance.random() < 0.2 else "x" * chance.randrange(50) for _ in range(5000)]
    flags = [chance.random() < 0.5 for _ in texts]
    table = pa.table({"t": texts, "f": flags, "l": [[1] * (n % 4) for n in range(len(texts))]})
    expected = None
    for _ in range(20):
        at, batches = 0, []
        while at < table.num_rows:
            count = chance.choice([0, 1, 7, 300, 2048])
            batches += table.slice(at, count).combine_chunks().to_batches()
            at += count
        cuts = [[row for b in share for row in b.to_pylist()] for share in shares(batches, 1000)]
        assert [row for share in cuts for row in share] == table.to_pylist()
        expected = expected or list(map(len, cuts))
        assert list(map(len, cuts)) == expected
    assert len(expected) > 50


def shares(batches, size):
    return Shares(batches, lambda _: size)


def test_a_share_ends_with_the_row_that_fills_it():
    batch = batch_of(pa.array(["aa", "b", "cccc", "d"]))
    assert [rows_of(batch, 8 * n) for n in (1, 2, 3, 4, 7, 8, 9)] == [1, 1, 2, 3, 3, 4, 4]
    found = [pa.Table.from_batches(s)["c0"].to_pylist() for s in shares([batch], 3)]
    assert found == [["aa", "b"], ["cccc"], ["d"]]


def test_no_rows_are_one_share():
    empty = batch_of(pa.array([], pa.string()))
    assert [list(share) for share in shares([], 3)] == [[]]
    assert [list(share) for share in shares([empty, empty], 3)] == [[]]


def test_what_a_reader_leaves_is_passed_over():
    batches = [batch_of(pa.array(["a"])) for _ in range(6)]
    assert [next(share)["c0"].to_pylist() for share in shares(batches, 3)] == [["a"], ["a"]]


def test_sizes_may_grow_with_what_there_is():
    batches = [batch_of(pa.array(["a"] * 100))]
    found = Shares(batches, lambda before: max(1, before))
    assert [sum(b.num_rows for b in s) for s in found] == [1, 1, 2, 4, 8, 16, 32, 36]
