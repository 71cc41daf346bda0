"""What `pip install zql` brings is enough: numpy, pandas and polars need not be there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = ("numpy", "pandas", "polars", "scipy", "sklearn", "tokenizers", "pytest")
FUNCTIONS = """
import pyarrow as pa

def total(k, rows):
    return {"k": k, "n": sum(row["i"] for row in rows)}

def twice(batch: pa.Table) -> pa.Table:
    return batch.append_column("j", batch["i"])

def lists(batch: list[dict]) -> list[dict]:
    return [{"i": row["i"], "w": str(row["i"])} for row in batch]

def has(i: int, words: dict[int, str]) -> str | None:
    return words.get(i)

def words() -> dict[int, str]:
    return {1: "one", 2: "two"}

class Sum:
    def __init__(self): self.n = 0
    def step(self, i: int): self.n += i
    def merge(self, other): self.n += other.n
    def finish(self) -> int: return self.n
"""
SCRIPT = """
IMPORT PYTHON 'udf.py' AS q;
DECLARE w SHARED DEFAULT q.words();
FROM range(5000) AS r (i) |> SELECT i, i % 7 AS k, 'text ' || i AS s |> WRITE 'in.jsonl';
FROM 'in.jsonl' |> WRITE 'in.parquet';
FROM 'in.parquet' |> WRITE 'in.csv.gz';
FROM 'in.csv.gz' |> REDUCE q.total GROUP BY k ORDER BY i RETURNS (k BIGINT, n BIGINT)
|> ORDER BY k |> WRITE 'reduce.jsonl';
FROM 'in.parquet' |> AGGREGATE q.Sum(i) AS n GROUP BY k |> ORDER BY k |> WRITE 'fold.jsonl';
FROM 'in.jsonl' |> MAP BATCHES q.twice |> MAP BATCHES q.lists |> WRITE 'lists.jsonl';
FROM 'in.jsonl' |> SELECT i, q.has(i, $w) AS word |> WHERE word IS NOT NULL |> WRITE 'has.jsonl';
FROM 'in.jsonl' |> WRITE 'folders/' OPTIONS (format = 'parquet', partition_by = [k]);
SET partitions = 4;
FROM 'in.jsonl' |> AGGREGATE median(i) AS m, list(s ORDER BY i) AS l GROUP BY k |> ORDER BY k
|> SELECT k, m, len(l) AS n |> WRITE 'median.jsonl';
FROM 'in.parquet' |> SHUFFLE SEED 3 INTO 3 SHARDS |> WRITE 'mixed/{shard}.parquet';
FROM 'mixed/*.parquet' |> AGGREGATE count(*) AS n, sum(i) AS s |> WRITE 'mixed.jsonl';
FROM 'in.jsonl' |> TABLESAMPLE RESERVOIR (10 ROWS) REPEATABLE (3) |> WRITE 'sample.csv';
FROM 'in.jsonl' |> LIMIT 2;
SUMMARIZE (FROM 'in.jsonl');
"""


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def environment(tmp_path):
    """One in which the other libraries are not there."""
    absent = tmp_path / "absent"
    for name in OTHERS:
        (absent / name).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('no module', name={name!r})"
        (absent / name / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize(
    ("annotation", "library"),
    [("pandas.DataFrame", "pandas"), ("polars.DataFrame", "polars"), ("np.ndarray", "numpy")],
)
def test_what_a_function_asks_for_is_named(tmp_path, environment, annotation, library):
    module = f"""import zql
@zql.udf(batch_size=10)
def listed(x: '{annotation}') -> list[int]: return x
def table(x: '{annotation}') -> list[dict]: return x
"""
    (tmp_path / "udf.py").write_text(module)
    call = "SELECT q.listed(n) AS x" if library == "numpy" else "MAP BATCHES q.table"
    query = f"IMPORT PYTHON 'udf.py' AS q; FROM range(3) AS r (n) |> {call}"
    query += "" if library == "numpy" else " RETURNS (n BIGINT)"
    done = subprocess.run(
        [sys.executable, "-m", "zql", "-c", f"{query} ON ERROR SKIP"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"takes what {library} makes, which cannot be imported" in done.stderr
    assert f"hint: pip install {library}" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="it cannot be removed there")
def test_a_working_folder_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    (tmp_path / "udf.py").write_text("def f(i: int) -> int: return i")
    text = "IMPORT PYTHON 'udf.py' AS q; FROM range(2) AS r (i) |> SELECT q.f(i) AS x"
    (tmp_path / "job.zql").write_text(f"{text} |> WRITE '{tmp_path}/out.jsonl';")
    run = "import os; os.rmdir(os.getcwd()); from zql.__main__ import main; import sys;"
    run += f" sys.argv = ['zql', 'run', '{tmp_path}/job.zql']; main()"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path / "gone", capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "R717 worker processes cannot be started: the working folder is gone" in done.stderr


def test_a_core_install_does_it_all(tmp_path, environment):
    place = tmp_path / "place"
    place.mkdir()
    (place / "udf.py").write_text(FUNCTIONS)
    (place / "job.zql").write_text(SCRIPT)
    command = [sys.executable, "-m", "zql", "run", "job.zql", "--workers", "1", "--format", "jsonl"]
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sums = [sum(range(k, 5000, 7)) for k in range(7)]
    assert rows(place / "reduce.jsonl") == [{"k": k, "n": n} for k, n in enumerate(sums)]
    assert rows(place / "fold.jsonl") == [{"k": k, "n": n} for k, n in enumerate(sums)]
    assert rows(place / "lists.jsonl")[-1] == {"i": 4999, "w": "4999"}
    assert [row["word"] for row in rows(place / "has.jsonl")] == ["one", "two"]
    assert len(list((place / "folders").glob("k=*/*.parquet"))) == 7
    assert [row["n"] for row in rows(place / "median.jsonl")] == [715, 715, *[714] * 5]
    assert rows(place / "mixed.jsonl") == [{"n": 5000, "s": sum(range(5000))}]
    assert len((place / "sample.csv").read_text().splitlines()) == 11
    assert json.loads(done.stdout.splitlines()[0]) == {"i": 0, "k": 0, "s": "text 0"}


def test_files_beside_the_script_are_not_taken_for_libraries(tmp_path):
    for name in ("duckdb", "pyarrow", "joblib", "json", "signal", "threading", "zql"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not the library')")
    (tmp_path / "udf.py").write_text(
        "import os\ndef f(i: int) -> str: return os.environ.get('PYTHONSAFEPATH', 'none')\n"
    )
    text = "IMPORT PYTHON 'udf.py' AS q; FROM range(2) AS r (i) |> SELECT q.f(i) AS x"
    (tmp_path / "job.zql").write_text(f"{text} |> WRITE 'out.jsonl';")
    run = "import sys; sys.path.pop(0); from zql.cli.main import main;"
    run += " sys.argv = ['zql', 'run', 'job.zql', '-q']; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(tmp_path / "out.jsonl") == [{"x": "none"}, {"x": "none"}]
