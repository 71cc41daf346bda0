"""REDUCE: one call for each key, with its rows whole and in order, however it is run."""

import itertools
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.execution import kept
from zql.session import Session

FUNCTIONS = """
    from collections.abc import Iterator
    from typing import TypedDict


    class Found(TypedDict):
        k: int | None
        total: int | None
        values: list[int | None]


    def collect(key, rows: Iterator[dict]) -> Found:
        values = [row["v"] for row in rows]
        known = [v for v in values if v is not None]
        return {"k": key, "total": sum(known) if known else None, "values": values}


    class Total(TypedDict):
        k: int | None
        total: int | None


    def total(key, rows) -> Total:
        known = [row["v"] for row in rows if row["v"] is not None]
        return {"k": key, "total": sum(known) if known else None}


    def part(key, rows):
        return {"v": total(key, rows)["total"]}


    class Size(TypedDict):
        k: int | None
        rows: int
        chars: int
        ordered: bool


    def size(key, rows) -> Size:
        count = chars = 0
        last = None
        ordered = True
        for row in rows:
            count += 1
            chars += len(row["text"])
            ordered = ordered and (last is None or last < row["id"])
            last = row["id"]
        return {"k": key, "rows": count, "chars": chars, "ordered": ordered}
"""

VALUES = st.one_of(st.none(), st.integers(-3, 3))
TABLES = st.lists(st.tuples(VALUES, VALUES), max_size=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import textwrap

    path = tmp_path_factory.mktemp("reduce")
    (path / "udf.py").write_text(textwrap.dedent(FUNCTIONS))
    return path


@pytest.fixture(scope="module", params=[1, 2, 4])
def session(request, folder):
    """Files of groups as small as can be, so that there are many tasks, in workers."""
    with Session(workers=request.param) as session:
        session.settings = replace(session.settings, inline_bytes=0, split_size=64)
        session.run("FROM range(1) |> FINISH")  # sets the limit of recursion, which is watched
        yield session


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=TABLES)
def test_it_gives_what_aggregate_gives(rows, session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = "".join(json.dumps({"k": k, "v": v, "i": i}) + "\n" for i, (k, v) in enumerate(rows))
    (folder / "in.jsonl").write_text(text or '{"k":0,"v":0,"i":0}\n')
    start = "IMPORT PYTHON 'udf.py' AS q; FROM read_json('in.jsonl', columns => "
    start += "{k: 'BIGINT', v: 'BIGINT', i: 'BIGINT'})"

    def answer(pipe):
        return session.query(f"{start} |> {pipe}").to_dicts()

    grouped = 'AGGREGATE sum(v)::BIGINT AS total, list(v ORDER BY i DESC) AS "values" GROUP BY k'
    assert answer("REDUCE q.collect GROUP BY k ORDER BY i DESC") == answer(
        f"{grouped} |> ORDER BY k NULLS LAST"
    )
    assert answer('REDUCE q.collect |> SELECT total, "values"') == answer(
        'AGGREGATE sum(v)::BIGINT AS total, list(v ORDER BY i) AS "values"'
    )
    sums = answer("AGGREGATE sum(v)::BIGINT AS total GROUP BY k |> ORDER BY k NULLS LAST")
    assert answer("SELECT k, v |> REDUCE q.total GROUP BY k COMBINE q.part") == sums


ROWS = int(os.environ.get("ZQL_GROUP_ROWS", "600_000"))
"""Rows of the big group's test; `make soak` takes over five million."""


def test_a_group_bigger_than_memory_streams(place):
    """A budget in which a worker could not hold the rows of the key as dicts.

    In a process of its own: the budget is for all of a run, and that of the tests is large by now.
    """
    place.functions(FUNCTIONS)
    (place.folder / "job.zql").write_text(
        "IMPORT PYTHON 'udf.py' AS q;"
        f"FROM range({ROWS}) AS r (id)"
        "|> SELECT id, if(id % 50 = 0, id, 7) AS k, repeat('x', 200) AS text"
        "|> REDUCE q.size GROUP BY k ORDER BY id |> WRITE 'out.jsonl'"
    )
    command = [sys.executable, "-m", "zql", "run", "job.zql", "-q", "--workers", "1"]
    command += ["--memory", "500MB", "--set", f"temp_dir={place.temp}"]
    with open(place.folder / "errors", "w+") as errors:
        process = subprocess.Popen(command, cwd=place.folder, stderr=errors)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.05)
        errors.seek(0)
        assert process.returncode == 0, errors.read()
    found = {row["k"]: row for row in place.read("out.jsonl")}
    big = ROWS - -(-ROWS // 50)
    assert len(found) == ROWS - big + 1
    assert found[7] == {"k": 7, "rows": big, "chars": big * 200, "ordered": True}
    assert found[50]["rows"] == 1
    print(f"peak of all processes: {peak / 1e6:.0f} MB")
    assert peak < 1.2 * 500e6


def resident(pid: int) -> int:
    """Bytes in memory of a process and those that it started; shared pages count once."""
    total = 0
    for entry in (str(pid), *children_of(pid)):
        with suppress(OSError), open(f"/proc/{entry}/smaps_rollup") as file:
            lines = dict(line.split(":", 1) for line in file.readlines()[1:])
            total += int(lines["Pss"].split()[0]) * 1024
    return total


def children_of(pid: int) -> list[str]:
    with suppress(OSError):
        found = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += file.read().split()
        return found + [below for child in found for below in children_of(int(child))]
    return []


def test_the_bytes_do_not_depend_on_the_workers(place):
    place.functions(FUNCTIONS)
    place.rows("in.jsonl", [{"k": i * i % 13, "v": i} for i in range(500)])
    outputs = []
    for workers in (1, 2):
        place.run(
            f"IMPORT PYTHON 'udf.py' AS q; SET split_size = 2000; FROM 'in.jsonl' "
            f"|> REDUCE q.collect GROUP BY k |> WRITE 'o{workers}/' OPTIONS (format = 'jsonl')",
            workers,
        )
        outputs.append(place.bytes(f"o{workers}/part-*"))
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 1
    keys = [row["k"] for row in place.read("o1/*.jsonl")]
    assert keys == sorted({i * i % 13 for i in range(500)})


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 9), max_size=12),
    batch_rows=st.integers(1, 7),
    file_bytes=st.integers(1, 300),
)
def test_groups_are_never_torn_apart(sizes, batch_rows, file_bytes, tmp_path_factory):
    starts = [int(place == 0) for size in sizes for place in range(size)]
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    schema = pa.schema([("g", pa.int64()), ("starts", pa.int8())])
    rows = pa.record_batch([pa.array(group, pa.int64()), pa.array(starts, pa.int8())], schema)
    folder = str(tmp_path_factory.mktemp("groups"))
    files = kept.write_groups([rows], schema, folder, "starts", batch_rows, lambda _: file_bytes)
    parts = [kept.part_table(kept.Part(f, 0, f.rows)).column("g").to_pylist() for f in files]
    assert list(itertools.chain.from_iterable(parts)) == group
    assert sum(len(set(part)) for part in parts) == len(sizes)
    whole = kept.write_groups([rows], schema, folder, "", batch_rows, lambda _: file_bytes)
    assert [file.rows for file in whole] == [len(group)]


