"""The small parts that runs are made of."""

import os
import signal
import threading
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.errors import Interrupted
from zql.execution import kept
from zql.execution.carry import carried, with_place
from zql.execution.fingerprint import fingerprint
from zql.execution.kinds import parse
from zql.execution.native import concurrently
from zql.execution.observed import NoType, kind_of_all, settled
from zql.expr.expression import Binary, Call, Column, Literal
from zql.expr.functions import PythonFunction
from zql.logical.plan import Aggregate, Assign, BatchInput, Filter, Project, Scan, ScanColumn
from zql.schema import InputFile

A = Column("a", "BIGINT")
ROW, FILE = Column("row", "BIGINT"), Column("file", "VARCHAR")


def scan(version="1"):
    return Scan("t", "jsonl", (InputFile("a.jsonl", 3, version),), (ScanColumn(A, "a"),))


# ---- kept rows -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 12))
def test_rechunking_keeps_rows_and_order(sizes, rows):
    start, batches = 0, []
    for size in sizes:
        batches.append(pa.record_batch({"a": pa.array(range(start, start + size), pa.int64())}))
        start += size
    found = list(kept.rechunked(batches, rows))
    assert [v for b in found for v in b.column("a").to_pylist()] == list(range(start))
    assert all(b.num_rows == rows for b in found[:-1])
    assert all(0 < b.num_rows <= rows for b in found)


def test_kept_files_come_back_in_parts_that_cover_each_row_once(tmp_path):
    batches = [pa.record_batch({"a": pa.array(range(i * 100, i * 100 + 100))}) for i in range(50)]
    files = kept.write_all(batches, str(tmp_path), 64, 8000)
    assert len(files) > 1
    assert kept.table(files)["a"].to_pylist() == list(range(5000))
    for target in (100, 3000, 10**9):
        parts = kept.parts(files, target, 64)
        rows = [v for part in parts for v in kept.part_table(part)["a"].to_pylist()]
        assert rows == list(range(5000))


def test_no_rows_are_no_table(tmp_path):
    assert kept.write_all([], str(tmp_path), 64, 8000) == []
    assert kept.table([]) is None
    assert kept.table([kept.KeptFile("", 0, 0)]) is None


# ---- types that values have --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, None, 2], "BIGINT"),
        ([1, 2**64], "HUGEINT"),
        ([1, 2.5], "DOUBLE"),
        ([None], "VARCHAR"),
        ([[], None], "VARCHAR[]"),
        ([[1], [2.5], []], "DOUBLE[]"),
        ([{"a": 1}, {"b": "x"}, None], "STRUCT(a BIGINT, b VARCHAR)"),
        ([{"a": None}, {"a": {"b": [True]}}], "STRUCT(a STRUCT(b BOOLEAN[]))"),
        ([{1: "x"}], "MAP(BIGINT, VARCHAR)"),
        ([b"x"], "BLOB"),
        ([True, None], "BOOLEAN"),
    ],
)
def test_the_narrowest_type_of_values(values, type_):
    assert settled(kind_of_all(values)) == parse(type_)


@pytest.mark.parametrize("values", [[1, "a"], [True, 1], [{1, 2}], [object()], [2**200], [[1], 1]])
def test_values_without_a_type_in_common(values):
    with pytest.raises(NoType):
        kind_of_all(values)


# ---- plans -----------------------------------------------------------------------------------


def test_a_column_is_carried_through_row_wise_operators():
    plan = Project(Filter(BatchInput((A,)), A), (Assign(A, A),))
    found = carried(plan, ROW)
    assert found.columns == (A, ROW)
    assert found.input.columns == (A, ROW)
    assert carried(Aggregate(BatchInput((A,)), (), ()), ROW) is None


def test_a_place_is_carried_from_the_scan():
    found = with_place(Filter(scan(), A), ROW, FILE)
    assert found.columns == (A, ROW, FILE)
    assert [c.kind for c in found.input.columns_read] == ["data", "row", "filename"]
    assert with_place(Aggregate(scan(), (), ()), ROW, FILE) is None


def test_no_place_behind_what_gives_other_rows_each_time():
    volatile = Binary("<", Call(("random",), (), volatile=True), Literal(1))
    assert with_place(Filter(scan(), volatile), ROW, FILE) is None


def test_a_fingerprint_knows_inputs_functions_and_constants():
    def plan(version="1", digest="d", value=1, path="p"):
        function = PythonFunction("f", "f", path=path, digest=digest)
        return Filter(scan(version), Binary("=", Literal(value), function))

    same = fingerprint(plan(), "2.0")
    assert fingerprint(plan(path="elsewhere"), "2.0") == same
    others = [plan(version="2"), plan(digest="e"), plan(value=2), plan(value=True)]
    assert len({same, *(fingerprint(p, "2.0") for p in others), fingerprint(plan(), "3")}) == 6


# ---- several at a time -----------------------------------------------------------------------


def test_results_come_in_the_order_of_the_calls():
    calls = [lambda n=n: (time.sleep(0.01 * (5 - n)), n)[1] for n in range(5)]
    assert concurrently(calls, 3, lambda: None) == [0, 1, 2, 3, 4]
    assert concurrently([], 3, lambda: None) == []


def test_the_first_error_stops_the_others():
    stopped = threading.Event()

    def wait():
        if not stopped.wait(10):
            raise AssertionError

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        concurrently([wait, fail, fail, fail], 2, stopped.set)


def test_ctrl_c_stops_them_all():
    stopped = threading.Event()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted):
        concurrently([lambda: stopped.wait(10)] * 2, 2, stopped.set)
