"""Runs that were killed, or failed, go on from what they had finished; anything else is redone."""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from zql.errors import UdfError
from zql.execution.temporary_folders import remove_stale_folders
from zql.session import Session

ROOT = Path(__file__).parents[2]
SLOW = """
import os, time
from helper import FACTOR
def double(a: int) -> int:
    with open("calls", "a") as file:
        file.write("x")
    if a == 0 and os.path.exists("block"):  # the first row of a file
        with open("calls") as file:
            done = len(file.read())
        if done > 600:
            with open("stuck", "w"):
                time.sleep(600)
    return a * FACTOR
"""
HEAD = "IMPORT PYTHON 'udf.py' AS q;\n"
SHARDS = HEAD + "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'out/{shard:02d}.jsonl';"
ONE = HEAD + "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'all.jsonl';"
PARQUET = SHARDS.replace("'out/{shard:02d}.jsonl'", "'out/' OPTIONS (format = 'parquet')")
FILES, ROWS = 10, 100


@pytest.fixture
def place(place):
    for i in range(FILES):
        place.rows(f"in{i}.jsonl", [{"id": i * ROWS + k, "a": k} for k in range(ROWS)])
    place.functions("FACTOR = 2\n", "helper.py")
    place.functions(SLOW)
    return place


def command(place, text, *options):
    (place.folder / "script.zql").write_text(text)
    return [sys.executable, "-m", "zql", "run", "script.zql", "--temp-dir", str(place.temp),
            "--workers", "1", *options]  # fmt: skip


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def killed(place, text, *options):
    """Kills the coordinator when its worker hangs in a call: so many calls were made before."""
    (place.folder / "block").touch()
    with subprocess.Popen(command(place, text, *options), env=environment()) as process:
        end = time.monotonic() + 60
        while not (place.folder / "stuck").exists() and time.monotonic() < end:
            assert process.poll() is None, "it ended too early"
            time.sleep(0.02)
        time.sleep(0.2)  # what was done has been noted
        process.send_signal(signal.SIGKILL)
    (place.folder / "block").unlink()
    (place.folder / "stuck").unlink()
    return forget_calls(place)


def forget_calls(place):
    calls = place.folder / "calls"
    made = len(calls.read_text()) if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return made


