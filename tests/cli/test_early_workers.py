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
    """The servers that were started, by each time that they were asked to."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    found, before = [], children()
    start = fork_server.ForkServer.start

    def noted(self):
        found.append(self)
        return start(self)

    monkeypatch.setattr(fork_server.ForkServer, "start", noted)
    yield found
    assert not fork_server._early
    assert not os.path.exists(tmp_path / "tmp") or os.listdir(tmp_path / "tmp") == []
    left = {pid: told for pid, told in children().items() if pid not in before}
    assert not [told for told in left.values() if "forkserver" in told]


def test_one_server_for_a_script_that_writes_what_a_function_gives(zql, started, tmp_path):
    (tmp_path / "job.zql").write_text(SCRIPT)
    done = zql("run", "job.zql")
    assert done.returncode == 0
    assert len({id(server) for server in started}) == 1
    assert (tmp_path / "out.jsonl").read_text().split() == ['{"i":1}', '{"i":2}', '{"i":3}']


def test_a_wrong_guess_leaves_nothing(zql, started):
    done = zql("run", "-", input=SCRIPT + "FROM nowhere |> SELEC 1")
    assert (done.returncode, len(started)) == (2, 1)


@pytest.mark.parametrize("arguments", [("run", "--dry-run", "-"), ("check", "-"), ("explain", "-")])
def test_what_runs_nothing_starts_none(zql, started, arguments):
    assert zql(*arguments, input=SCRIPT).returncode == 0
    assert not started


def test_neither_does_what_writes_nothing_or_brings_no_functions(zql, started):
    assert zql("run", "-", input="FROM range(3) |> SELECT 'LANGUAGE x' AS l").returncode == 0
    assert zql("run", "-", input="FROM range(3) |> WRITE 'out.jsonl'").returncode == 0
    assert not started
