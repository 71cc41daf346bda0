"""What every executor promises, asked of each; and random schedules of the tasks of a stage."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import count as numbers
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_executor import FakeExecutor
from zql import failpoints
from zql.errors import InternalError, Interrupted, RunError, UdfError
from zql.execution import tasks, worker
from zql.execution.engine import Engine
from zql.execution.executor import Executor, InProcess, Job
from zql.execution.kept import KeptFile
from zql.execution.pool import Pool
from zql.execution.rejects import Rejected, RejectWatch
from zql.execution.report import StepCount
from zql.execution.reuse import Finished
from zql.execution.run import Run
from zql.execution.settings import Settings
from zql.execution.tallies import Tally
from zql.execution.task import Failure, TaskResult, TaskSpec
from zql.execution.writing import KeptOutput
from zql.expr.expression import Column
from zql.expr.functions import ErrorPolicy, PythonFunction
from zql.logical.plan import BatchInput, MapRows, Scan, ScanColumn
from zql.physical.plan import CallPython, Keep, PhysicalPlan, Stage
from zql.schema import InputFile
from zql.session import Session
from zql.storage.format import Split

from leaks import Leaks

# ---- jobs --------------------------------------------------------------------------------------


def double(_engine, number):
    return number * 2


def count(engine, number):
    return engine.rows(f"SELECT count(*) FROM range({number})")[0][0]


def note(_engine, given):
    path, number = given
    time.sleep(0.3)
    with open(path, "a") as file:
        file.write(f"{number}\n")


def late(_engine, seconds):
    time.sleep(seconds)


class UnsendableError(Exception):
    def __init__(self, a, b):
        super().__init__(a + b)


def fail(_engine, number):
    if number == 1:
        raise UnsendableError("two ", "things")
    return number


def leave(_engine, number):
    raise SystemExit(3)


def data_of_failure(_engine, number):
    return TaskResult(number, None, failure=Failure("UdfError", "R710", "it failed"))


def die(_engine, given):
    folder, number, times = given
    if number == 3:
        with open(os.path.join(folder, "tries"), "a") as file:
            file.write("x")
        if os.path.getsize(os.path.join(folder, "tries")) <= times:
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return number


def jobs(function, arguments):
    return [Job(i, function, argument, f"part {i}") for i, argument in enumerate(arguments)]


# ---- the contract ------------------------------------------------------------------------------

SETTINGS = Settings(workers=2)
ALL = ["in_process", "pool", "fake"]
ISOLATED = ["pool"]
"""Those that outlive what a job does to its process."""


@pytest.fixture(scope="module")
def executors(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("pool"))
    engine = Engine(replace(SETTINGS, temp_dir=folder))
    os.mkdir(os.path.join(folder, "workers"))
    made = {
        "in_process": InProcess(engine, SETTINGS),
        "pool": Pool(SETTINGS, os.path.join(folder, "workers")),
        "fake": FakeExecutor(engine, SETTINGS, 7),
    }
    yield made
    for executor in made.values():
        executor.close()
    engine.close()
    assert os.listdir(os.path.join(folder, "workers")) == []


@pytest.fixture(params=ALL)
def executor(request, executors) -> Executor:
    return executors[request.param]


@pytest.fixture(params=ISOLATED)
def isolated(request, executors) -> Executor:
    return executors[request.param]


def works(executor):
    return [o.value for o in executor.run(jobs(double, [4]))] == [8]


@pytest.mark.parametrize("many", [0, 1, 2, 50])
def test_each_job_has_one_outcome(executor, many):
    executor.warm()
    found = [(o.job.id, o.value, o.death) for o in executor.run(jobs(double, range(many)))]
    assert sorted(found) == [(i, 2 * i, None) for i in range(many)]


def test_jobs_have_an_engine(executor):
    assert sorted(o.value for o in executor.run(jobs(count, [3, 5, 8]))) == [3, 5, 8]
    assert executor.settings == SETTINGS


def test_a_failure_is_data(executor):
    outcomes = list(executor.run(jobs(data_of_failure, range(3))))
    assert sorted(o.value.id for o in outcomes) == [0, 1, 2]
    assert {o.value.failure.message for o in outcomes} == {"it failed"}


def test_a_function_that_raises_is_a_bug_told_in_words(executor):
    """Also when the exception is of a class that cannot be sent."""
    with pytest.raises(InternalError, match="on part 1: UnsendableError: two things"):
        list(executor.run(jobs(fail, range(4))))
    assert works(executor)


def test_who_stops_taking_outcomes_stops_the_jobs(executor, tmp_path):
    path = tmp_path / "done"
    outcomes = executor.run(jobs(note, [(str(path), i) for i in range(20)]))
    first = next(outcomes)
    assert first.death is None
    outcomes.close()
    before = path.read_text()
    assert len(before.splitlines()) < 6
    assert works(executor)
    time.sleep(0.4)
    assert path.read_text() == before


def test_interrupted_from_another_thread(executor):
    timer = threading.Timer(0.4, executor.interrupt)
    timer.start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        list(executor.run(jobs(late, [0.3] * 100)))
    assert time.monotonic() - began < 5
    timer.join()
    assert works(executor), "an interrupt is for one run"


def test_a_limit_in_time(executor):
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        list(executor.run(jobs(late, [0.3] * 100), 0.5))
    assert time.monotonic() - began < 5
    assert works(executor)


def test_killed_it_starts_again(executor):
    executor.kill()
    executor.kill()
    assert works(executor)


# ---- those that outlive their jobs ---------------------------------------------------------------


def test_a_job_that_dies_once_is_done_again(isolated, tmp_path):
    isolated.retries = 0
    outcomes = list(isolated.run(jobs(die, [(str(tmp_path), i, 1) for i in range(8)])))
    assert sorted(o.value for o in outcomes) == list(range(8))
    assert all(o.death is None for o in outcomes)
    assert isolated.retries >= 1


def test_only_the_guilty_job_dies_and_after_so_many_tries(isolated, tmp_path):
    outcomes = {
        o.job.id: o for o in isolated.run(jobs(die, [(str(tmp_path), i, 99) for i in range(12)]))
    }
    assert set(outcomes) == set(range(12))
    assert [i for i, o in outcomes.items() if o.death] == [3]
    assert outcomes[3].death.tries == SETTINGS.tries
    assert (tmp_path / "tries").read_text() == "x" * SETTINGS.tries
    assert all(o.value == i for i, o in outcomes.items() if i != 3)


def test_a_function_that_leaves_its_process_is_a_bug(isolated):
    with pytest.raises(InternalError, match="part 0: SystemExit: 3"):
        list(isolated.run(jobs(leave, [0])))
    assert works(isolated)


def test_a_job_may_not_take_for_ever(tmp_path):
    pool = Pool(replace(SETTINGS, workers=1, task_timeout=0.5, tries=2), str(tmp_path))
    try:
        outcomes = {o.job.id: o for o in pool.run(jobs(late, [0, 1000, 0.1]))}
    finally:
        pool.close()
    assert outcomes[1].death.seconds == 0.5
    assert outcomes[1].death.tries == 2
    assert outcomes[0].death is outcomes[2].death is None


def test_workers_that_cannot_start_are_an_error(tmp_path):
    pool = Pool(Settings(workers=1), str(tmp_path / "missing"))
    with pytest.raises((RunError, FileNotFoundError)):
        list(pool.run(jobs(double, [1])))
    pool.close()


def test_workers_that_do_not_begin_are_an_error(tmp_path, monkeypatch):
    """However long they would take: every wait has an end."""
    monkeypatch.setattr("zql.execution.pool._START_SECONDS", 0.2)
    failpoints.arm("worker_starting:*:sleep=1000")
    pool = Pool(Settings(workers=1), str(tmp_path))
    try:
        with pytest.raises(RunError, match=r"cannot be started: none began in 0\.2 s"):
            list(pool.run(jobs(double, [1])))
    finally:
        failpoints.arm("")
        pool.close()


def test_killed_while_jobs_wait_it_leaves_nothing(tmp_path):
    """loky's own thread would die of a job that it was told to drop, with its semaphores open."""
    leaks = Leaks()
    for tried in range(3):
        pool = Pool(replace(SETTINGS, workers=1), str(tmp_path))
        assert works(pool)
        for job in jobs(late, [0.001] * 50):
            pool.executor().submit(worker.work, job, {})
        time.sleep(0.001 * tried)
        pool.close()
    assert leaks.found() == []