def again(place, text, *options):
    done = subprocess.run(command(place, text, *options), env=environment(), check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return forget_calls(place)


def rows(place, pattern):
    return sorted((row["id"], row["b"]) for row in place.read(pattern))


EXPECTED = sorted((i * ROWS + k, 2 * k) for i in range(FILES) for k in range(ROWS))


@pytest.mark.parametrize(("text", "pattern"), [(SHARDS, "out/*.jsonl"), (ONE, "all.jsonl")])
def test_a_killed_run_redoes_under_half(place, text, pattern):
    made = killed(place, text)
    assert made > FILES * ROWS * 0.6
    assert not place.read(pattern)
    assert 0 < again(place, text, "--resume") < FILES * ROWS * 0.5
    assert rows(place, pattern) == EXPECTED


STEPS = """
from typing import TypedDict
from helper import FACTOR
def called(a):
    import os
    with open("calls", "a") as file:
        file.write("x")
    if os.path.exists(f"fail{a}"):
        raise ValueError("not yet")
def double(a: int) -> int:
    called(a)
    return a * FACTOR
"""


@pytest.fixture
def steps(place, session):
    """Four files of ten rows, whose rows have numbers of their own."""
    place.resuming = session
    for path in place.folder.glob("in*.jsonl"):
        path.unlink()
    for i in range(4):
        place.rows(f"in{i}.jsonl", [{"id": i * 10 + k, "a": i * 10 + k} for k in range(10)])
    place.functions(STEPS)
    return place


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """One worker for most of the tests: to start it takes a second."""
    temp = tmp_path_factory.mktemp("temp")
    with Session(temp_dir=str(temp), workers=1, config={"resume": True}) as session:
        yield session
    assert list(temp.iterdir()) == [], "temporary files are left"


def resuming(place, text):
    """Runs a script with `resume` in this process; the calls that were made."""
    session = place.resuming
    try:
        report = session.run(text)
    finally:
        # As it is when another process goes on.
        session._tables.close(unfinished=session.unfinished)
        session.declarations.tables.clear()
        session.declarations.views.clear()
    return report, forget_calls(place)


def plainly(place, text):
    """Runs a script without `resume`; the calls that were made."""
    session = place.resuming
    given, session.settings = session.settings, replace(session.settings, resume=False)
    session._runner._settings = session.settings
    try:
        session.run(text)
    finally:
        session.settings = session._runner._settings = given
    return forget_calls(place)


def failed(place, text, at=35):
    """A run with `resume` that fails at a row, and leaves what it has."""
    (place.folder / f"fail{at}").touch()
    with pytest.raises(UdfError, match="not yet"):
        resuming(place, text)
    (place.folder / f"fail{at}").unlink()
    return forget_calls(place)


@pytest.mark.parametrize("text", [SHARDS, ONE, PARQUET], ids=["shards", "one", "parquet"])
def test_a_failed_run_leaves_its_work_when_it_may_be_resumed(steps, text):
    assert failed(steps, text) >= 36
    report, calls = resuming(steps, text)
    assert calls == 10
    assert report.counters["tasks_reused"] == 3
    assert report.counters["records_in"] == 40
    assert report.counters["records_written"] == 40
    query = steps.shared(2).query("FROM 'out/*.jsonl'" if text is SHARDS else "FROM 'all.jsonl'"
                                  if text is ONE else "FROM 'out/'")  # fmt: skip
    assert [row["b"] for row in query.to_dicts()] == [2 * a for a in range(40)]


def test_a_failed_run_without_resume_leaves_nothing(steps):
    steps.resuming.run("FROM 'in0.jsonl' |> EXTEND a + 1 AS b |> WRITE 'other.jsonl'")
    (steps.folder / "fail35").touch()
    with pytest.raises(UdfError):
        plainly(steps, SHARDS)
    assert "out" not in steps.names()


@pytest.mark.parametrize(
    ("change", "calls"), [("module", 40), ("function", 40), ("input", 20), ("query", 40)]
)
def test_what_has_changed_is_done_again(steps, change, calls):
    text = SHARDS
    failed(steps, text)
    if change == "module":
        steps.functions("FACTOR = 3\n", "helper.py")
    elif change == "function":
        steps.functions(STEPS.replace("a * FACTOR", "a * FACTOR + 1"))
    elif change == "input":
        steps.rows("in1.jsonl", [{"id": 10 + k, "a": 10 + k} for k in range(9)])
        steps.rows("in1.jsonl", [{"id": 10 + k, "a": 50 + k} for k in range(10)])
    else:
        text = text.replace("q.double(a)", "q.double(a + 1)")
    assert resuming(steps, text)[1] == calls


def test_a_stage_behind_another_goes_on(steps):
    steps.functions(
        STEPS
        + """
class Total(TypedDict):
    n: int
def total(key, rows) -> Total:
    called(f"r{key}")
    return {"n": sum(row["b"] for row in rows)}
"""
    )
    text = HEAD + (
        "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> EXTEND a % 7 AS k"
        " |> REDUCE q.total GROUP BY k |> WRITE 'sums.jsonl';"
    )
    (steps.folder / "failr5").touch()
    with pytest.raises(UdfError, match="not yet"):
        resuming(steps, text)
    (steps.folder / "failr5").unlink()
    assert forget_calls(steps) >= 41
    report, calls = resuming(steps, text)
    assert calls <= 7, "the first stage is not done again"
    assert report.counters["tasks_reused"] >= 4
    assert sum(row["n"] for row in steps.read("sums.jsonl")) == 2 * sum(range(40))


@pytest.mark.parametrize("damage", ["journal", "cut", "byte", "gone"])
def test_damaged_work_is_no_work(steps, damage):
    failed(steps, SHARDS)
    (work,) = (steps.folder / "out").glob(".zql-work-*")
    journal = work / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    first = min(work.glob("*.tmp"))
    expected = 20
    if damage == "journal":
        tasks = [i for i, line in enumerate(lines) if b'"key"' in line]
        lines[tasks[0]] = lines[tasks[0]].replace(b"records_in", b"records_on")
        lines[tasks[-1]] = lines[tasks[-1]][:-20]
        journal.write_bytes(b"".join(lines))
        expected = 30
    elif damage == "cut":
        first.write_bytes(first.read_bytes()[:-1])
    elif damage == "byte":
        data = bytearray(first.read_bytes())
        data[5] ^= 1
        first.write_bytes(data)
    else:
        first.unlink()
    assert resuming(steps, SHARDS)[1] == expected
    assert rows(steps, "out/*.jsonl") == [(a, 2 * a) for a in range(40)]


def test_a_plain_run_removes_what_dead_ones_have_left(steps):
    failed(steps, SHARDS)
    assert plainly(steps, SHARDS) == 40


def test_work_for_other_targets_stays(steps):
    failed(steps, ONE)
    plainly(steps, "FROM 'in0.jsonl' |> WRITE 'other.jsonl'")
    assert resuming(steps, ONE)[1] == 10


def test_skip_takes_up_what_a_killed_run_has_finished(steps):
    text = SHARDS.replace(";", " OPTIONS (mode = 'skip');").replace(
        "'udf.py' AS q OPTIONS (mode = 'skip')", "'udf.py' AS q"
    )
    failed(steps, text)
    assert plainly(steps, text) == 10


def test_what_may_differ_is_made_anew(steps):
    steps.functions(STEPS.replace("def double", "import zql\n@zql.udf(volatile=True)\ndef double"))
    failed(steps, SHARDS)
    assert resuming(steps, SHARDS)[1] == 40


def test_statements_that_are_done_are_not_done_again(steps):
    third = SHARDS.removeprefix(HEAD).replace("q.double(a)", "q.double(a + 100)")
    text = ONE + SHARDS.removeprefix(HEAD).replace("out/", "two/") + third
    assert failed(steps, text, 135) > 110
    report, calls = resuming(steps, text)
    assert calls == 10
    assert report.counters["records_written"] == 40
    assert report.counters["records_kept"] == 80


MODE = "mode = 'overwrite'"
OVER = f"OPTIONS ({MODE})"
FOLDERS = "format = 'jsonl', partition_by = [k], write_partition_columns = true"
GROUPS = (
    HEAD + "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> AGGREGATE sum(b) AS b GROUP BY id % 3"
)


@pytest.mark.parametrize(
    ("ways", "one"),
    [
        (f" |> WRITE 'all.jsonl' OPTIONS ({MODE})", "all.jsonl"),
        (f" |> WRITE 'out/{{shard}}.jsonl' OPTIONS ({MODE})", "out/0.jsonl"),
        (
            f" AS k |> WRITE 'out/' OPTIONS ({FOLDERS}, {MODE})",
            "out/k=1/part-00000.jsonl",
        ),
        (
            f" |> FORK (|> WRITE 'all.jsonl' {OVER}), (|> WRITE 'out/{{shard}}.jsonl' {OVER})",
            "out/0.jsonl",
        ),
    ],
    ids=["one", "shards", "folders", "several"],
)
def test_no_stage_of_a_statement_that_is_done_runs_again(steps, ways, one):
    assert resuming(steps, GROUPS + ways)[1] == 40
    files = {p: p.stat().st_mtime_ns for p in steps.folder.rglob("*.jsonl")}
    report, calls = resuming(steps, GROUPS + ways)
    assert (calls, report.counters["records_written"]) == (0, 0)
    assert report.counters["records_kept"] in (3, 6)
    assert {p: p.stat().st_mtime_ns for p in steps.folder.rglob("*.jsonl")} == files
    before = (steps.folder / one).read_bytes()
    (steps.folder / one).unlink()
    assert resuming(steps, GROUPS + ways)[1] == 40
    assert (steps.folder / one).read_bytes() == before
    steps.rows("in0.jsonl", [{"id": k, "a": k + 1} for k in range(10)])
    assert resuming(steps, GROUPS + ways)[1] == 40


def test_an_append_is_not_added_twice(steps):
    text = SHARDS.replace("2d}.jsonl'", "2d}.jsonl' OPTIONS (mode = 'append')").replace(
        "out/", "all/"
    )
    text += ONE.removeprefix(HEAD).replace("q.double(a)", "q.double(a + 100)")
    (steps.folder / "fail135").touch()
    with pytest.raises(UdfError):
        resuming(steps, text)
    (steps.folder / "fail135").unlink()
    forget_calls(steps)
    report, calls = resuming(steps, text)
    assert calls == 10
    assert report.counters["records_kept"] == 40
    assert len(steps.read("all/*.jsonl")) == 40
    plainly(steps, text.partition("FROM 'in*.jsonl' |> EXTEND q.double(a + 100)")[0])
    assert len(steps.read("all/*.jsonl")) == 80, "without resume it is another one"


DIES = """
import os, signal
from zql.execution import publish
from zql.session import Session
given = publish.files.publish_all
def some(pairs, *more):
    if len(pairs) == 1:  # the manifest
        return given(pairs, *more)
    given(pairs[:2], *more)
    os.kill(os.getpid(), signal.SIGKILL)
publish.files.publish_all = some
with Session(temp_dir={temp!r}, workers=1) as session:
    session.run({text!r})
"""


@pytest.mark.parametrize("mode", ["error", "overwrite", "skip"])
def test_a_run_that_is_killed_while_files_get_their_names(steps, mode):
    text = SHARDS.replace("2d}.jsonl'", f"2d}}.jsonl' OPTIONS (mode = '{mode}')")
    temp = steps.resuming.settings.temp_root()
    (steps.folder / "dies.py").write_text(DIES.format(temp=temp, text=text))
    died = subprocess.run([sys.executable, "dies.py"], env=environment(), check=False)
    assert died.returncode == -signal.SIGKILL
    remove_stale_folders(temp)
    assert len(steps.read("out/*.jsonl")) == 20
    assert not (steps.folder / "out" / "_SUCCESS").exists()
    forget_calls(steps)
    report, calls = resuming(steps, text)
    assert calls == 0
    assert report.counters["records_written"] + report.counters["records_kept"] == 40
    assert rows(steps, "out/*.jsonl") == [(a, 2 * a) for a in range(40)]
    assert (steps.folder / "out" / "_SUCCESS").exists()


def test_two_runs_to_one_target_do_not_mix(steps):
    """A run of four shards ends while another one of two, which had begun before, is at work."""
    steps.functions(
        """
        import os, time
        def slow(a: int) -> int:
            open("begun", "w").close()
            end = time.monotonic() + 30
            while not os.path.exists("go") and time.monotonic() < end:
                time.sleep(0.02)
            return a
        """,
        "slow.py",
    )
    first = (
        "IMPORT PYTHON 'slow.py' AS s; FROM 'in[01].jsonl' |> EXTEND s.slow(a) AS b"
        " |> WRITE 'out/{shard:02d}.jsonl' OPTIONS (mode = 'overwrite');"
    )
    second = SHARDS.replace("2d}.jsonl'", "2d}.jsonl' OPTIONS (mode = 'overwrite')")
    with subprocess.Popen(command(steps, first), env=environment()) as process:
        while not (steps.folder / "begun").exists():
            time.sleep(0.02)
        plainly(steps, second)
        assert len(steps.read("out/*.jsonl")) == 40
        (steps.folder / "go").touch()
        assert process.wait(60) == 0
    assert rows(steps, "out/*.jsonl") == [(a, a) for a in range(20)]
    assert steps.names("out") == ["00.jsonl", "01.jsonl", "_SUCCESS", "_zql_manifest.json"]
    forget_calls(steps)


def test_the_manifest_says_what_files_are_and_what_made_them(steps):
    plainly(steps, SHARDS)
    manifest = json.loads((steps.folder / "out" / "_zql_manifest.json").read_text())
    entry = manifest["targets"]["{shard:02d}.jsonl"]
    for i in range(4):
        data = (steps.folder / "out" / f"{i:02d}.jsonl").read_bytes()
        assert entry["files"][f"{i:02d}.jsonl"] == {
            "rows": 10,
            "bytes": len(data),
            "crc32": f"{zlib.crc32(data):08x}",
            "input": str(steps.folder / f"in{i}.jsonl"),
        }
    assert entry["inputs"]["files"] == 4
    assert list(entry["functions"]) == ["udf.double"]
    assert entry["versions"].keys() == {"zql", "python", "duckdb"}


@pytest.mark.parametrize("way", ["view", "table"])
def test_rows_that_statements_share_are_not_made_again(steps, way):
    kind = "TEMP VIEW" if way == "view" else "TEMP TABLE"
    text = HEAD + (
        f"CREATE {kind} doubled AS FROM 'in*.jsonl' |> EXTEND q.double(a) AS b;"
        "FROM doubled |> WHERE a < 20 |> WRITE 'few.jsonl';"
        "FROM doubled |> EXTEND q.double(a + 100) AS c |> WRITE 'out/{shard}.jsonl';"
    )
    assert failed(steps, text, 135) > 40
    assert len(steps.read("few.jsonl")) == 20
    _, calls = resuming(steps, text)
    assert calls == 40, "those of the statement that failed"
    found = {(row["a"], row["b"], row["c"]) for row in steps.read("out/*.jsonl")}
    assert found == {(a, 2 * a, 200 + 2 * a) for a in range(40)}
