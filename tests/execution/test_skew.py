"""Joins by keys of every type, and keys that half of all rows have."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from zql.execution.machine import private_memory
from zql.session import Session

ROWS = int(os.environ.get("ZQL_SKEW_ROWS", "400000"))
NAN = float("nan")

KEYS = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, -1, 0, 1, 127],
    "BIGINT": [-(1 << 63), -1, 0, 1, (1 << 63) - 1],
    "UBIGINT": [0, 1, (1 << 64) - 1],
    "HUGEINT": [-(1 << 100), 0, 1 << 100],
    "DOUBLE": [NAN, -0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, 5e-324],
    "FLOAT": [NAN, -0.0, 0.0, 1.5, math.inf],
    "DECIMAL(20,3)": [Decimal("0.000"), Decimal("-1.500"), Decimal("12345678901234567.125")],
    "VARCHAR": ["", "a", "aa", "ab", "b", "ccc", "ä", "a\u0308", "日本", "a" * 300],
    "BLOB": [b"", b"\x00", b"\x00\x01", b"\xff"],
    "DATE": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "TIME": [time(0), time(23, 59, 59, 999999)],
    "TIMESTAMP": [datetime(1969, 12, 31, 23, 59, 59, 1), datetime(2024, 2, 29)],  # noqa: DTZ001
    "TIMESTAMPTZ": [datetime(2024, 2, 29, tzinfo=UTC), datetime(1950, 1, 1, tzinfo=UTC)],
    "INTERVAL": [timedelta(0), timedelta(days=-3, seconds=5)],
    "UUID": [UUID(int=0), UUID(int=(1 << 128) - 1)],
    "BIGINT[]": [[], [1], [1, 2], [None], [2, 1]],
    "STRUCT(a BIGINT, b VARCHAR)": [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": 1, "b": None}],
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with Session(workers=2, temp_dir=str(tmp_path_factory.mktemp("skew"))) as made:
        yield made


def same(a, b):
    """Whether two keys are equal, as SQL has it: NaN is, -0.0 is 0.0, NULL is not."""
    if a is None or b is None:
        return False
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


def sides(session, kind):
    keys = KEYS[kind]
    left = [*keys, None, *keys[:2]]
    right = [*reversed(keys), *keys[:1], None, None]
    for name, values in (("l", left), ("r", right)):
        # As text or numbers, whatever Arrow has no type for.
        rows = [{"i": i, "k": _plain(value, kind)} for i, value in enumerate(values)]
        session.register(name, pa.Table.from_pylist(rows))
    return left, right


def _plain(value, kind):
    as_text = kind in ("BIGINT", "UBIGINT", "HUGEINT", "UUID") and value is not None
    return str(value) if as_text else value


@pytest.mark.parametrize("strategy", ["hash", "merge"])
@pytest.mark.parametrize("kind", KEYS)
def test_joins_by_keys_of_every_type(session, kind, strategy):
    left, right = sides(session, kind)
    typed = f"|> SELECT i, CAST(k AS {kind}) AS k"
    equal = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if same(a, b)]
    for join in ("", "LEFT", "FULL", "SEMI", "ANTI"):
        taken = "a.i" if join in ("SEMI", "ANTI") else "a.i, b.i AS j"
        text = (
            f"FROM (FROM l {typed}) AS a |> {join} JOIN @{{strategy = {strategy}}}"
            f" (FROM r {typed}) AS b ON a.k = b.k |> SELECT {taken}"
        )
        found = sorted(map(_ordered, (tuple(r.values()) for r in session.query(text).to_dicts())))
        assert found == sorted(map(_ordered, _joined(join, equal, len(left), len(right)))), join


def _ordered(row):
    return tuple(-1 if value is None else value for value in row)


def _joined(join, equal, lefts, rights):
    met, seen = {i for i, _ in equal}, {j for _, j in equal}
    if join in ("SEMI", "ANTI"):
        return [(i,) for i in range(lefts) if (i in met) is (join == "SEMI")]
    alone = [(i, None) for i in range(lefts) if i not in met] if join else []
    beside = [(None, j) for j in range(rights) if j not in seen] if join == "FULL" else []
    return [*equal, *alone, *beside]


@pytest.mark.parametrize("empty", ["l", "r", "both"])
def test_empty_sides(session, empty):
    for name in "lr":
        rows = 0 if empty in (name, "both") else 3
        session.register(name, pa.table({"k": pa.array(range(rows), pa.int64())}))
    left, right = (0 if empty in (name, "both") else 3 for name in "lr")
    for join, rows in (("", 0), ("LEFT", left), ("FULL", left + right), ("ANTI", left)):
        text = f"FROM l AS a |> {join} JOIN r AS b ON a.k = b.k |> AGGREGATE count(*) AS n"
        assert session.query(text).first() == {"n": rows}, join


# ---- skew --------------------------------------------------------------------------------------


class Peak:
    """The most memory that this process has had to itself, above what it had at first."""

    def __enter__(self):
        self.before = self.most = private_memory(os.getpid())
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self):
        while not self._done.wait(0.02):
            self.most = max(self.most, private_memory(os.getpid()))

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    @property
    def grown(self):
        return self.most - self.before


def test_a_join_by_a_key_that_half_of_all_rows_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = 256 << 20
    with Session(memory_limit=memory, threads=2, temp_dir=str(tmp_path)) as session:
        session.run(
            f"FROM range({ROWS}) |> SELECT range AS id, CASE WHEN range % 2 = 0 THEN 0"
            " ELSE range END AS k, md5(range::VARCHAR) AS text |> WRITE 'facts.parquet';"
            f"FROM range(0, {ROWS}, 100) |> SELECT range AS k, repeat('x', 200) AS name"
            " |> WRITE 'dims.parquet'"
        )
        with Peak() as peak:
            session.run(
                "FROM 'facts.parquet' AS f |> JOIN 'dims.parquet' AS d ON f.k = d.k"
                " |> SELECT f.id, f.k, text, name |> WRITE 'out.parquet'"
            )
        counts = "AGGREGATE count(*) AS n, count(DISTINCT id) AS ids, max(k) AS k"
        found = session.query(f"FROM 'out.parquet' |> {counts}").first()
    assert found == {"n": ROWS // 2, "ids": ROWS // 2, "k": 0}
    assert peak.grown < memory * 5 // 4


def test_a_reduce_of_a_key_that_half_of_all_rows_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "udf.py").write_text(
        "def total(key, rows):\n"
        "    n = last = 0\n"
        "    for row in rows:\n"
        "        assert row['id'] >= last\n"
        "        n, last = n + 1, row['id']\n"
        "    return {'k': key, 'n': n}\n"
    )
    rows = ROWS // 4
    # In a process of its own: what this one holds would count.
    code = f"""
import json, zql
with zql.Session(memory_limit=512 << 20, workers=2, temp_dir='.') as session:
    session.run(
        "FROM range({rows}) |> SELECT range AS id, CASE WHEN range % 2 = 0 THEN 7"
        " ELSE range % 1000 END AS k, repeat(md5(range::VARCHAR), 10) AS text"
        " |> WRITE 'facts.parquet'"
    )
    report = session.run(
        "IMPORT PYTHON 'udf.py' AS q; FROM 'facts.parquet'"
        " |> REDUCE q.total GROUP BY k ORDER BY id RETURNS (k BIGINT, n BIGINT)"
        " |> WRITE 'out.parquet'"
    )
    hot = session.query("FROM 'out.parquet' |> WHERE k = 7").first()
    every = session.query("FROM 'out.parquet' |> AGGREGATE sum(n) AS n").first()
print(json.dumps([hot["n"], every, report.counters["retries"]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hot, every, retries = json.loads(done.stdout)
    assert hot >= rows // 2
    assert every == {"n": rows}
    assert retries == 0, "no worker was ended for its memory"
