"""Small inputs that break data tools, each with the job and the right answer (`cases.jsonl`).

One runner for all: natively, and with a Python function standing in the way, in this process and in
pools of one and of two workers. The answer must be the same each time.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest
from case_scripts import LATER, SCRIPTS, WAYS
from zql.errors import ZqlError
from zql.execution import machine
from zql.logical.context import Declarations
from zql.session import Session
from zql.source import Source

HERE = Path(__file__).parent
CASES = {
    case["id"]: case
    for case in map(json.loads, (HERE / "cases.jsonl").read_text("utf-8").splitlines())
}


@dataclass(frozen=True)
class Mode:
    """How a case is run; `python` says that a function stands in its way."""

    name: str
    python: bool = False
    workers: int | None = None
    split_size: int = 0


MODES = (
    Mode("native"),
    Mode("python", python=True),
    Mode("python, 1 worker", python=True, workers=1, split_size=24),
    Mode("python, 2 workers", python=True, workers=2, split_size=20_000),
)
LARGE = {"J03"}
"""Cases whose files would be thousands of tasks of 24 bytes."""


@pytest.fixture(scope="module")
def session_for():
    """The session of a mode; one is open at a time, so the tests of a mode come together."""
    opened: dict[Mode, Session] = {}

    def get(mode: Mode) -> Session:
        if mode not in opened:
            close()
            made = opened[mode] = Session(workers=mode.workers)
            if mode.workers is not None:
                # Small inputs go to the pool too, and are cut into several tasks.
                made.settings = replace(made.settings, inline_bytes=0, split_size=mode.split_size)
        return opened[mode]

    def close() -> None:
        for session in opened.values():
            session.close()
        opened.clear()

    yield get
    close()


@pytest.fixture
def session(session_for):
    return session_for(MODES[0])


each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(case_id: str, folder: Path) -> None:
    """The files of a case in the test's folder."""
    shutil.copytree(HERE / "files" / case_id, folder, dirs_exist_ok=True)
    shutil.copy(HERE / "same.py", folder)


def text_of(case_id: str, mode: Mode) -> str | None:
    """The script of a case; None when a mode has nothing to show for it."""
    script = SCRIPTS[case_id]
    calls = "IMPORT PYTHON" in script
    if not mode.python:
        return None if calls else script.replace("<way>", "")
    if calls:
        return script
    if case_id not in WAYS or (case_id in LARGE and mode.split_size == 24):
        return None
    parts = [part.partition(":") for part in WAYS[case_id].split(", ")]
    way = "|> SET " + ", ".join(f"{c} = same.{f or 'same'}({c})" for c, _, f in parts)
    return f"IMPORT PYTHON 'same.py'; {script.replace('<way>', way)}"


# ---- outcomes ----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a script gave: rows as text, or the text of its error; files made or changed."""

    rows: list[list[str | None]]
    error: str | None
    changed: set[str]


def run(session: Session, script: str, params: dict[str, object] | None = None) -> Outcome:
    session.declarations = Declarations()
    session.previous = None
    before = snapshot()
    rows: list[list[str | None]] = []
    error = None
    try:
        for result in session.statements(Source("job.zql", script), params):
            if result.kind == "rows":
                rows += stream_rows(result.rows)
    except ZqlError as raised:
        error = str(raised)
    after = snapshot()
    changed = {path for path in after.keys() | before.keys() if after.get(path) != before.get(path)}
    return Outcome(rows, error, changed)


def snapshot() -> dict[str, str]:
    found = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.join(folder, name)
            if "__pycache__" not in path:
                found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found


def stream_rows(stream) -> list[list[str | None]]:
    try:
        return [
            list(map(value_text, row))
            for batch in stream.batches()
            for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
        ]
    finally:
        stream.close()


def value_text(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float() | Decimal() | int():
            return str(value)
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)


# ---- checks ------------------------------------------------------------------------------------

ZEROS_ALLOWED = {"J07", "P03"}
"""Cases that say: a `.0` or zeros behind the point are allowed."""

NUMBERS_AS_SUCH = {"S07"}
"""Cases whose numbers are compared by value: 3 and 3.0 are one."""


def check(case_id: str, form: dict, outcome: Outcome, folder: Path) -> None:
    if "any" in form:
        problems = []
        for each in form["any"]:
            try:
                check(case_id, each, outcome, folder)
            except AssertionError as problem:
                problems.append(str(problem))
            else:
                return
        raise AssertionError("\n--- or ---\n".join(problems))
    if "rows" in form:
        assert outcome.error is None, outcome.error
        assert normal(case_id, outcome.rows) == normal(case_id, form["rows"])
    elif "error" in form:
        assert outcome.error is not None, f"no error, but {outcome.rows[:5]}"
        missing = [t for t in form["error"] if t.casefold() not in outcome.error.casefold()]
        assert not missing, f"{missing} not in\n{outcome.error}"
        assert not outcome.changed
    else:
        assert outcome.error is None, outcome.error
        PROPERTIES[case_id](folder, outcome)


