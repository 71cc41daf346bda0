"""The server of the workers starts before the script is read, and never stays behind."""

import os

import pytest
from zql.execution import fork_server

from leaks import children

FUNCTION = (
    "CREATE TEMP FUNCTION f(i INT64) RETURNS INT64 LANGUAGE python AS 'def f(i): return i + 1';\n"
)
SCRIPT = FUNCTION + "FROM range(3) AS r (i) |> SELECT f(i) AS i |> WRITE 'out.jsonl';"


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The servers that were started, and whether each of them was started early."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    found = []
    start = fork_server.ForkServer.start

    def noted(self):
        found.append(bool(self._owned))
        return start(self)

    monkeypatch.setattr(fork_server.ForkServer, "start", noted)
    yield found
    assert not fork_server._early
    assert not os.path.exists(tmp_path / "tmp") or os.listdir(tmp_path / "tmp") == []
    assert not [told for told in children().values() if "forkserver" in told]


def test_one_server_for_a_script_that_writes_what_a_function_gives(zql, started, tmp_path):
    (tmp_path / "job.zql").write_text(SCRIPT)
    done = zql("run", "job.zql")
    assert (done.returncode, started[0]) == (0, True)
    assert all(started)
    assert (tmp_path / "out.jsonl").read_text().split() == ['{"i":1}', '{"i":2}', '{"i":3}']


def test_a_wrong_guess_leaves_nothing(zql, started):
    done = zql("run", "-", input=SCRIPT + "FROM nowhere |> SELEC 1")
    assert (done.returncode, started) == (2, [True])


@pytest.mark.parametrize("arguments", [("run", "--dry-run", "-"), ("check", "-"), ("explain", "-")])
def test_what_runs_nothing_starts_none(zql, started, arguments):
    assert zql(*arguments, input=SCRIPT).returncode == 0
    assert not started


def test_neither_does_what_writes_nothing_or_brings_no_functions(zql, started):
    assert zql("run", "-", input="FROM range(3) |> SELECT 'LANGUAGE x' AS l").returncode == 0
    assert zql("run", "-", input="FROM range(3) |> WRITE 'out.jsonl'").returncode == 0
    assert not started
