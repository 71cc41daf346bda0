"""Signals to `zql run` in the midst of its work: everything that belongs to it ends and goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from check_out import in_session

from leaks import children, semaphores

ROOT = Path(__file__).parents[2]
UDF = """
import time
def slow(id: int) -> int:
    open("busy", "w").close()
    time.sleep(1000)
"""
SCRIPT = (
    "IMPORT PYTHON 'slow.py' AS q; FROM 'in/*.jsonl' |> EXTEND q.slow(id) AS b"
    " |> WRITE 'out/{shard}.jsonl'"
)


def wait_for(condition, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL"])
def test_a_signal_ends_all_of_a_run(name, clean):
    (clean.folder / "slow.py").write_text(UDF)
    (clean.folder / "slow.zql").write_text(SCRIPT)
    (clean.folder / "busy").unlink(missing_ok=True)
    run = subprocess.Popen(
        [sys.executable, "-m", "zql", "run", "slow.zql", "--workers", "2", "--temp-dir", "temp"],
        cwd=clean.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ZQL_FAILPOINT": "",
            "ZQL_FAILPOINT_COUNTS": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for((clean.folder / "busy").exists, 60, "the function is not called")
    assert len(in_session(run.pid)) > 2
    assert semaphores(run.pid)
    number = getattr(signal, name)
    began = time.monotonic()
    run.send_signal(number)
    _, told = run.communicate(timeout=20)
    assert time.monotonic() - began < 5
    hard = name in ("SIGKILL", "SIGQUIT")
    assert run.returncode == (-number if hard else 128 + number), told
    wait_for(lambda: not in_session(run.pid), 10, f"processes are left: {in_session(run.pid)}")
    wait_for(lambda: not semaphores(run.pid), 10, f"semaphores are left: {semaphores(run.pid)}")
    there = [path.name for path in clean.out.iterdir()]
    assert all(hard and name.startswith(".") for name in there), "something is half made"
    if hard:  # the next run tidies up
        script = "FROM 'in/*.jsonl' |> WRITE 'out/{shard}.jsonl'"
        assert clean.wait(clean.go(script)) == 0, clean.errors()
        assert not list(clean.out.glob(".*"))
    assert list(clean.temp.glob(f"zql-{run.pid}-*")) == []


def started(folder, *command):
    """A run in a session of its own, and the server of its workers once that is there."""
    run = subprocess.Popen(
        [sys.executable, "-m", "zql", "run", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ZQL_FAILPOINT": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    server: list[int] = []

    def found():
        server[:] = [pid for pid, told in children(run.pid).items() if "forkserver" in told]
        return server or run.poll() is not None

    wait_for(found, 30, "no server of workers is started")
    assert server
    return run, server[0]


@pytest.fixture
def job(tmp_path):
    (tmp_path / "udf.py").write_text("def f(a: int) -> int:\n    return a + 1\n")
    (tmp_path / "job.zql").write_text(
        "IMPORT PYTHON 'udf.py' AS q; FROM range(100) AS r (a) |> SELECT q.f(a) AS b"
        " |> WRITE 'out/{shard}.csv' OPTIONS (mode = 'overwrite')"
    )
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server")
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_ctrl_c_while_workers_start_shows_no_traceback(job, delay):
    """A terminal sends it to all processes."""
    run, _ = started(job, "job.zql", "--workers", "2")
    time.sleep(delay)
    os.killpg(run.pid, signal.SIGINT)
    _, told = run.communicate(timeout=20)
    assert run.returncode in (130, 0)
    assert "Traceback" not in told
    wait_for(lambda: not in_session(run.pid), 10, f"processes are left: {in_session(run.pid)}")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server")
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.3])
def test_a_server_that_is_killed_is_started_again(job, delay):
    run, server = started(job, "job.zql", "--workers", "2")
    time.sleep(delay)
    with suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 0, told
    assert "Traceback" not in told
