"""Workers and coordinators that are killed or fail, at named points and at random times.

`ZQL_KILLS=500` makes as many random ones (`make soak`); the seed of each stands in its name.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest
from check_out import hidden_files
from zql.execution.pool import pids

MANY = int(os.environ.get("ZQL_KILLS", "20"))
KILLED = -signal.SIGKILL

COORDINATOR = [
    ("native", "folder_made:1:kill"),
    ("native", "note_written:1:kill"),
    ("native", "note_written:3:kill"),
    ("native", "before_success:1:kill"),
    ("native", "stage_begun:2:kill"),
    ("native", "file_begun:1:kill"),
    ("native", "file_written:2:kill"),
    ("native", "file_synced:3:kill"),
    ("native", "stage_ended:1:exit"),
    ("native", "publish_begun:1:kill"),
    ("native", "text_written:1:kill"),
    ("native", "before_rename:1:kill"),
    ("native", "after_rename:1:kill"),
    ("native", "before_rename:3:kill"),
    ("native", "after_rename:3:exit"),
    ("native", "files_named:1:kill"),
    ("native", "output_published:1:kill"),
    ("native", "output_published:2:kill"),
    ("native", "text_written:2:kill"),
    ("native", "run_ended:1:kill"),
    ("folders", "rows_dealt:1:kill"),
    ("folders", "file_synced:2:kill"),
    ("folders", "before_rename:2:kill"),
    ("folders", "after_rename:2:kill"),
    ("folders", "files_named:1:kill"),
    ("folders", "before_success:1:kill"),
    ("dealt", "exchange_dealt:1:kill"),
    ("dealt", "exchange_dealt:2:kill"),
    ("dealt", "partitions_read:1:kill"),
    ("dealt", "partitions_read:3:kill"),
    ("dealt", "kept_written:2:kill"),
    ("dealt", "stage_ended:2:exit"),
    ("dealt", "files_named:1:kill"),
    ("shards", "task_acked:2:kill"),
    ("joined", "files_joined:1:kill"),
    ("joined", "stage_ended:1:kill"),
]
FAILING = [
    ("native", "folder_made:1:raise"),
    ("native", "kept_written:1:raise"),
    ("native", "file_begun:1:raise"),
    ("native", "file_synced:2:raise"),
    ("native", "text_written:1:raise"),
    ("native", "before_rename:2:raise"),
    ("native", "after_rename:3:raise"),
    ("dealt", "exchange_dealt:1:raise"),
    ("dealt", "partitions_read:2:raise"),
    ("folders", "rows_dealt:1:raise"),
    ("folders", "before_rename:2:raise"),
]
WORKER = [
    "worker_started:1:kill",
    "task_begun:1:kill",
    "batch_read:3:exit",
    "batch_called:2:kill",
    "file_begun:2:exit",
    "file_written:1:kill",
    "task_ended:1:kill",
]


@pytest.mark.parametrize(("job", "fault"), COORDINATOR, ids=lambda text: text)
@pytest.mark.parametrize("before", ["nothing", "outputs"])
def test_a_coordinator_that_dies(job, fault, before, clean, references):
    if before == "outputs":
        if job not in ("native", "folders"):
            pytest.skip("one way is enough, as these take longer")
        clean.here(job)
    pid = clean.go(job, fault)
    assert clean.wait(pid) in (KILLED, 9), clean.errors()
    clean.check(job, references[job], pid)


@pytest.mark.parametrize(("job", "fault"), FAILING, ids=lambda text: text)
def test_a_disk_that_fails(job, fault, clean, references):
    """The error names a path, and nothing is left of the run."""
    pid = clean.go(job, fault)
    assert clean.wait(pid) == 1, clean.errors()
    assert "Input/output error" in clean.errors()
    assert str(clean.folder) in clean.errors() or " out" in clean.errors()
    assert not hidden_files(clean.out)
    assert list(clean.temp.glob(f"zql-{pid}-*")) == []
    clean.check(job, references[job], pid)


@pytest.mark.parametrize("fault", WORKER)
def test_a_worker_that_dies(fault, clean, references, arm):
    arm(fault)
    if fault.startswith("worker_started"):
        clean.session.runner()._pool.kill()
    clean.here("shards")
    assert arm.happened()
    arm("")
    clean.check("shards", references["shards"])


@pytest.mark.parametrize("seed", range(MANY * 3 // 5))
def test_a_coordinator_killed_at_a_random_time(seed, clean, references):
    chance = random.Random(seed)
    job = chance.choice(["native", "native", "native", "shards"])
    if chance.random() < 0.5:
        clean.here("native")
        job = "native"
    pid = clean.go(job)
    time.sleep(chance.uniform(0, 0.12 if job == "native" else 1.8))
    os.kill(pid, chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    clean.wait(pid)
    clean.check(job, references[job], pid)


@pytest.mark.parametrize("seed", range(MANY * 2 // 5))
def test_a_worker_killed_at_a_random_time(seed, clean, references):
    chance = random.Random(seed)
    pool = clean.session.runner().pool()
    killed = []

    def kill():
        workers = pids(pool.executor())
        if pool._server is not None:  # the process that workers are forked from
            workers.append(pool._server.start())
        if workers:
            killed.append(chance.choice(workers))
            try:
                os.kill(killed[-1], signal.SIGKILL)
            except ProcessLookupError:
                killed.pop()

    timer = threading.Timer(chance.uniform(0, 0.25), kill)
    timer.start()
    try:
        clean.here("shards")
    finally:
        timer.join()
    clean.check("shards", references["shards"])
