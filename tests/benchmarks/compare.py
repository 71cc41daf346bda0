"""Measures ZQL beside its peers: whole processes, in turns, and the ratios of their medians.

usage: compare.py [NAME ...] [--runs N] [--quiet SECONDS]      (all when none is named)

Two folders are read from the environment:

BENCH_ROOT   data (`data/`) and the peers' virtual environments (`venv/`); made by `setup.sh`
BENCH_PEERS  the folder with `setup.sh` and the peers' programs (`peers/`)

The speed of a machine drifts by more than most differences, so A and B take turns (A B A B ...)
after a run of each that does not count, and a claim is the ratio of the medians of one call. Wall
time is from start to exit of the process; memory is the highest sum of resident memory over the
process and its children, seen every 20 ms. Outputs of two sides are checked to be equal.

Before each run the rest of the machine gets up to `--quiet` seconds to come to rest. Pairs during
which others used more than a third of a processor count only when there are not three without.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("BENCH_ROOT", "."))
PEERS = Path(os.environ.get("BENCH_PEERS", "."))
DATA = ROOT / "data"
OUT = ROOT / "compare"
PAGE = os.sysconf("SC_PAGE_SIZE")
CALM = 0.33
INSTALLED = ROOT / "venv" / "zql"
"""Where ZQL is installed as its users have it: without what its tests bring, pandas for one."""
EMPTY_ROWS = 120_000
"""How many rows more one side of `empty` and of `native` has."""
CALM_PAIRS = 3
CHECKED = frozenset({"w1", "w2", "w3", "w4", "w5", "w6", "w7", "w9"})
"""The workloads whose outputs are compared."""


@dataclass(frozen=True)
class Side:
    """A command; `clean` runs before each run of it, outside the measured time."""

    name: str
    command: tuple[str, ...]
    out: Path | None = None
    clean: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Figure:
    """One run: seconds of wall time and of processors, bytes of memory.

    `other` is how many processors the rest of the machine used meanwhile.
    """

    wall: float
    cpu: float
    memory: int
    other: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """A against B; `target` is what the ratio of wall times should stay below."""

    name: str
    what: str
    a: Side
    b: Side
    target: float
    warm: tuple[str, ...] = ()


# ---- one run -----------------------------------------------------------------------------------


def run(side: Side) -> Figure:
    if side.out is not None:
        shutil.rmtree(side.out, ignore_errors=True)
        side.out.mkdir(parents=True)
    side.clean()
    environment = {**os.environ, "BENCH_ROOT": str(ROOT), "PYTHONPATH": _python_path(side)}
    # Without compiled modules on disk every start would compile what was changed last.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = PEERS / "peers" if "peers" in " ".join(side.command) else HERE.parents[1]
    busy = _busy()
    started = time.perf_counter()
    process = subprocess.Popen(
        side.command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _resident(process.pid))
        time.sleep(0.02 if time.perf_counter() - started > 1 else 0.005)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        message = process.stderr.read().decode(errors="replace") if process.stderr else ""
        raise SystemExit(f"{side.name} failed ({process.returncode}):\n{message[-2000:]}")
    if process.stderr:
        process.stderr.close()
    cpu = usage.ru_utime + usage.ru_stime
    return Figure(wall, cpu, peak, max(0.0, (_busy() - busy - cpu) / wall))


def _busy() -> float:
    """Seconds that all processors together have worked since the machine started."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = list(map(int, words))
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def quiet(seconds: float) -> None:
    """Waits until others use under a fifth of a processor, but not longer than this."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = _busy()
        time.sleep(0.5)
        if _busy() - before < 0.1:
            return


def _python_path(side: Side) -> str:
    return str(PEERS / "peers") if "peers" in " ".join(side.command) else str(HERE.parents[1])


def below(root: int) -> list[int]:
    """A process and all that are below it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path(f"/proc/{entry}/stat").read_bytes()
            except OSError:
                continue
            parent = int(text[text.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def _resident(root: int) -> int:
    """Resident bytes of a process and everything below it; shared pages count for each."""
    total = 0
    for pid in below(root):
        try:
            total += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        except OSError:
            continue
    return total * PAGE


# ---- comparisons -------------------------------------------------------------------------------


def zql(workload: str, *options: str) -> Side:
    out = OUT / f"zql-{workload}"
    python = str(INSTALLED / "bin" / "python")
    command = (python, str(HERE / "workload.py"), workload, str(DATA), str(out), *options)
    return Side("zql " + " ".join([workload, *options]), command, out)


def peer(program: str, venv: str, workload: str, *options: str) -> Side:
    out = OUT / f"{program}-{workload}"
    python = str(ROOT / "venv" / venv / "bin" / "python")
    command = (
        python,
        str(PEERS / "peers" / f"{program}.py"),
        workload,
        str(DATA),
        str(out),
        *options,
    )
    return Side(" ".join([program, workload, *options]), command, out)


def plain_sql(name: str, sql: str) -> Side:
    out = OUT / f"sql-{name}"
    text = f"import duckdb; duckdb.connect().execute({sql.format(data=DATA, out=out)!r}).fetchall()"
    return Side(f"duckdb {name}", (sys.executable, "-c", text), out)


GROUPS = """COPY (SELECT k, count(*) AS n, sum(v) AS total, avg(x) AS mean, max(s) AS last
FROM '{data}/rows10m.parquet' GROUP BY k) TO '{out}/out.jsonl' (FORMAT json)"""

ROWS = """COPY (SELECT i % 1000 AS k, (i * 7919) % 100003 AS v, (i % 977) / 7 AS x,
'name' || (i % 5000) AS s FROM range(10000000) AS r(i)) TO '{path}' (FORMAT parquet)"""

SMALL_QUERY = "FROM range(5) AS r (n) |> WHERE n > 1 |> SELECT n * 2 AS twice"


def beside(
    workload: str, what: str, against: str, target: float, warm: tuple[str, ...]
) -> Comparison:
    """A workload beside a peer, as it comes; `against` is its program and its environment."""
    name, program, venv = against.split()
    side = peer(program, venv, workload)
    return Comparison(f"{workload}-{name}", what, zql(workload), side, target, warm)


POLARS, DUCKDB = "polars polars_ polars", "duckdb duckdb_ duckdb"
POOL, ZEPHYR = "pool duckdb_mp duckdb", "zephyr zephyr_ zeph"
WORDS = "the thousand most frequent words of 240,000 documents"
FIRSTS = "one document of 240,000 for each normalised text, the one with the lowest id"
SHUFFLED = "2 GB of Parquet in an order by chance, in 16 files"
JOINED = "240,000 documents joined with 5 million rows about them, in groups"
MANY_GROUPS = "60 million rows grouped by a nearly unique key in a memory of 1 GiB"


def native_comparisons() -> Sequence[Comparison]:
    """The workloads without Python, each beside the fastest peers and marin-zephyr."""
    docs, joined = ("docs8",), ("docs8", "meta")
    return (
        beside("w3", WORDS, POLARS, 1.0, docs),
        beside("w3", WORDS, DUCKDB, 1.0, docs),
        beside("w3", WORDS, ZEPHYR, 1 / 3, docs),
        beside("w5", FIRSTS, POLARS, 1.0, docs),
        beside("w5", FIRSTS, DUCKDB, 1.0, docs),
        beside("w5", FIRSTS, ZEPHYR, 1 / 3, docs),
        beside("w6", SHUFFLED, POOL, 1.0, ("shuf",)),
        beside("w6", SHUFFLED, DUCKDB, 1.0, ("shuf",)),
        beside("w6", SHUFFLED, POLARS, 1.0, ("shuf",)),
        beside("w6", SHUFFLED, ZEPHYR, 1 / 3, ("shuf",)),
        beside("w7", JOINED, DUCKDB, 1.1, joined),
        beside("w7", JOINED, ZEPHYR, 1 / 3, joined),
        Comparison(
            "w9-duckdb",
            MANY_GROUPS,
            zql("w9", "memory=1GiB"),
            peer("duckdb_", "duckdb", "w9", "mem=1GiB"),
            1.1,
            ("ooc",),
        ),
        Comparison(
            "w9-polars",
            f"{MANY_GROUPS}, and polars, which takes what there is",
            zql("w9", "memory=1GiB"),
            peer("polars_", "polars", "w9"),
            1.1,
            ("ooc",),
        ),
    )


def comparisons() -> Sequence[Comparison]:
    python = sys.executable
    imported = Side("python -c 'import duckdb'", (python, "-c", "import duckdb"))
    command = Side("zql -c QUERY", (python, "-m", "zql", "-c", SMALL_QUERY, "--format", "csv"))
    return (
        *native_comparisons(),
        Comparison(
            "w1-cold",
            "JSON lines filtered and projected, columns not yet known, and plain DuckDB told them",
            zql("w1", "cache=cold"),
            peer("duckdb_", "duckdb", "w1"),
            1.5,
            ("docs_jsonl",),
        ),
        Comparison(
            "w1-warm",
            "the same, columns known from an earlier run",
            zql("w1"),
            peer("duckdb_", "duckdb", "w1"),
            1.0,
            ("docs_jsonl",),
        ),
        Comparison(
            "w2-pool",
            "a Python function for each document, and a process pool written by hand",
            zql("w2"),
            peer("duckdb_mp", "duckdb", "w2"),
            1.1,
            ("docs4",),
        ),
        Comparison(
            "w2-daft",
            "the same, and daft with a class in two processes and small morsels, its best mode",
            zql("w2"),
            peer("daft_", "daft", "w2", "udf=cls", "morsel=4096"),
            1.0,
            ("docs4",),
        ),
        Comparison(
            "w2-zephyr",
            "the same, and marin-zephyr as it comes",
            zql("w2"),
            peer("zephyr_", "zeph", "w2"),
            0.5,
            ("docs4",),
        ),
        Comparison(
            "w2-zephyr-sub",
            "the same, and marin-zephyr with a process for each shard",
            zql("w2"),
            peer("zephyr_", "zeph", "w2", "runner=sub"),
            1.0,
            ("docs4",),
        ),
        Comparison(
            "w4-pool",
            "a Python reducer of each host's documents, and a process pool written by hand",
            zql("w4"),
            peer("duckdb_mp", "duckdb", "w4"),
            1.1,
            ("docs8",),
        ),
        Comparison(
            "w4-polars",
            "the same, and polars",
            zql("w4"),
            peer("polars_", "polars", "w4"),
            1.0,
            ("docs8",),
        ),
        Comparison(
            "w4-zephyr",
            "the same, and marin-zephyr as it comes",
            zql("w4"),
            peer("zephyr_", "zeph", "w4"),
            1 / 3,
            ("docs8",),
        ),
        Comparison(
            "empty",
            "a function that does nothing for each of 240,000 documents, and of 120,000",
            zql("empty8"),
            zql("empty4"),
            2.0,
            ("docs8",),
        ),
        Comparison(
            "native",
            "the lengths of 240,000 documents in SQL, and of 120,000: what reading them costs",
            zql("native8"),
            zql("native4"),
            2.0,
            ("docs8",),
        ),
        Comparison(
            "groups",
            "ten million rows of Parquet grouped, and the same SQL in DuckDB",
            zql("groups"),
            plain_sql("groups", GROUPS),
            1.1,
            (),
        ),
        Comparison(
            "startup",
            "a small native query as a whole process, and the import of DuckDB alone",
            command,
            imported,
            2.0,
        ),
        Comparison(
            "w10",
            "a hundred lines read and written, and the import of DuckDB alone",
            zql("w10"),
            imported,
            2.0,
            ("tiny",),
        ),
    )


def prepare() -> None:
    """ZQL by itself, the folders of some of the documents, and the ten million rows."""
    if not INSTALLED.exists():
        subprocess.run((sys.executable, "-m", "venv", str(INSTALLED)), check=True)
        pip = (str(INSTALLED / "bin" / "python"), "-m", "pip", "install", "--quiet", "-e")
        subprocess.run((*pip, str(HERE.parents[1])), check=True)
    for count in (4, 8):
        folder = DATA / f"docs{count}"
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            part = folder / f"part-{i:05d}.parquet"
            source = DATA / "docs_parquet" / part.name
            if source.exists() and not part.exists():
                os.link(source, part)
    path = DATA / "rows10m.parquet"
    if not path.exists():
        import duckdb

        duckdb.connect().execute(ROWS.format(path=path)).fetchall()


def warm(folders: Sequence[str]) -> None:
    """Reads the inputs once, so that both sides find them in the system's cache."""
    for folder in folders:
        for path in sorted((DATA / folder).iterdir()):
            with path.open("rb") as file:
                while file.read(1 << 22):
                    pass


def same_output(workload: str, a: Side, b: Side) -> str:
    """Whether both outputs have the same rows; `-` where there are none to compare."""
    checker = PEERS / "verify.py"
    if a.out is None or b.out is None or workload not in CHECKED or not checker.exists():
        return "-"
    texts = []
    python = str(ROOT / "venv" / "duckdb" / "bin" / "python")
    for side in (a, b):
        done = subprocess.run(
            [python, str(checker), workload, str(side.out), str(DATA)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "BENCH_ROOT": str(ROOT)},
        )
        texts.append(done.stdout.partition('"files"')[0])
    return "same" if texts[0] == texts[1] else f"DIFFERENT {texts}"


def measure(comparison: Comparison, runs: int, wait: float) -> str:
    warm(comparison.warm)
    for side in (comparison.a, comparison.b):
        run(side)
    same = same_output(comparison.name.split("-")[0], comparison.a, comparison.b)
    pairs: list[tuple[Figure, Figure]] = []
    for _ in range(runs):
        quiet(wait)
        first = run(comparison.a)
        quiet(wait)
        pairs.append((first, run(comparison.b)))
    calm = [pair for pair in pairs if max(f.other for f in pair) < CALM]
    counted = calm if len(calm) >= CALM_PAIRS else pairs
    a, b = (_median([pair[side] for pair in counted]) for side in (0, 1))
    ratios = sorted(x.wall / y.wall for x, y in counted)
    met = "yes" if a.wall / b.wall <= comparison.target else "NO"
    if comparison.name in ("empty", "native"):  # what a row costs, without what a run costs
        same = f"{(a.cpu - b.cpu) / EMPTY_ROWS * 1e6:.1f} us of CPU a row"
    return (
        f"| {comparison.name} | {a.wall:.2f} | {b.wall:.2f} | **{a.wall / b.wall:.2f}** "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {comparison.target:.3g} | {met} "
        f"| {a.cpu:.1f} | {b.cpu:.1f} | {a.memory >> 20} | {b.memory >> 20} "
        f"| {a.memory / b.memory:.2f} | {same} | {len(calm)} of {runs} |"
    )


def _median(figures: list[Figure]) -> Figure:
    return Figure(
        statistics.median(f.wall for f in figures),
        statistics.median(f.cpu for f in figures),
        int(statistics.median(f.memory for f in figures)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    known = {c.name: c for c in comparisons()}
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="NAME")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quiet", type=float, default=10)
    given = parser.parse_args()
    if not (DATA / "docs_jsonl").is_dir() or not (PEERS / "peers").is_dir():
        raise SystemExit("set BENCH_ROOT and BENCH_PEERS; see the head of this file")
    prepare()
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors, ", end="")
    print(f"Python {platform.python_version()}, {given.runs} runs of each\n")
    print(
        "| comparison | A s | B s | A / B (least to most) | target | met | A CPU s | B CPU s "
        "| A MiB | B MiB | A / B MiB | rows | calm |"
    )
    print("| --- " * 13 + "|")
    for name in given.names or known:
        print(measure(known[name], given.runs, given.quiet), flush=True)
    shutil.rmtree(OUT, ignore_errors=True)


if __name__ == "__main__":
    main()
