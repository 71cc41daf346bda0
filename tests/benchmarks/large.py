"""Data that is larger than the memory a run may use, and how time grows with data.

usage: large.py [NAME ...]      (all when none is named)

growth    JSON lines of 1, 2, 4 and 8 GB filtered and projected, beside half the data
shuffle   the rows of `shuf`, four times over (about 6 GB), in random order under a budget of 1 GiB
sort      the same rows by their URLs, each of which stands there four times
groups    60 million groups of 60 million rows under 1 GiB
median    the medians of 60 million rows by 6 million keys under 1 GiB
hot       a reducer of five million rows, half of them of one key, under 500 MB

BENCH_ROOT is the folder with the data (see `compare.py`). Files are linked, not copied. Memory is
the highest proportional set size of the process and its children together, seen every 50 ms: pages
that several share count once. What comes out is counted and, where it can be, summed up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from compare import DATA, ROOT, below

FOLDER = ROOT / "large"
GIB = 1 << 30
ROWS = 60_000_000
KEYS = 6_000_000
HOT = 5_000_000


def zql(script: str, *options: str) -> tuple[float, float, int]:
    """Runs a script: seconds, seconds of processors, and peak memory in bytes."""
    path = FOLDER / "script.zql"
    path.write_text(textwrap.dedent(script))
    began = time.perf_counter()
    command = (sys.executable, "-m", "zql", "run", str(path), "-q", *options)
    process = subprocess.Popen(command, cwd=FOLDER)
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, sum(map(_proportional, below(process.pid))))
        time.sleep(0.05)
    if status:
        raise SystemExit(f"the script failed: {path}")
    process.returncode = 0
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, peak


def _proportional(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(s.split()[1]) << 10 for s in text.splitlines() if s.startswith("Pss:")), 0)


def links(name: str, source: str, times: int) -> Path:
    """A folder with the files of another, several times over."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(times):
        for path in sorted((DATA / source).iterdir()):
            link = folder / f"{number}-{path.name}"
            if path.is_file() and not link.exists():
                os.link(path, link)
    return folder


def answer(query: str) -> str:
    """A line that says what came out."""
    command = (sys.executable, "-m", "zql", "-c", query, "--format", "csv")
    done = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True)
    return ", ".join(done.stdout.splitlines()[1:])


def told(name: str, seconds: float, cpu: float, peak: int, more: str) -> None:
    print(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak >> 20} | {more} |", flush=True)


def growth() -> None:
    before = 0.0
    for gigabytes in (1, 2, 4, 8):
        folder = links(f"jsonl{gigabytes}", "docs_jsonl", gigabytes)
        size = sum(path.stat().st_size for path in folder.iterdir())
        seconds, cpu, peak = zql(
            f"""
            FROM '{folder.name}/*.jsonl' |> WHERE score > 0.5 AND lang = 'en'
            |> SELECT id, lower(title) AS title
            |> WRITE 'out/part-{{shard}}.jsonl' OPTIONS (mode = 'overwrite');
            """
        )
        ratio = f"{seconds / before:.2f} of half the data" if before else ""
        told(f"growth, {size / 1e9:.1f} GB", seconds, cpu, peak, ratio)
        before = seconds


def shuffle() -> None:
    folder = links("shuf4", "shuf", 4)
    size = sum(path.stat().st_size for path in folder.iterdir())
    figures = zql(
        f"""
        FROM '{folder.name}/*.parquet' |> SHUFFLE SEED 7
        |> WRITE 'out/part-{{shard}}.parquet' OPTIONS (mode = 'overwrite');
        """,
        "--memory",
        "1GiB",
    )
    same = answer("FROM 'out/*.parquet' |> AGGREGATE count(*) AS n") == answer(
        f"FROM '{folder.name}/*.parquet' |> AGGREGATE count(*) AS n"
    )
    told(f"shuffle, {size / 1e9:.1f} GB", *figures, "all rows" if same else "ROWS ARE MISSING")