def length(_engine, data):
    time.sleep(0.05)
    return len(data)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_while_a_large_job_is_on_its_way_it_leaves_nothing(tmp_path, workers):
    """More than a pipe holds: loky's thread that sends it would wait for good."""
    leaks, threads = Leaks(), set(threading.enumerate())
    pool = Pool(replace(SETTINGS, workers=workers), str(tmp_path))
    outcomes = pool.run(jobs(length, [bytes(3_000_000)] * 8))
    assert next(outcomes).value == 3_000_000
    outcomes.close()
    pool.close()
    del outcomes, pool
    assert leaks.found() == []
    assert set(threading.enumerate()) <= threads


def test_nothing_is_left_of_a_closed_pool(tmp_path):
    leaks = Leaks()
    pool = Pool(replace(SETTINGS, workers=1), str(tmp_path))
    assert works(pool)
    pool.close()
    assert list(tmp_path.iterdir()) == []
    assert leaks.found() == []


# ---- random schedules ----------------------------------------------------------------------------

A = Column("a", "BIGINT")
FUNCTION = PythonFunction("f", "f", "/nowhere/udf.py")
POLICY = ErrorPolicy(1, "SKIP", "MAP")


def stage(tasks: int, limit: int | None) -> Stage:
    files = tuple(InputFile(f"in{i}", 1, "1") for i in range(tasks))
    call = MapRows(BatchInput((A,)), "MAP", FUNCTION, (), (A,), (), (A,), ("a",), POLICY)
    return Stage(1, Scan("t", "jsonl", files, (ScanColumn(A, "a"),)), (CallPython(call),), Keep(),
                 limit=limit)  # fmt: skip


