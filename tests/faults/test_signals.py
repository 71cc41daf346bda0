"""Signals to `zql run` in the midst of its work: everything that belongs to it ends and goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_out import in_session

from leaks import semaphores

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
