"""Ranges of sorted keys: learned from a sample, and made small enough when the sample was wrong."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.execution import exchange
from zql.execution import ranges as ranges_module
from zql.execution.exchange import Exchange, deal
from zql.execution.ranges import Ranges, Sample, ranges_of
from zql.expr.expression import Column, SortKey
from zql.physical.plan import Spread

KEYS = st.one_of(st.binary(max_size=3), st.sampled_from([b"", b"a", b"b"]))
TICKET = Column("ticket", "BLOB")
SPREAD = Spread(TICKET, None, 8, order=(SortKey(Column("text", "VARCHAR")),))


def dealt(path, keys, ranges, cut, budget):
    ticket = pa.array(keys, pa.binary())
    table = pa.table({"ticket": ticket, "row": pa.array(range(len(keys)), pa.int64())})
    batches = table.to_batches(max_chunksize=cut)
    return table, deal(batches, table.schema, SPREAD, str(path), budget, ranges)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(KEYS, max_size=80),
    st.lists(KEYS, max_size=30),
    st.integers(1, 12),
    st.integers(1, 9),
    st.sampled_from([1 << 40, 16 * 60, 16]),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_order(tmp_path_factory, keys, sample, parts, cut, budget, start, count):
    path = tmp_path_factory.mktemp("exchange") / "x.arrow"
    ranges = ranges_of(sorted(sample), parts)
    table, found = dealt(path, keys, ranges, cut, budget)
    by_key = sorted(range(len(keys)), key=lambda row: keys[row])
    found.save_index(f"{path}.index")
    again = Exchange.saved(found.paths, f"{path}.index", SPREAD, budget)
    assert (again.paths, again.partitions) == (found.paths, found.partitions)

    def read(first, last):
        batches = again.batches(first, last)
        return pa.Table.from_batches(batches, table.schema)["row"].to_pylist()

    assert read(0, len(keys)) == by_key
    stop = min(start + count, len(keys))
    assert read(min(start, stop), stop) == by_key[start:stop]
    again.remove()
    assert [p.name for p in path.parent.iterdir()] == ["x.arrow.index"]


def test_ranges_that_were_sampled_wrong_are_dealt_once_more(tmp_path):
    keys = [f"{n * 7919 % 4096:04}".encode() for n in range(4096)]
    ranges = ranges_of([b"9", b"99"], 8)
    _, found = dealt(tmp_path / "x.arrow", keys, ranges, 512, 16 * (8 << 10))
    assert len(found.paths) == 2
    held = found.held_bytes
    assert sum(p.rows for p in found.partitions) == 4096
    assert max(p.bytes for p in found.partitions) <= 2 * held
    assert max(p.bytes for p in found.partitions if p.file == 1) > held // 8
    rows = pa.Table.from_batches(found.batches(0, 4096))
    assert rows["ticket"].to_pylist() == sorted(keys)


def test_ranges_of_rows_that_are_wide_for_some_keys_have_as_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "PIECE_BYTES", 1 << 12)
    keys = [f"{n * 7919 % 4096:04}".encode() for n in range(4096)]
    texts = ["x" * (2000 if b"2000" <= key < b"2100" else 1) for key in keys]
    table = pa.table({"ticket": pa.array(keys, pa.binary()), "text": texts})
    batches, held = table.to_batches(max_chunksize=512), 16 << 10
    found = deal(batches, table.schema, SPREAD, str(tmp_path / "x"), 16 * held, Ranges(()))
    assert len(found.paths) == 2
    assert max(p.bytes for p in found.partitions) <= 2 * held
    rows = pa.Table.from_batches(found.batches(0, 4096))
    assert rows["ticket"].to_pylist() == sorted(keys)


def test_a_key_of_many_rows_has_a_range_of_its_own_which_is_never_held(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "PIECE_BYTES", 1 << 10)
    keys = [b"hot" if n % 2 else f"{n:04}".encode() for n in range(4096)]
    _, found = dealt(tmp_path / "x.arrow", keys, Ranges(()), 512, 16 * (4 << 10))
    (hot,) = (p for p in found.partitions if p.alike and p.rows)
    assert hot.rows == 2048
    assert hot.bytes > 4 * found.held_bytes
    held = [t.nbytes for n, p in enumerate(found.partitions) if p == hot for t in found._ordered(n)]
    assert max(held) <= 2 * found.held_bytes
    rows = pa.Table.from_batches(found.batches(0, 4096))
    assert rows["row"].to_pylist() == sorted(range(4096), key=lambda row: keys[row])


@given(st.lists(st.lists(st.integers(0, 99), max_size=50), max_size=20), st.integers(1, 9))
def test_ranges_cover_all_keys_once(batches, parts):
    sample = Sample()
    for batch in batches:
        sample.add(pa.array(batch, pa.int64()))
    ranges = sample.ranges(parts)
    assert list(ranges.ends) == sorted(set(ranges.ends))
    for number in range(ranges.parts):
        if ranges.is_of_one(number):
            assert ranges.ends[number - 1] == (ranges.ends[number][0], False)


def test_a_sample_of_many_rows_is_even():
    sample = Sample()
    for start in range(0, 1 << 20, 1000):
        sample.add(pa.array(range(start, min(start + 1000, 1 << 20)), pa.int64()))
    ends = [key for key, _ in sample.ranges(8).ends]
    assert ends == [number << 17 for number in range(1, 8)]


def test_a_sample_of_long_keys_holds_few_of_them(monkeypatch):
    monkeypatch.setattr(ranges_module, "_MOST_BYTES", 10_000)
    sample = Sample()
    for number in range(64):
        sample.add(pa.array([b"%03d" % number + b"x" * 997]))
    assert len(sample._keys) <= 10
    assert [key[:3] for key, _ in sample.ranges(4).ends] == [b"016", b"032", b"048"]


def test_the_first_rows_are_looked_at_where_the_sample_is_too_small():
    batches = [pa.record_batch({"t": [n, n + 1]}) for n in range(0, 40, 2)]
    sample = Sample()
    rows = sample.from_first(iter(batches), "t", 2, 3 * batches[0].nbytes)
    assert [b["t"][0].as_py() for b in rows] == list(range(0, 40, 2))
    assert sample.ranges(2) == Ranges(((3, False),))
    more = sample.from_first(iter(batches), "t", 0, 1 << 20)
    assert len(list(more)) == 20
    assert sample.ranges(2) == Ranges(((3, False),))