def normal(case_id: str, rows: list[list[str | None]]) -> list[list[str | None]]:
    if case_id in ZEROS_ALLOWED | NUMBERS_AS_SUCH:
        return [
            [v and v.rstrip("0").rstrip(".") if "." in (v or "") else v for v in r] for r in rows
        ]
    return rows


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def strings_unchanged(folder, outcome):
    assert [r["d"] for r in lines(folder / "out.jsonl")] == [
        r["d"] for r in lines(folder / "datelike.jsonl")
    ]


def two_groups(folder, outcome):
    assert [row[-1] for row in outcome.rows] == ["1", "1"]


def onto_itself(folder, outcome):
    assert [r["a"] for r in lines(folder / "in.jsonl")] == [2, 3]


def one_file(folder, outcome):
    assert [r["a"] for r in lines(folder / "out.jsonl")] == [
        r["a"] for n in (0, 1) for r in lines(folder / f"in{n}.jsonl")
    ]


def strings_come_back(folder, outcome):
    with open("out.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["s"]
    assert [r[0] if r else "" for r in rows] == [r["s"] or "" for r in lines(folder / "odd.jsonl")]


def locked(folder, outcome):
    assert [r["b"] for r in lines(folder / "out.jsonl")] == [2, 3]


def plain_values(folder, outcome):
    (row,) = lines(folder / "out.jsonl")
    assert type(row["i"]) is int
    assert row["i"] == 1
    assert row["f"] == 0.5
    assert row["t"] in ("2024-01-02T03:04:05", "2024-01-02 03:04:05")


def names_kept(folder, outcome):
    import pyarrow.parquet as pq

    keys = list(lines(folder / "inject_keys.jsonl")[0])
    assert pq.read_schema("out.parquet").names == keys
    assert not (folder / "pwned.txt").exists()


PROPERTIES: dict[str, Callable[[Path, Outcome], None]] = {
    "J32": strings_unchanged,
    "S23": two_groups,
    "O01": onto_itself,
    "O07": one_file,
    "O09": strings_come_back,
    "U01": locked,
    "U13": plain_values,
    "X01": names_kept,
}

# ---- the runner --------------------------------------------------------------------------------

ALONE = {"P07", "O03", "O05", "O11", "R01", "R03", "R05", "R07", "R11", "X03", "X05"}
"""Cases whose jobs need more than one script and one answer: tests of their own, below."""


@pytest.mark.parametrize(
    ("mode", "case_id"),
    [
        pytest.param(mode, case_id, id=f"{mode.name}-{case_id}")
        for mode in MODES
        for case_id in CASES
        if case_id in SCRIPTS and case_id not in ALONE and text_of(case_id, mode) is not None
    ],
)
def test_case(mode, case_id, session_for, folder):
    put(case_id, folder)
    outcome = run(session_for(mode), text_of(case_id, mode))
    check(case_id, CASES[case_id]["check"], outcome, folder)


def test_every_case_is_looked_at():
    assert SCRIPTS.keys() | LATER.keys() == CASES.keys()


def test_what_is_written_is_read_back(session, folder):
    """J40: line ends of Unicode inside strings, after a round trip."""
    put("J40", folder)
    outcome = run(
        session,
        "FROM 'u2028.jsonl' |> WRITE 'copy.jsonl';"
        " FROM 'copy.jsonl' |> AGGREGATE count(*) AS n, sum(length(t)) AS s",
    )
    assert outcome.rows == [["3", "9"]], outcome.error


@pytest.mark.parametrize(
    ("case_id", "source", "rest", "rows"),
    [
        (
            "J14",
            "read_json('bad_utf8.jsonl', on_bad_line => 'skip')",
            "AGGREGATE count(*) AS n",
            [["2"]],
        ),
        (
            "C05",
            "read_csv('short_row.csv', null_padding => true)",
            "AGGREGATE count(*) AS n",
            [["3"]],
        ),
        (
            "C11",
            "read_csv('latin1.csv', encoding => 'latin-1')",
            "ORDER BY id |> SELECT city",
            [["Orléans"], ["Köln"]],
        ),
    ],
    ids=["J14", "C05", "C11"],
)
def test_the_option_that_the_error_names(case_id, source, rest, rows, session, folder):
    put(case_id, folder)
    outcome = run(session, f"FROM {source} |> {rest}")
    assert outcome.error is None, outcome.error
    assert outcome.rows == rows


@each_mode
def test_o03_no_output_of_a_failed_run(mode, session_for, folder):
    put("O03", folder)
    outcome = run(session_for(mode), SCRIPTS["O03"])
    check("O03", {"error": CASES["O03"]["check"]["error"]}, outcome, folder)
    assert not [p for p in folder.rglob("*") if "tmp" in p.name]


def test_o05_no_stale_shard(session, folder):
    put("O05", folder)
    write = SCRIPTS["O05"].replace("<way>", "")
    assert run(session, write).error is None
    for name in ("in2.jsonl", "in3.jsonl"):
        (folder / name).unlink()
    again = run(session, write)
    assert again.error is not None
    assert "out" in again.error
    assert not again.changed
    over = run(session, f"{write} OPTIONS (mode = 'overwrite')")
    assert over.error is None, over.error
    counted = run(session, "FROM 'out/*.jsonl' |> AGGREGATE count(*) AS n")
    assert counted.rows == [["2"]]


def test_o11_skip_does_not_pass_off_another_plans_files(session, folder):
    put("O11", folder)
    shutil.copy("udf_A.py", "udf.py")
    assert run(session, SCRIPTS["O11"]).error is None
    assert [r["b"] for r in lines(folder / "out.jsonl")] == [10, 20]
    same = run(session, SCRIPTS["O11"])
    assert same.error is None, same.error
    assert "./out.jsonl" not in same.changed
    shutil.copy("udf_B.py", "udf.py")
    changed = run(session, SCRIPTS["O11"])
    if changed.error is None:
        assert [r["b"] for r in lines(folder / "out.jsonl")] == [20, 40]
    else:
        assert "plan" in changed.error
        assert "./out.jsonl" not in changed.changed


@pytest.mark.parametrize("mode", MODES[:3], ids=lambda mode: mode.name)
def test_x03_parameters_are_values(mode, session_for, folder):
    put("X03", folder)
    session, script = session_for(mode), text_of("X03", mode)
    for row in lines(folder / "names.jsonl"):
        outcome = run(session, script, {"p": row["name"]})
        assert outcome.error is None, outcome.error
        assert outcome.rows == [[str(row["id"])]], row["name"]


def test_x05_values_do_not_become_paths(session, folder):
    put("X05", folder)
    outcome = run(session, SCRIPTS["X05"])
    assert outcome.error is not None
    assert "partition_by" in outcome.error
    assert not outcome.changed


# ---- whole processes ---------------------------------------------------------------------------


def zql(*args: str, env: dict[str, str] | None = None, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zql", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**environment(), **(env or {})},
        **more,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def printed(done: subprocess.CompletedProcess[str]) -> list[list[str | None]]:
    assert done.returncode == 0, done.stderr
    return [
        [None if v is None else str(v) for v in json.loads(line).values()]
        for line in done.stdout.splitlines()
    ]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_p07_the_machines_zone_does_not_matter(zone, folder):
    put("P07", folder)
    done = zql("-c", SCRIPTS["P07"].replace("<way>", ""), env={"TZ": zone})
    assert printed(done) == CASES["P07"]["check"]["rows"]


def test_s11_the_locale_does_not_matter(folder):
    put("S11", folder)
    script = SCRIPTS["S11"].replace("<way>", "")
    done = zql("-c", script, env={"LC_ALL": "C", "LANG": "C"})
    assert printed(done) == CASES["S11"]["check"]["rows"]


def test_r01_a_function_that_takes_too_much_memory(folder):
    put("R01", folder)
    (folder / "job.zql").write_text(SCRIPTS["R01"])
    before = snapshot()
    done = zql("run", "job.zql", "--workers", "2", "--memory", "512MB")
    assert done.returncode == 1, done.stderr
    for text in CASES["R01"]["check"]["error"]:
        assert text in done.stderr
    assert snapshot() == before


def test_r03_a_worker_that_dies_once(folder):
    put("R03", folder)
    (folder / "job.zql").write_text(SCRIPTS["R03"])
    done = zql("run", "job.zql", "--workers", "2", "--json", env={"ZQL_TEST_DIR": str(folder)})
    assert done.returncode == 0, done.stderr
    rows = [r["a"] for path in sorted(folder.glob("out/*.jsonl")) for r in lines(path)]
    assert rows == [0, 1, 2, 3]
    assert (folder / "died").exists()
    assert json.loads(done.stdout)["counters"]["retries"] == 1


@pytest.mark.parametrize("version", ["cgroup_v1", "cgroup_v2"])
def test_r05_processors_and_memory_of_a_control_group(version, folder, monkeypatch):
    put("R05", folder)
    for function in (machine.allowed_cpus, machine.allowed_memory):
        monkeypatch.setattr(function, "__defaults__", (str(folder / version),))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(64)))
    with Session() as session:
        settings = dict(run(session, SCRIPTS["R05"]).rows)
        assert (settings["workers"], settings["threads"]) == ("2", "2")  # a worker has one thread
        assert 0 < int(settings["memory"]) <= 1 << 30


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinities of Linux")
def test_r05_processors_of_an_affinity(folder):
    one = {min(os.sched_getaffinity(0))}
    done = zql("-c", SCRIPTS["R05"], "--jsonl", preexec_fn=lambda: os.sched_setaffinity(0, one))
    settings = dict(printed(done))
    assert (settings["workers"], settings["threads"]) == ("1", "1")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of open files are POSIX")
