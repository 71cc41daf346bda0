"""The 22 queries of TPC-H at scale 1: ZQL through its Python API beside SQL in DuckDB.

usage: tpch.py [--runs N] [--quiet SECONDS]        compares
       tpch.py {zql|duckdb} DATA OUT [--rows]      one side: all queries once, in one process

A side runs tests/queries/tpch one after the other, takes each result as an Arrow table, and leaves
the seconds of each query in OUT/seconds.json; `--rows` leaves the rows too, for the first run of
each side, which does not count. Processes take turns as in compare.py, which says what BENCH_ROOT
is; the tables are in its folder `data/tpch1`, made by `tpchgen-cli parquet -s 1`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUERIES = Path(__file__).resolve().parents[1] / "queries" / "tpch"
NAMES = [f"q{number:02d}" for number in range(1, 23)]
TARGET = 1.1


# ---- one side ----------------------------------------------------------------------------------


def one_side(kind: str, data: str, out: str, *, rows: bool) -> None:
    """Runs all queries; `data` is the folder of the tables."""
    os.chdir(data)
    run = {"zql": zql_tables, "duckdb": duckdb_tables}[kind]()
    seconds, results = {}, {}
    for name in NAMES:
        text = (QUERIES / f"{name}.{'zql' if kind == 'zql' else 'sql'}").read_text()
        started = time.perf_counter()
        table = run(text)
        seconds[name] = time.perf_counter() - started
        if rows:
            results[name] = [[shown(v) for v in row.values()] for row in table.to_pylist()]
    Path(out, "seconds.json").write_text(json.dumps(seconds))
    if rows:
        Path(out, "rows.json").write_text(json.dumps(results))


def zql_tables() -> Callable[[str], Any]:
    from zql import Session

    session = Session()
    return lambda text: session.query(text).to_arrow()


def duckdb_tables() -> Callable[[str], Any]:
    import duckdb

    connection = duckdb.connect()
    for path in Path().glob("*.parquet"):
        connection.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
    return lambda text: connection.sql(text).to_arrow_table()


def shown(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


# ---- both --------------------------------------------------------------------------------------


def compared(runs: int, wait: float) -> None:
    """Prints the seconds of both sides for each query, for all, and for the processes."""
    from compare import CALM, CALM_PAIRS, DATA, OUT, Figure, Side, quiet, run, warm

    def side(kind: str, *options: str) -> Side:
        out = OUT / f"tpch-{kind}"
        command = (sys.executable, __file__, kind, str(DATA / "tpch1"), str(out), *options)
        return Side(f"tpch {kind}", command, out)

    def seconds(kind: str) -> tuple[Figure, dict[str, float]]:
        quiet(wait)
        figure = run(side(kind))
        return figure, json.loads((OUT / f"tpch-{kind}" / "seconds.json").read_text())

    # What ZQL keeps between runs is then what the runs here have left, and no one else's.
    os.environ["XDG_CACHE_HOME"] = str(OUT / "cache")
    warm(["tpch1"])
    for kind in ("zql", "duckdb"):
        run(side(kind, "--rows"))
    a, b = (
        json.loads((OUT / f"tpch-{kind}" / "rows.json").read_text()) for kind in ("zql", "duckdb")
    )
    different = [name for name in NAMES if a[name] != b[name]]
    pairs = [(seconds("zql"), seconds("duckdb")) for _ in range(runs)]
    calm = [pair for pair in pairs if max(figure.other for figure, _ in pair) < CALM]
    counted = calm if len(calm) >= CALM_PAIRS else pairs
    print("| query | ZQL s | DuckDB s | ratio |\n| --- | --- | --- | --- |")
    sums = [0.0, 0.0]
    for name in NAMES:
        medians = [statistics.median(pair[i][1][name] for pair in counted) for i in (0, 1)]
        sums = [total + median for total, median in zip(sums, medians, strict=True)]
        print(line(name, *medians))
    print(line("all", *sums))
    print(line("process", *(statistics.median(p[i][0].wall for p in counted) for i in (0, 1))))
    ratios = sorted(x.wall / y.wall for (x, _), (y, _) in counted)
    print(f"\nprocesses: {ratios[0]:.2f} to {ratios[-1]:.2f}; {len(calm)} of {runs} pairs calm")
    print(f"target {TARGET}: {'met' if sums[0] <= TARGET * sums[1] else 'MISSED'}")
    print(f"rows: {'different in ' + ', '.join(different) if different else 'the same'}")


def line(name: str, a: float, b: float) -> str:
    return f"| {name} | {a:.3f} | {b:.3f} | {a / b:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("side", nargs="?", choices=["zql", "duckdb"])
    parser.add_argument("folders", nargs="*", metavar="DATA OUT")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quiet", type=float, default=10)
    given = parser.parse_args()
    if given.side:
        one_side(given.side, *given.folders, rows=given.rows)
    else:
        compared(given.runs, given.quiet)


if __name__ == "__main__":
    main()
