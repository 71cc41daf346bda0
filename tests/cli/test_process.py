"""The process: readers that go away, full disks, closed streams, Ctrl-C, bugs."""

import os
import re
import signal
import subprocess
import sys
import time

import pexpect
import pytest
from zql.cli.process import guarded

ZQL = [sys.executable, "-m", "zql"]
# More rows than any machine counts while a test waits, in little memory.
ENDLESS = "FROM range(1000000000000) |> AGGREGATE sum(range * 3 % 7) AS s"


def shell(command, **more):
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=False,
        executable="/bin/bash", **more
    )  # fmt: skip


@pytest.mark.parametrize("format", ["jsonl", "csv", "json", "arrow", "parquet"])
def test_a_reader_that_goes_is_no_error(format):
    query = "FROM range(100000000) |> SELECT range AS n, 'some text' AS t"
    command = f'{" ".join(ZQL)} -c "{query}" --format {format}'
    done = shell(f"{command} | head -c 5 >/dev/null; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_an_error():
    done = shell(f'{" ".join(ZQL)} -c "FROM range(10)" > /dev/full')
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_streams():
    done = shell(f'{" ".join(ZQL)} -c "FROM range(2)" --csv <&- 2>&-')
    assert (done.returncode, done.stdout) == (0, "range\n0\n1\n")
    assert shell(f'{" ".join(ZQL)} -c "FROM range(2)" --csv >&-').returncode == 0


def test_a_narrow_encoding():
    done = shell(
        f"{' '.join(ZQL)} -c \"FROM range(1) |> SELECT 'é' AS e\" --format table",
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0
    assert "| ?       |" in done.stdout
    assert done.stdout.startswith("+---------+\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_run_and_leaves_nothing(tmp_path, number, code):
    run = subprocess.Popen(
        [*ZQL, "-c", ENDLESS, "--temp-dir", str(tmp_path), "-o", "o.csv"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not any(tmp_path.iterdir()):
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)
    time.sleep(0.2)
    run.send_signal(number)
    out, err = run.communicate(timeout=20)
    assert run.returncode == code
    assert out == ""
    assert err == "interrupted\n"
    assert list(tmp_path.iterdir()) == []


FINALIZING = """
import os, signal, time, weakref
from zql.cli.process import guarded

class Held: pass

def call():
    held = Held()
    weakref.finalize(held, os.kill, os.getpid(), signal.SIGINT)
    del held
    time.sleep(10)
    return 0

raise SystemExit(guarded(call))
"""


def test_a_signal_is_heard_while_an_object_is_tidied_up():
    """Python drops what is raised there."""
    done = subprocess.run([sys.executable, "-c", FINALIZING], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")


def test_ctrl_c_before_the_program_has_begun(tmp_path):
    """While click is imported, for one: there is nothing to be said."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    done = subprocess.run([*ZQL, "--version"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_bug_asks_for_a_report(capsys):
    def broken():
        raise LookupError("not \x1b[31mthere")

    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        assert guarded(broken) == 1
        short = capsys.readouterr().err
        assert guarded(broken, verbose=True) == 1
        long = capsys.readouterr().err
    finally:
        for number, handler in zip(
            (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), handlers, strict=True
        ):
            signal.signal(number, handler)
    assert "internal error: LookupError: not \\x1b[31mthere" in short
    assert "please report it" in short
    assert "Traceback" not in short
    assert "Traceback" in long
    assert "in broken" in long


def on_terminal(*args, columns=80, env=None):
    """What a terminal of 80 columns gets, and the exit code."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    child = pexpect.spawn(
        ZQL[0], [*ZQL[1:], *args], dimensions=(40, columns), encoding="utf-8", timeout=30,
        env={**environment, "TERM": "xterm-256color", **(env or {})},
    )  # fmt: skip
    text = child.read()
    child.close()
    return text.replace("\r\n", "\n"), child.exitstatus


def test_a_terminal_gets_a_table_in_colour_and_in_its_width():
    names = ", ".join(f"'{'x' * 20}' AS column_{i}" for i in range(9))
    text, code = on_terminal("-c", f"FROM range(1) |> SELECT {names}", columns=60)
    assert code == 0
    assert "\x1b[1m" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 60
    assert "9 columns (" in plain


@pytest.mark.parametrize(("args", "env"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_no_colour_when_that_is_wanted(args, env):
    text, _ = on_terminal("-c", "FROM nowhere", *args, env=env)
    assert "nowhere" in text
    assert "\x1b" not in text


def test_a_terminal_is_not_fed_binary_data():
    text, code = on_terminal("-c", "FROM range(1)", "--format", "parquet")
    assert code == 2
    assert "a terminal cannot show parquet" in text


def test_files_written_are_told_where_results_stand(tmp_path):
    text, code = on_terminal("-c", f"FROM range(5) |> WRITE '{tmp_path}/o.csv'")
    assert code == 0
    assert re.search(r"wrote \S+/o\.csv: 5 rows, \d+ bytes in ", text)