def test_r07_many_files_and_few_open_ones(folder):
    import resource

    os.mkdir("d")
    for i in range(600):
        (folder / "d" / f"{i:03d}.jsonl").write_text(f'{{"a":{i}}}\n')
    done = zql(
        "-c",
        SCRIPTS["R07"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)),
    )
    assert printed(done) == CASES["R07"]["check"]["rows"]


@pytest.mark.parametrize("busy", ["looking at the first rows", "running tasks"])
def test_r11_an_interrupt_ends_a_run(busy, folder):
    put("R11", folder)
    (folder / "job.zql").write_text(SCRIPTS["R11"])
    if busy == "running tasks":  # with its type known nothing is called before the tasks
        udf = folder / "udf.py"
        udf.write_text(udf.read_text().replace("(a)", "(a: int) -> int"))
    os.mkdir("work")
    process = subprocess.Popen(
        [sys.executable, "-m", "zql", "run", "job.zql", "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**environment(), "TMPDIR": str(folder / "work")},
        start_new_session=True,
    )
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=5)
    assert process.returncode == 130, complaint
    assert not [p for p in folder.rglob("*") if "tmp" in p.name]
    assert not list((folder / "work").iterdir())
    assert not members(process.pid)
    if busy == "running tasks":
        done = zql("run", "job.zql", "--workers", "4")
        assert done.returncode == 0, done.stderr
        rows = [r["a"] for path in sorted(folder.glob("out/*.jsonl")) for r in lines(path)]
        assert rows == [0, 1, 2, 3]


