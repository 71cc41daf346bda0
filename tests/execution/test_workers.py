"""Workers that die, hang or swallow memory; Ctrl-C; and what is left of them: nothing."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from zql.errors import Interrupted, UdfError
from zql.execution.left_overs import left_overs
from zql.execution.temporary_folders import remove_stale_folders
from zql.execution.work import BESIDE, left_work

from leaks import processes, semaphores

HERE = Path(__file__).parent


@pytest.fixture
def place(place):
    for i in range(4):
        place.rows(f"in{i}.jsonl", [{"id": i * 10 + k} for k in range(10)])
    return place


def ids(place, pattern="out/*.jsonl"):
    return [row["id"] for row in place.read(pattern)]


WRITE = "IMPORT PYTHON 'udf.py' AS q; FROM 'in*.jsonl' |> EXTEND q.f(id) AS b |> WRITE 'out/'"
WRITE += " OPTIONS (format = 'jsonl')"


def test_a_worker_that_dies_once_costs_nothing(place):
    place.functions(
        """
        import os
        def f(id: int) -> int:
            if id == 25 and not os.path.exists("died"):
                open("died", "w").close()
                os._exit(9)
            return id
        """
    )
    report = place.run(WRITE)
    assert ids(place) == list(range(40))
    assert report.counters["retries"] >= 1
    assert report.counters["records_written"] == 40


def test_killed_from_outside_in_the_middle(place):
    """The function kills another worker while both are busy: rows are there once each."""
    place.functions(
        """
        import os, signal, time
        def f(id: int) -> int:
            if id == 5 and not os.path.exists("killed"):
                open("killed", "w").close()
                with open("other") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
            if id == 15 and not os.path.exists("other"):
                with open("other.new", "w") as file:
                    file.write(str(os.getpid()))
                os.rename("other.new", "other")
                time.sleep(30)
            if id == 4:
                while not os.path.exists("other"):
                    time.sleep(0.01)
            return id
        """
    )
    report = place.run(WRITE)
    assert ids(place) == list(range(40))
    assert report.counters["retries"] >= 1


def test_a_poisonous_task_is_found_and_named(place):
    place.functions(
        """
        import os
        def f(id: int) -> int:
            with open(f"calls-{id}", "a") as file:
                file.write("x")
            if id == 27:
                os.abort()
            return id
        """
    )
    with pytest.raises(UdfError) as caught:
        place.run(WRITE)
    error = caught.value
    told = "rows 1 to 10 of in2.jsonl died 3 times (SIGABRT(-6)), while it called udf.f"
    assert told in error.message
    assert error.notes == (f'File "{place.folder}/udf.py", line 7 in f',)
    assert (place.folder / "calls-27").read_text() == "xxx"
    assert "out" not in place.names()


def test_a_task_that_hangs_once_is_ended_and_done_again(place):
    place.functions(
        """
        import os, time
        def f(id: int) -> int:
            if id == 25 and not os.path.exists("hung"):
                open("hung", "w").close()
                time.sleep(1000)
            return id
        """
    )
    with place.session() as session:
        session.set("task_timeout", "500ms")
        report = session.run(WRITE)
    assert ids(place) == list(range(40))
    assert report.counters["retries"] == 1


FAILURES = {
    "unpicklable": ("class E(Exception):\n    def __init__(self, a, b): super().__init__(a + b)",
                    "raise E('two ', 'things')", "E: two things"),
    "exit": ("import sys", "sys.exit(3)", "SystemExit: 3"),
    "interrupt": ("", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    "memory": ("", "raise MemoryError('big')", "MemoryError: big"),
    "recursion": ("def g(n): return g(n + 1)", "return g(0)", "RecursionError"),
    "broken text": ("class E(Exception):\n    def __str__(self): raise ValueError",
                    "raise E", "its text cannot be made"),
    "escape": ("", "raise ValueError('a\\x1b[2Jb')", "a\\x1b[2Jb"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_whatever_a_function_raises_comes_as_text(place, name):
    before, statement, said = FAILURES[name]
    place.functions(f"{before}\ndef f(id: int) -> int:\n    {statement}\n")
    with pytest.raises(UdfError) as caught:
        place.run(WRITE)
    assert said in caught.value.message
    assert "of in" in caught.value.message
    assert "\x1b" not in str(caught.value)


def test_a_generator_that_fails_midway(place):
    place.functions(
        """
        def f(r):
            yield {"n": r["id"]}
            if r["id"] == 13:
                raise ValueError("unlucky")
            yield {"n": -r["id"]}
        """
    )
    text = "IMPORT PYTHON 'udf.py' AS q; FROM 'in*.jsonl' |> FLATMAP q.f RETURNS (n BIGINT)"
    with pytest.raises(UdfError, match=r"row 4 of in1\.jsonl raised ValueError: unlucky"):
        place.run(text + " |> WRITE 'out.jsonl'")


def test_too_much_memory_ends_one_worker_not_the_machine(place):
    place.functions(
        """
        def f(id: int) -> int:
            if id == 12:
                block = bytearray(4 << 30)
                for i in range(0, len(block), 4096):
                    block[i] = 1
            return id
        """
    )
    with place.session(memory_limit="700MB") as session, pytest.raises(UdfError) as caught:
        session.run(WRITE)
    assert "memory" in caught.value.message
    assert "in1.jsonl" in caught.value.message


def children(pid):
    return [number for number, process in processes().items() if process.parent == pid]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def running(place):
    """A process in the middle of a run whose function sleeps for ever."""
    place.functions(
        """
        import time
        def f(id: int) -> int:
            open("busy", "w").close()
            time.sleep(1000)
        """
    )
    (place.folder / "run.py").write_text(
        textwrap.dedent(
            f"""
            from zql.errors import Interrupted
            from zql.session import Session
            if __name__ == "__main__":
                try:
                    with Session(temp_dir={str(place.temp)!r}, workers=2) as session:
                        session.run({WRITE!r})
                except Interrupted as error:
                    raise SystemExit(error.exit_code)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, "run.py"],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert wait_until((place.folder / "busy").exists, 60)
    below = children(process.pid)
    assert below
    assert semaphores(process.pid), "loky names them in another way now"
    yield process
    process.stderr.close()
    assert wait_until(lambda: not any(alive(pid) for pid in below)), "orphans are left"
    assert wait_until(lambda: not semaphores(process.pid)), "semaphores are left"
    if process.returncode == -signal.SIGKILL:
        remove_stale_folders(str(place.temp))
        for left in left_work("out/", BESIDE):
            left.remove()