def test_values_of_all_types_are_those_that_map_hands_over(place):
    """They come out of files that another stage left, and not from DuckDB."""
    place.functions(
        """
        def of_group(key, rows):
            for row in rows:
                yield {"shown": repr(row)}
        def of_row(row):
            return {"shown": repr(row)}
        """
    )
    rows = """
        FROM range(3) AS t(i)
        |> SELECT i, i::HUGEINT * 170141183460469231731687303715884105 AS h,
             '00000000-0000-0000-0000-00000000000a'::UUID AS u, '0101'::BIT AS b, 'x'::BLOB AS bl,
             'a'::ENUM('a', 'b') AS e, '{"x":1}'::JSON AS j, INTERVAL 3 DAY AS iv,
             '12:00:00+01'::TIMETZ AS tz, '2024-01-01 00:00:00+00'::TIMESTAMPTZ AS ts,
             '2024-01-01 00:00:00.000001'::TIMESTAMP_NS AS ns, DATE '2024-01-01' AS d,
             1.5::DECIMAL(38, 3) AS dec, [1, NULL]::HUGEINT[] AS l, [1, 2, 3]::INTEGER[3] AS a,
             {'a': 1::UHUGEINT, 'e': 'b'::ENUM('a', 'b')} AS s, MAP {'k': 1} AS m
    """
    start = f"IMPORT PYTHON 'udf.py' AS u; {rows}"
    with place.session(1) as session:
        mapped = session.query(f"{start} |> MAP u.of_row").to_dicts()
        reduced = session.query(f"{start} |> REDUCE u.of_group GROUP BY i, e, h").to_dicts()
    assert reduced == mapped