def members(group: int) -> list[str]:
    """Processes of a process group, as they end within two seconds."""
    found: list[str] = []
    for _ in range(20):
        listed = subprocess.run(
            ["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        found = [r[2] for r in rows if int(r[0]) == group and not r[1].startswith("Z")]
        if not found:
            break
        time.sleep(0.1)
    return found


def test_secrets_stay_secret(folder):
    """X11: neither a key nor the signature of a URL is in any text."""
    put("X11", folder)
    texts = []
    with Session(
        storage_options={"key": "AKIAFAKE", "secret": "FAKE/secret+0123456789"}
    ) as session:
        source = Source("script.zql", (folder / "script.zql").read_text())
        for do in (lambda: session.explain(source), lambda: list(session.statements(source))):
            with pytest.raises(ZqlError) as raised:
                do()
            texts += [str(raised.value), repr(raised.value), repr(session.settings)]
    done = zql("run", "-v", "script.zql")
    assert done.returncode != 0
    texts += [done.stdout, done.stderr]
    for text in texts:
        assert "FAKE/secret+0123456789" not in text
        assert "deadbeef" not in text.replace("X-Amz-Signature=deadbeefdeadbeefdeadbeef' |>", "")


def test_planted_files_are_not_loaded(folder):
    """X13: what lies in the work folder before a run is not touched, and ours is private."""
    put("X13", folder)
    before = snapshot()
    seen = []
    (folder / "look.py").write_text(
        "import os\n"
        "def look(a):\n"
        "    work = os.environ['WORK']\n"
        "    return [n + ' ' + oct(os.stat(os.path.join(work, n)).st_mode & 0o777)\n"
        "            for n in os.listdir(work) if os.path.isdir(os.path.join(work, n))]\n"
    )
    (folder / "job.zql").write_text(
        "IMPORT PYTHON 'look.py';"
        " FROM 'in.jsonl' |> SELECT a, look.look(a) AS folders |> WRITE 'out.jsonl'"
    )
    work = str(folder / "work")
    done = zql("run", "job.zql", "--workers", "1", env={"TMPDIR": work, "WORK": work})
    assert done.returncode == 0, done.stderr
    seen = [f for row in lines(folder / "out.jsonl") for f in row["folders"]]
    ours = [f for f in seen if not f.startswith("stage0 ")]
    assert ours
    assert all(f.endswith("0o700") for f in ours), ours
    assert not (folder / "pwned.txt").exists()
    after = snapshot()
    assert {path: after.get(path) for path in before} == before


@pytest.mark.parametrize("name", ["deep", "calls", "chain"])
def test_deep_scripts(name, folder):
    """X15: thousands of parentheses, calls and pipes are read, or refused with their place."""
    put("X15", folder)
    started = time.monotonic()
    done = zql("check", f"{name}.zql")
    assert time.monotonic() - started < 10
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert "deep" in done.stdout
        assert f"{name}.zql:" in done.stdout
