"""What does not fit into memory: sorts of wide rows, and tasks that are too big."""

import os

import pytest
import zql
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
