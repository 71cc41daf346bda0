"""`zql runs` and `zql clean`: what is remembered of runs, and what goes of them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from zql.execution.journal import records

ROOT = Path(__file__).parents[2]
DYING = """
import os, signal, time
def f(a: int) -> int:
    if os.path.exists("die") and a == 3:
        time.sleep(0.5)  # the run notes meanwhile what the first task has given
        with open(f"/proc/{os.getppid()}/stat") as file:  # the server's, which the run has started
            run = int(file.read().rpartition(")")[2].split()[1])
        os.kill(run, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return a
"""


@pytest.fixture
def zql(zql, tmp_path, monkeypatch):
    """The command line, with a state folder and a folder for temporary files of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / ".tmp"))
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "in3.jsonl").write_text('{"a": 3}\n')
    return zql


def shown(done):
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +[\d.]+ m?s", "WHEN", done.stdout)
    text = re.sub(r"-\d+-[0-9a-f]{16}", "-NUMBER", text.replace(os.getcwd(), "FOLDER"))
    return re.sub(r"[\d.]+ (bytes|kB)", "SIZE", text)


def killed(tmp_path):
    """A run whose process was killed while it wrote."""
    (tmp_path / "udf.py").write_text(DYING)
    (tmp_path / "die").touch()
    (tmp_path / "dies.zql").write_text(
        "IMPORT PYTHON 'udf.py' AS q; FROM 'in*.jsonl' |> EXTEND q.f(a) AS b"
        " |> WRITE 'out/{shard}.jsonl';"
    )
    command = [sys.executable, "-m", "zql", "run", "dies.zql", "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert done.returncode == -9
    (tmp_path / "die").unlink()


def test_nothing_is_remembered_of_queries(zql):
    zql("-c", "FROM 'in.jsonl'")
    done = zql("runs")
    assert done.stdout == ""
    assert done.stderr == "no runs that wrote are remembered\n"


def test_runs_with_state_rows_and_outputs(zql, tmp_path):
    zql("-c", "FROM 'in.jsonl' |> WRITE 'one.csv'; FROM 'in.jsonl' |> WRITE 'two.csv'")
    assert zql("-c", "FROM 'in.jsonl' |> WRITE 'b.csv'; FROM 'in.jsonl' |> WRITE 'one.csv'"
               ).returncode == 1  # fmt: skip
    killed(tmp_path)
    assert shown(zql("runs")) == (
        "killed       WHEN  0 rows  FOLDER/dies.zql\n"
        "failed R752  WHEN  2 rows  <command line> -> FOLDER/b.csv\n"
        "done         WHEN  4 rows  <command line> -> FOLDER/one.csv and 1 more\n"
    )
    (last,) = json.loads(zql("runs", "-n", 1, "--format", "json").stdout)
    assert last["state"] == "killed"
    assert last["outputs"] == []


def test_secrets_are_not_remembered(zql, tmp_path):
    zql("-c", "FROM 'in.jsonl' |> WRITE 'memory://user:password@b/o.jsonl?token=secret'")
    for path in (tmp_path / ".state").rglob("*.run"):
        text = path.read_text()
        assert "password" not in text
        assert "secret" not in text


def test_clean_removes_what_the_dead_have_left(zql, tmp_path):
    killed(tmp_path)
    assert list((tmp_path / "out").glob(".zql-work-*"))
    told = {zql("clean", "--dry-run", *more).stderr for more in ((), ("--temp-dir", ".tmp"))}
    assert len(told) == 1, "the same folder under another name is the same"
    done = zql("clean", "--dry-run")
    assert "would remove FOLDER/out/.zql-work-NUMBER: work of a dead run, SIZE" in shown(done)
    assert list((tmp_path / "out").glob(".zql-work-*"))
    done = zql("clean")
    assert "removed FOLDER/out/.zql-work-NUMBER: work of a dead run, SIZE" in shown(done)
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / ".tmp").iterdir()) == []
    assert zql("clean").stderr == "nothing is left\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="who lives is not known")
@pytest.mark.parametrize("way", ["clean", "run"])
def test_work_that_lost_its_lock_goes_too(zql, tmp_path, way):
    """Its process was killed when it removed it."""
    killed(tmp_path)
    (beside,) = (tmp_path / "out").glob(".zql-work-*")
    kept = tmp_path / ".tmp" / beside.name.replace(".zql-work-", "zqlwork-")
    (beside / "lock").unlink()
    (kept / "stage-1").mkdir(parents=True)
    (kept / "stage-1" / "rows.arrow").write_bytes(b"x" * 100)
    zql("clean") if way == "clean" else zql("run", "dies.zql")
    assert not beside.exists()
    assert way == "run" or not kept.exists()
    zql("clean")
    assert not kept.exists()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="semaphores are elsewhere")
def test_clean_removes_semaphores_of_killed_runs(zql, tmp_path):
    killed(tmp_path)
    (notes,) = (tmp_path / ".state").rglob("*.run")
    pid = next(records(str(notes)))["pid"]
    dead, alive = (f"/dev/shm/sem.loky-{p}-zqltest" for p in (pid, os.getpid()))
    for path in (dead, alive):
        with open(path, "w"):
            pass
    try:
        assert f"{dead}: a semaphore of a dead run" in zql("clean").stdout
        assert not os.path.exists(dead)
        assert os.path.exists(alive)
    finally:
        os.unlink(alive)


def test_a_run_goes_on_behind_another_that_was_killed(zql, tmp_path):
    killed(tmp_path)
    (before,) = json.loads(zql("runs", "--format", "json").stdout)
    assert before["seconds"] > 0
    done = zql("run", "dies.zql", "--resume", "--json")
    after = json.loads(zql("runs", "--format", "json").stdout)
    assert after[1] == before, "its notes say what its folders said"
    assert json.loads(done.stdout)["counters"]["tasks_reused"] == 1
    assert not list(tmp_path.rglob(".zql-work-*"))


def test_clean_removes_old_results_of_caches(zql, tmp_path):
    zql("run", "--cache", "kept", "-c", "FROM 'in.jsonl' |> WRITE 'one.csv'")
    (entry,) = (tmp_path / "kept").iterdir()
    assert zql("clean").stderr == "nothing is left\n"
    os.utime(entry, (0, 0))
    assert "a result that was not used for 30 days" in zql("clean").stdout
    assert list((tmp_path / "kept").iterdir()) == []


def test_clean_knows_the_caches_of_queries(zql, tmp_path):
    (tmp_path / "udf.py").write_text("def f(a: int) -> int:\n    return a + 1\n")
    query = "IMPORT PYTHON 'udf.py' AS q; SET cache = 'kept'; FROM 'in.jsonl' |> EXTEND q.f(a) AS b"
    zql("-c", query)
    assert zql("runs").stderr == "no runs that wrote are remembered\n"
    (entry,) = (tmp_path / "kept").iterdir()
    os.utime(entry, (0, 0))
    assert "a result that was not used for 30 days" in zql("clean").stdout
    assert not entry.exists()
