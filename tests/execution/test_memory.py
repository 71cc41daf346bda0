"""What does not fit into memory: sorts of wide rows, and tasks that are too big."""

import ast
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import zql
from zql.errors import UdfError
from zql.execution import wide_sort

IMPORT = "IMPORT PYTHON 'udf.py' AS q;\n"
ROWS = int(os.environ.get("ZQL_WIDE_ROWS", "25000"))


@pytest.fixture
def wide(place):
    """Rows of 3 KB, of which half have one key, as JSONL, and types that Arrow lacks."""
    place.functions(
        """
        import zlib

        def fold(key, rows):
            count, crc, last = 0, 0, None
            for row in rows:
                crc = zlib.crc32(repr((row["id"], row["big"], row["ok"], row["j"])).encode(), crc)
                crc = zlib.crc32(row["text"].encode(), crc)
                count += 1
            return {"k": key, "n": count, "crc": crc}
        """
    )
    place.run(
        f"FROM range({ROWS}) |> SELECT range AS id, CASE WHEN range % 2 = 0 THEN 7"
        " ELSE (range * 7919) % 997 END AS k,"
        " repeat(md5(range::VARCHAR) || md5((range + 1)::VARCHAR), 48) AS text"
        " |> WRITE 'wide.jsonl'"
    )
    return place


def reduced(place, name, **more):
    text = (
        f"{IMPORT}FROM 'wide.jsonl' |> EXTEND (id * 10000000000000)::HUGEINT AS big,"
        " id % 3 = 0 AS ok, ('[' || id || ']')::JSON AS j"
        " |> REDUCE q.fold GROUP BY k ORDER BY ok DESC, id DESC"
        f" RETURNS (k BIGINT, n BIGINT, crc BIGINT) |> WRITE '{name}'"
    )
    place.shared(2).run(text, **more)
    return place.bytes(name)[name]


def test_a_sort_of_wide_rows_and_a_hot_key_in_little_memory(wide, monkeypatch):
    used = []
    fetched = wide_sort.fetched
    monkeypatch.setattr(wide_sort, "fetched", lambda *a: used.append(a[0]) or fetched(*a))
    plenty = reduced(wide, "plenty.jsonl")
    assert not used
    sparing = {0: zql.Resources(memory="110MB", threads=1)}
    little = reduced(wide, "little.jsonl", stage_resources=sparing)
    assert used, "DuckDB has sorted it: the rows are not wide enough for this test"
    assert little == plenty
    hot = max(wide.read("little.jsonl"), key=lambda row: row["n"])
    assert hot["k"] == 7
    assert hot["n"] >= ROWS // 2


# ---- states that DuckDB cannot write to disk ---------------------------------------------------

MANY = int(os.environ.get("ZQL_MANY_ROWS", "10000000"))
MEDIANS = r"""
import re, sys
from zql.errors import ZqlError
from zql.session import Session

with Session(workers=2, threads=2, memory_limit="260MB", temp_dir=sys.argv[1]) as session:
    session.set("disabled_rules", sys.argv[3:])
    query = session.query(f'''
        FROM range({sys.argv[2]}) AS r (i)
        |> SELECT (i * 7919) % 1000003 AS k, i % 1000 AS x
        |> AGGREGATE median(x) AS m, count(*) AS n GROUP BY k
        |> AGGREGATE count(*) AS g, sum(n) AS n, max(m) AS most, sum(m) AS total
    ''')
    try:
        (row,) = query.to_arrow().to_pylist()
    except ZqlError as error:
        row = error.message
# What `getrusage` tells begins with the memory of the process that started this one.
found = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())
print(row, int(found[1]) >> 10, sep="|")
"""


def medians(folder, rows, *off):
    """What a median by a million keys gives under 260 MB, and the peak of memory in MiB."""
    command = (sys.executable, "-c", MEDIANS, str(folder), str(rows), *off)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
    row, peak = done.stdout.rstrip().split("|")
    return row, int(peak)