@pytest.mark.parametrize("whom", ["process", "group"])
def test_ctrl_c_leaves_nothing(place, running, whom):
    send = os.killpg if whom == "group" else os.kill
    send(running.pid, signal.SIGINT)
    assert running.wait(20) == 130
    assert running.stderr.read() == ""
    assert "out" not in place.names()


def test_workers_end_with_a_coordinator_that_was_killed(place, running):
    running.kill()
    running.wait(20)


def test_interrupt_from_another_thread(place):
    import threading

    place.functions("import time\ndef f(id: int) -> int:\n    time.sleep(1000)\n")
    with place.session() as session:
        threading.Timer(2.0, session.interrupt).start()
        with pytest.raises(Interrupted):
            session.run(WRITE)


def test_stale_folders_are_removed(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    for name in (f"zql-{dead}-abc", f"zql-{os.getpid()}-abc", f"other-{dead}-abc", "zql-x-y"):
        (tmp_path / name).mkdir()
    remove_stale_folders(str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [f"zql-{os.getpid()}-abc", f"other-{dead}-abc", "zql-x-y"]
    )


def test_clean_removes_files_of_dead_processes_too(tmp_path):
    path = tmp_path / "zql-999999999-0000"
    path.write_text("left")
    (left,) = left_overs([str(tmp_path)], [], 1)
    left.remove()
    assert not path.exists()
