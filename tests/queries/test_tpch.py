"""The 22 queries of TPC-H in pipe syntax beside the same in SQL, which DuckDB runs itself.

`tpch/qNN.zql` and `tpch/qNN.sql` read the same files, made by `tpchgen-cli` at a scale of 0.01. The
parameters are those that the specification gives for validation; where it leaves rows that are
equal in all keys of ORDER BY in any order, there are none at this scale.
"""

from __future__ import annotations

import math
import subprocess
import sysconfig
from pathlib import Path

import duckdb
import pytest
from zql.session import ALL_RULES, Session

QUERIES = Path(__file__).parent / "tpch"
NAMES = [f"q{number:02d}" for number in range(1, 23)]
SCALE = "0.01"
AT_THIS_SCALE = {"q17": ("MED BOX", "SM PACK")}
"""A parameter for which a query finds nothing in so little data, and one for which it does."""


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A folder with the eight tables as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    command = [program, "parquet", "--scale-factor", SCALE, "--output-dir", folder, "--quiet"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def expected(tables):
    """What DuckDB gives for the SQL of a query, by the query's name."""
    connection = duckdb.connect()
    for path in tables.glob("*.parquet"):
        connection.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
    yield lambda name: connection.sql(text(name, "sql")).to_arrow_table()
    connection.close()


def text(name: str, kind: str) -> str:
    return (QUERIES / f"{name}.{kind}").read_text().replace(*AT_THIS_SCALE.get(name, ("", "")))


def test_each_query_is_there_twice():
    found = sorted(path.name for path in QUERIES.iterdir())
    assert found == sorted(f"{name}.{kind}" for name in NAMES for kind in ("sql", "zql"))


@pytest.mark.parametrize("rules", ["all rules", "no rules"])
@pytest.mark.parametrize("name", NAMES)
def test_same_rows_as_sql(name, rules, tables, expected, monkeypatch):
    monkeypatch.chdir(tables)
    with Session() as session:
        session.disabled = frozenset() if rules == "all rules" else ALL_RULES
        found = session.query(text(name, "zql")).to_arrow()
    wanted = expected(name)
    assert found.column_names == wanted.column_names
    assert found.num_rows == wanted.num_rows > 0
    assert not any(column.null_count for column in wanted.columns), "a comparison of nothing"
    for row, (a, b) in enumerate(zip(found.to_pylist(), wanted.to_pylist(), strict=True)):
        for column, value in a.items():
            assert same(value, b[column]), (row, column)


def same(a: object, b: object) -> bool:
    """Equal, floats up to the order in which they were added."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return a == b