def sort() -> None:
    folder = links("shuf4", "shuf", 4)
    size = sum(path.stat().st_size for path in folder.iterdir())
    figures = zql(
        f"""
        FROM '{folder.name}/*.parquet' |> ORDER BY url
        |> WRITE 'out/part-{{shard:05d}}.parquet' OPTIONS (mode = 'overwrite', shards = 100);
        """,
        "--memory",
        "1GiB",
    )
    found = answer(
        "FROM 'out/*.parquet' |> EXTEND lag(url) OVER () AS before"
        " |> AGGREGATE count(*) AS n, count_if(url < before) AS wrong"
    )
    rows = answer(f"FROM '{folder.name}/*.parquet' |> AGGREGATE count(*) AS n")
    right = found == f"{rows},0"
    told(f"sort, {size / 1e9:.1f} GB", *figures, "right" if right else f"WRONG: {found}")


def groups() -> None:
    figures = zql(
        f"""
        FROM range({ROWS}) AS r (i) |> SELECT (i * 7919) % {ROWS} AS k, i
        |> AGGREGATE count(*) AS n, sum(i) AS total GROUP BY k
        |> WRITE 'out/groups.parquet' OPTIONS (mode = 'overwrite');
        """,
        "--memory",
        "1GiB",
    )
    found = answer("FROM 'out/groups.parquet' |> AGGREGATE count(*) AS n, sum(total) AS total")
    right = f"{ROWS},{ROWS * (ROWS - 1) // 2}"
    told("groups, 60 million", *figures, "right" if found == right else f"WRONG: {found}")


def median() -> None:
    figures = zql(
        f"""
        FROM range({ROWS}) AS r (i) |> SELECT (i * 7919) % {KEYS} AS k, i
        |> AGGREGATE median(i) AS middle, count(*) AS n GROUP BY k
        |> WRITE 'out/medians.parquet' OPTIONS (mode = 'overwrite');
        """,
        "--memory",
        "1GiB",
    )
    found = answer(
        "FROM 'out/medians.parquet' |> AGGREGATE count(*) AS n, sum(n) AS total,"
        " sum(middle::HUGEINT) AS middle"
    )
    # Those of a key are as far apart as there are keys.
    middle = KEYS * (KEYS - 1) // 2 + KEYS * KEYS * (ROWS // KEYS - 1) // 2
    right = f"{KEYS},{ROWS},{middle}"
    told("median, 60 million", *figures, "right" if found == right else f"WRONG: {found}")


def hot() -> None:
    (FOLDER / "hot.py").write_text(
        "def total(key: int, rows) -> dict:\n"
        "    n = length = 0\n"
        "    for text in rows:\n"
        "        n, length = n + 1, length + len(text)\n"
        "    return {'key': key, 'n': n, 'length': length}\n"
    )
    figures = zql(
        f"""
        IMPORT PYTHON 'hot.py' AS h;
        FROM range({HOT}) AS r (i)
        |> SELECT CASE WHEN i % 2 = 0 THEN -1 ELSE i % 1000 END AS key, repeat('x', 200) AS text
        |> REDUCE h.total(text) GROUP BY key
        |> WRITE 'out/hot.parquet' OPTIONS (mode = 'overwrite');
        """,
        "--memory",
        "500MB",
    )
    found = answer("FROM 'out/hot.parquet' |> AGGREGATE sum(n) AS n, max(n) AS most")
    right = f"{HOT},{HOT // 2}"
    told("hot, 5 million", *figures, "right" if found == right else f"WRONG: {found}")


def main() -> None:
    known: dict[str, Callable[[], None]] = {
        "growth": growth,
        "shuffle": shuffle,
        "sort": sort,
        "groups": groups,
        "median": median,
        "hot": hot,
    }
    names = sys.argv[1:] or list(known)
    if not set(names) <= known.keys() or not (DATA / "docs_jsonl").is_dir():
        raise SystemExit(__doc__)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print("| what | seconds | CPU s | peak MiB | |\n| --- | --- | --- | --- | --- |")
    for name in names:
        known[name]()
        shutil.rmtree(FOLDER / "out", ignore_errors=True)
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main()