class Host:
    """What a run needs of its runner, with the executor given."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.engine = SimpleNamespace(limited=lambda **_: nullcontext())
        self.settings, self.objects, self.tables = settings, {}, None
        self.shared = None
        self.executor: FakeExecutor | None = None
        self._folder = folder

    def pool(self):
        return self.executor

    def folder(self):
        return str(self._folder)

    def shared_folders(self, objects):
        return {}

    def take_retries(self):
        count, self.executor.retries = self.executor.retries, 0
        return count


def attempt_of(rows, failing, number):
    """What an attempt at a task gives: the same each time, but for the name of its file."""

    def attempt(job: Job) -> TaskResult:
        spec: TaskSpec = job.argument
        next(number)
        if spec.id in failing:
            return TaskResult(spec.id, None, failure=Failure("UdfError", "R710", str(spec.id)))
        mine = rows[spec.id]
        path = f"{spec.output.folder}/{spec.id}-{next(number)}"
        return TaskResult(
            spec.id,
            KeptFile(path, mine, mine * 8),
            mine + 1,
            (StepCount("CALL f", mine, mine, 0.0, mine, 1),),
            rejected=(Rejected(1, 1, mine, f"row of {spec.id}"),),
            tallies={"seen": Tally("sum", mine)},
        )

    return attempt


def test_two_thousand_random_schedules(tmp_path):
    """Whatever ends first, is lost or comes twice: the same rows, each attempt counted once."""
    seen = {"done": 0, "dead": 0, "failed": 0}
    settings = Settings(workers=2, inline_bytes=-1, temp_dir=str(tmp_path))
    host = Host(settings, tmp_path)
    with Run(host, PhysicalPlan(())) as run:
        for seed in range(2000):
            chance = random.Random(seed)
            tasks = chance.randint(1, 8)
            rows = [chance.randint(0, 5) for _ in range(tasks)]
            limit = chance.choice([None, None, chance.randint(1, 12)])
            failing = {chance.randrange(tasks)} if chance.random() < 0.1 else set()
            host.executor = fake = FakeExecutor(
                None,
                settings,
                seed,
                attempt=attempt_of(rows, failing, numbers()),
                deaths=chance.choice([0, 0.1, 0.4]),
                twice=chance.choice([0, 0.3]),
                told_twice=chance.choice([0, 0.3]),
            )
            run.tallies = {}
            seen[_one_schedule(run, stage(tasks, limit), rows, failing, fake)] += 1
    assert all(seen.values()), seen
    assert sum(seen.values()) == 2000


def caught(call):
    """What a call gives, or the error that it raises."""
    try:
        return call(), None
    except UdfError as error:
        return None, error


def _one_schedule(run, one, rows, failing, fake):
    inputs = [Split(file) for file in one.source.files]
    outputs = [KeptOutput("kept")] * len(inputs)
    done, error = caught(lambda: run.tasks(one, inputs, outputs))
    if error is not None and error.code == "R710":
        assert int(error.message) in failing
        return "failed"
    if error is not None:
        assert "died 3 times (chance)" in error.message
        assert fake.dead
        return "dead"
    assert one.limit is not None or not (failing or fake.dead)
    wanted = _prefix(rows, one.limit)
    assert [r.id for r in done] == list(range(len(wanted)))
    assert [r.file.rows for r in done] == wanted
    report = run.reports[-1]
    assert (report.tasks, report.rows) == (len(wanted), sum(wanted))
    assert report.records_in == sum(wanted) + len(wanted)
    calls = [(step.calls, step.rejected) for step in report.steps]
    assert calls == [(sum(wanted), len(wanted))]
    assert run.tallies["seen"].value == sum(wanted)
    return "done"


def _prefix(rows, limit):
    found, total = [], 0
    for mine in rows:
        if limit is not None and total >= limit:
            break
        found.append(mine)
        total += mine
    return found


def test_rejected_rows_count_once_for_the_limit_of_on_error():
    """A second outcome of a task does not use up what ON ERROR allows."""
    one = stage(4, None)
    settings = Settings()
    specs = tasks.specs(
        one, [Split(f) for f in one.source.files], [KeptOutput("kept")] * 4, settings, {}
    )
    watch = RejectWatch([replace(POLICY, most_rows=4)])
    fake = FakeExecutor(
        None, settings, 3, told_twice=1.0, attempt=attempt_of([1] * 4, set(), numbers())
    )
    assert len(tasks.run_tasks(specs, fake, watch, None, Finished())) == 4


def test_random_schedules_of_real_tasks(tmp_path, monkeypatch):
    """Scripts through a session whose executor is one of chance: the same files each time."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "udf.py").write_text("def f(id: int) -> int:\n    return id + 1\n")
    for i in range(3):
        text = "".join(f'{{"id":{i * 10 + k}}}\n' for k in range(4))
        (tmp_path / f"in{i}.jsonl").write_text(text)
    write = (
        "IMPORT PYTHON 'udf.py' AS q; FROM 'in*.jsonl' |> EXTEND q.f(id) AS b"
        " |> WRITE 'out/{shard}.jsonl' OPTIONS (mode = 'overwrite')"
    )
    expected = None
    with Session(temp_dir=str(tmp_path / "temp")) as session:
        session.set("split_size", 16)
        runner = session.runner()
        for seed in range(25):
            fake = FakeExecutor(
                session.engine(), session.settings, seed, deaths=0.15, twice=0.3, told_twice=0.3
            )
            runner._pool = fake
            report, error = caught(lambda: session.run(write))
            found = {p.name: p.read_bytes() for p in (tmp_path / "out").glob("[!_]*")}
            if error is not None:
                assert fake.dead, seed
                assert "died 3 times (chance), while it called udf.f" in error.message
                assert found == (expected or {}), "a run that failed changed something"
                continue
            assert report.counters["records_written"] == 12
            expected = expected or found
            assert found == expected, seed
    assert expected
