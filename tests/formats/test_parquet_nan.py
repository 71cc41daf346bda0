"""NaN in Parquet files: it is found again, whatever the bounds of columns say of numbers."""

import math

import pyarrow.parquet as pq
import pytest
from zql.session import Session


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with Session(temp_dir=str(tmp_path_factory.mktemp("temp")), workers=1) as session:
        yield session


ROWS = (
    "FROM range(6) AS r (n) |> SELECT n, CASE WHEN n % 2 = 0 THEN 'nan'::DOUBLE ELSE n END AS v"
    " |> EXTEND v::FLOAT AS f, {x: v, y: n} AS s, [v] AS l, n / 2 AS w"
)
WAYS = {
    "plain": ROWS,
    "shuffled": f"{ROWS} |> SHUFFLE SEED 3",
    "python": "CREATE OR REPLACE TEMP FUNCTION same(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS"
    f" 'def same(x): return x';\n{ROWS} |> SET v = same(v)",
}
CONDITIONS = ["isnan(v)", "v > 100", "v = 'nan'::DOUBLE", "NOT v < 6", "isnan(f)", "isnan(s.x)"]
CONDITIONS += ["v IN ('nan'::DOUBLE, 77)", "isnan(l[1])", "f >= 'nan'::FLOAT"]


@pytest.mark.parametrize("way", WAYS)
def test_rows_with_nan_are_found(session, tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    session.run(f"{WAYS[way]} |> WRITE 'nan.parquet'")
    session.run(f"{WAYS[way]} |> WRITE 'many/{{shard}}.parquet' OPTIONS (max_rows_per_file = 2)")
    for files in ("nan.parquet", "many/*.parquet"):
        for condition in CONDITIONS:
            found = session.query(f"FROM '{files}' |> WHERE {condition} |> ORDER BY n").to_dicts()
            assert [row["n"] for row in found] == [0, 2, 4], (files, condition)
        text = f"FROM '{files}' |> AGGREGATE count_if(isnan(v)) AS n, max(v) AS most, min(v) AS v"
        (told,) = session.query(text).to_dicts()
        assert (told["n"], math.isnan(told["most"]), told["v"]) == (3, True, 1.0)


def test_columns_without_nan_say_their_bounds(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session.run(f"{ROWS} |> WRITE 'nan.parquet'")
    group = pq.ParquetFile("nan.parquet").metadata.row_group(0)
    columns = (group.column(i) for i in range(group.num_columns))
    told = {each.path_in_schema: each.is_stats_set for each in columns}
    assert told == {
        "n": True, "v": False, "f": False, "s.x": False, "s.y": True, "l.list.element": False,
        "w": True,
    }  # fmt: skip


def test_results_of_the_command_line(tmp_path, monkeypatch):
    from zql.cli.main import call

    monkeypatch.chdir(tmp_path)
    assert call(["-o", "out.parquet", "-c", ROWS]) == 0
    assert call(["-o", "all.parquet", "--format", "parquet", "-c", f"{ROWS} |> WHERE true"]) == 0
    for name in ("out", "all"):
        with Session(workers=1) as session:
            found = session.query(f"FROM '{name}.parquet' |> WHERE isnan(v)").to_dicts()
        assert [row["n"] for row in found] == [0, 2, 4]
