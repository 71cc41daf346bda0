"""Statements that read rows which other statements of the same process are still making."""

import json
import subprocess
import sys
import textwrap

import pytest

FUNCTIONS = """
def plus(x: int) -> int:
    return x + 1

def even(x: int) -> bool:
    return x % 2 == 0

class Total:
    def __init__(self):
        self.n = 0
    def step(self, x: int):
        self.n += x
    def finish(self) -> int:
        return self.n

class Parts(Total):
    def merge(self, other):
        self.n += other.n
"""


def ran(folder, query: str) -> list[dict]:
    """What a query gives in a process of its own: one that waits for itself never ends."""
    (folder / "udf.py").write_text(FUNCTIONS)
    rows = "".join(json.dumps({"x": i, "g": i % 3}) + "\n" for i in range(300))
    (folder / "in.jsonl").write_text(rows)
    code = f"""
        import json
        import zql

        if __name__ == "__main__":
            with zql.Session(workers=1) as session:
                session.set("batch_rows", 10)
                session.run("IMPORT PYTHON 'udf.py' AS u; FROM 'in.jsonl' {query}")
                print(json.dumps(session.query("FROM 'out.*'").to_dicts()))
    """
    (folder / "run.py").write_text(textwrap.dedent(code))
    command = [sys.executable, "run.py"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["Total", "Parts"])
def test_groups_are_sorted_while_their_keys_are_made(tmp_path, kind):
    query = f"|> AGGREGATE u.{kind}(x) AS n GROUP BY u.plus(g) AS k |> WRITE 'out.jsonl'"
    assert ran(tmp_path, query) == [{"k": k + 1, "n": sum(range(k, 300, 3))} for k in range(3)]


def test_types_that_go_as_text_while_groups_are_sorted(tmp_path):
    query = (
        "|> AGGREGATE u.Parts(x) AS n GROUP BY u.even((x * 2)::HUGEINT) AS e |> WRITE 'out.jsonl'"
    )
    assert ran(tmp_path, query) == [{"e": True, "n": sum(range(300))}]


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl.zst", "out.csv.gz", "out.jsonl"])
def test_a_writer_of_batches_waits_for_rows_that_a_filter_lets_through(tmp_path, name):
    query = (
        "|> EXTEND u.plus(x) AS y |> SET y = y * 2 |> EXTEND u.plus(y) AS z"
        f" |> WHERE z > 591 |> WRITE '{name}'"
    )
    found = ran(tmp_path, query)
    assert [(row["x"], row["y"], row["z"]) for row in found] == [
        (x, 2 * (x + 1), 2 * x + 3) for x in range(295, 300)
    ]