def test_a_median_by_a_million_keys(tmp_path):
    row, peak = medians(tmp_path, MANY)
    x = np.arange(MANY) % 1000
    keys = np.arange(MANY) * 7919 % 1000003
    order = np.lexsort((x, keys))
    starts = np.searchsorted(keys[order], np.arange(1000003))
    ends = np.append(starts[1:], MANY)
    low, high = x[order][(starts + ends - 1) // 2], x[order][(starts + ends) // 2]
    expected = (low + high) / 2
    most, total = float(expected.max()), float(expected.sum())
    found = ast.literal_eval(re.sub(r"Decimal\('(.*?)'\)", r"\1", row))
    assert found == {"g": 1000003, "n": MANY, "most": most, "total": total}
    assert peak < 340


def test_a_third_of_it_in_one_statement_fails(tmp_path):
    row, _ = medians(tmp_path, MANY // 3, "partition_aggregates")
    assert "failed to allocate" in row


# ---- tasks in halves ---------------------------------------------------------------------------


@pytest.fixture
def limited(place):
    """A function that takes no more values at a time than a file says."""
    place.rows("in.jsonl", [{"id": i, "k": i // 40} for i in range(400)])
    place.functions(
        """
        import os
        import zql

        @zql.udf(batch_size=100_000)
        def few(ids: list[int]) -> list[int]:
            with open("tries", "a") as file:
                file.write(f"{len(ids)}\\n")
            if len(ids) > int(open("most").read()):
                raise MemoryError
            return [-i for i in ids]

        def groups(key, rows):
            ids = [row["x"] for row in rows]
            return {"k": key, "ids": ids}

        def greedy(key, rows):
            ids = [row["id"] for row in rows]
            with open("groups", "a") as file:
                file.write(f"{key} ")
            if key == 5 and not os.path.exists("once"):
                open("once", "w").close()
                raise MemoryError
            return {"k": key, "ids": ids}
        """
    )

    def most(number):
        (place.folder / "most").write_text(str(number))

    place.most = most
    return place


WRITES = {
    "jsonl": "WRITE '{}/out.jsonl'",
    "packed": "WRITE '{}/{{shard}}.jsonl.gz'",
    "parquet": "WRITE '{}/{{shard}}.parquet'",
    "kept": "ORDER BY x |> WRITE '{}/out.csv'",
    "tasks behind": "REDUCE q.groups GROUP BY k RETURNS (k BIGINT, ids BIGINT[])"
    " |> WRITE '{}/o.jsonl'",
}


@pytest.mark.parametrize("name", WRITES)
def test_a_task_without_enough_memory_is_done_in_halves(limited, name):
    text = f"{IMPORT}FROM 'in.jsonl' |> EXTEND q.few(id) AS x |> {WRITES[name]}"
    found = []
    for number in (1000, 60):
        limited.most(number)
        report = limited.run(text.format(f"most{number}"))
        assert report.counters["records_in"] >= 400
        found.append(limited.bytes(f"most{number}/[!_]*"))
    assert found[0] == found[1]
    assert found[0]
    sizes = [int(line) for line in (limited.folder / "tries").read_text().split()]
    assert sizes[:2] == [400, 400]
    assert sum(size for size in sizes[2:] if size <= 60) == 400


def test_rows_of_parquet_and_of_stages_before_are_halved_too(limited):
    limited.run("FROM 'in.jsonl' |> WRITE 'in.parquet'")
    text = "FROM {} |> EXTEND q.few(id) AS x |> AGGREGATE sum(x) AS s |> WRITE '{}.jsonl'"
    limited.most(60)
    limited.run(IMPORT + text.format("'in.parquet'", "a"))
    limited.run(IMPORT + text.format("(FROM 'in.jsonl' |> ORDER BY k, id)", "b"))
    assert limited.read("a.jsonl") == limited.read("b.jsonl") == [{"s": -sum(range(400))}]


def test_groups_of_a_task_are_done_in_two_tasks(limited):
    text = f"{IMPORT}FROM 'in.jsonl' |> REDUCE q.greedy GROUP BY k RETURNS (k BIGINT, ids BIGINT[])"
    limited.run(f"{text} |> WRITE 'out.jsonl'")
    assert limited.read("out.jsonl") == [
        {"k": k, "ids": list(range(40 * k, 40 * k + 40))} for k in range(10)
    ]
    assert (limited.folder / "groups").read_text() == "0 1 2 3 4 5 0 1 2 3 4 5 6 7 8 9 "


def test_what_does_not_fit_in_any_part_is_told_by_name(limited):
    limited.most(0)
    with pytest.raises(UdfError, match=r"few on rows .* raised MemoryError") as caught:
        limited.run(f"{IMPORT}FROM 'in.jsonl' |> EXTEND q.few(id) AS x |> WRITE 'out.jsonl'")
    assert caught.value.code == "R731"
    assert "it was halved 5 times" in caught.value.notes
    assert caught.value.hint == "raise the memory budget (--memory)", "smaller parts did not help"


def test_what_sees_a_whole_task_is_not_halved(limited):
    limited.functions("def shard(rows):\n    raise MemoryError\n    yield {}\n", "sharding.py")
    text = "IMPORT PYTHON 'sharding.py' AS s; FROM 'in.jsonl'"
    text += " |> MAP SHARDS s.shard RETURNS (a BIGINT)"
    with pytest.raises(UdfError, match="raised MemoryError") as caught:
        limited.run(f"{text} |> WRITE 'out.jsonl'")
    assert not any("halved" in note for note in caught.value.notes)


# ---- whose memory it is ------------------------------------------------------------------------

HELD = r"""
import sys, time
from zql.session import Session

mine = bytearray(b"1") * (900 << 20)
with Session(workers=2, memory_limit="600MB", temp_dir=sys.argv[1]) as session:
    report = session.run('''
        CREATE TEMP FUNCTION slow(i INT64) RETURNS INT64 LANGUAGE python AS $$
        import time
        def slow(i):
            time.sleep(0.3)
            return i
        $$;
        FROM range(4) AS r (i) |> SELECT slow(i) AS i |> WRITE 'held.jsonl';
    ''')
print(report.counters["records_written"], report.counters.get("retries", 0))
"""


def test_what_the_process_held_before_is_not_of_the_run(tmp_path):
    command = (sys.executable, "-c", HELD, str(tmp_path))
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    assert done.stdout.split() == ["4", "0"]
