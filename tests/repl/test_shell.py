"""The shell in a terminal of its own: what is typed goes in, what is shown comes out."""

import os
import re
import sys

import pexpect
import pytest

MARKS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """A shell in a pty; `type` sends a line and gives what the shell shows for it."""

    def __init__(self, folder, *args, init="", rows=50):
        (folder / "init").write_text(init)
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "zql", "--init", str(folder / "init"), *args],
            cwd=str(folder),
            dimensions=(rows, 100),
            encoding="utf-8",
            timeout=30,
            env={
                **environment,
                "TERM": "xterm-256color",
                "PROMPT_TOOLKIT_NO_CPR": "1",
                "ZQL_HISTORY": str(folder / "history"),
            },
        )
        self.greeting = self.wait()

    def wait(self):
        """What comes until the shell asks for input, and turns bracketed paste on for it."""
        self.child.expect_exact("\x1b[?2004h")
        return MARKS.sub("", self.child.before)

    def send(self, line):
        """Sends a line that ends an input: the shell turns bracketed paste off and runs it."""
        self.child.send(line + "\r")
        self.child.expect_exact("\x1b[?2004l")

    def type(self, line):
        self.send(line)
        return self.wait()

    def leave(self):
        self.child.send("\x04")
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_terminal(*args, **more):
        opened.append(Terminal(tmp_path, *args, **more))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.child.close(force=True)


def test_a_session(terminal, tmp_path):
    (tmp_path / "script.zql").write_text("FROM range(1) |> SELECT 77 AS from_script;\n.mode csv\n")
    shell = terminal()
    assert "ZQL 0." in shell.greeting

    shown = shell.type("FROM range(3) |> SELECT range AS n, 'text ' || range AS t;")
    assert "│   n    │    t    │" in shown
    assert "3 rows" in shown
    assert "text 2" in shown

    assert "│      2 │" in shell.type("|> WHERE n = 2;")
    assert "1 row" in shell.type("|> SELECT t;")

    assert "│ text 2  │" in shell.type("FROM _ |> WHERE _.t <> 'x';")
    assert "1 row" in shell.type("FROM _ |> JOIN (FROM _) AS other USING (t);")

    wrong = shell.type("FROM range(3) |> WHERE rnage > 1;")
    assert 'did you mean "range"?' in wrong
    assert "^^^^^" in wrong

    shell.type("CREATE TEMP VIEW v AS FROM range(5);")
    assert "v" in shell.type(".tables").splitlines()
    shell.type("FROM range(9) |> SELECT 5 AS five |> LIMIT 1;")
    assert "range" in shell.type(".schema v")
    assert "_" not in shell.type(".tables").splitlines()
    assert "5-left" in shell.type("|> SELECT five || '-left' AS rest;")

    assert 'did you mean ".tables"?' in shell.type(".tabels")
    assert "timer is on" in shell.type(".timer on")
    assert re.search(r"took \d", shell.type("FROM v;"))
    assert "timer is off" in shell.type(".timer off")
    assert "rows shown: 2" in shell.type(".maxrows 2")
    assert "5 rows (2 shown)" in shell.type("FROM v;")
    assert "did you mean" in shell.type(".mode cvs")

    assert "77" in shell.type(".read script.zql")
    assert "range\n0\n" in shell.type("FROM range(1);")
    assert "cannot read missing.zql" in shell.type(".read missing.zql")
    assert ".maxrows" in shell.type(".help")
    assert shell.leave() == 0


def test_several_lines_end_with_a_semicolon_or_an_empty_line(terminal):
    shell = terminal()
    shell.child.send("FROM range(4)\r")
    shell.child.expect_exact("...>")
    shell.child.send("|> AGGREGATE\r")
    shell.child.expect_exact("...>")
    assert "6" in shell.type("sum(range) AS total;")
    shell.child.send("FROM range(40) |> AGGREGATE max(range) AS top\r")
    shell.child.expect_exact("...>")
    assert "39" in shell.type("")
    assert shell.leave() == 0


def test_ctrl_c_clears_the_line_and_stops_a_query(terminal):
    shell = terminal()
    shell.child.send("FROM nothing that is")
    shell.child.send("\x03")
    shell.wait()
    shell.send("FROM range(1000000000000) |> AGGREGATE sum(range * 3 % 7) AS s;")
    # The terminal is the query's own once the line is sent: now Ctrl-C is a signal.
    shell.child.expect(pexpect.TIMEOUT, timeout=0.5)
    shell.child.sendintr()
    assert "interrupted" in shell.wait()
    assert "42" in shell.type("FROM range(1) |> SELECT 42 AS answer;")
    assert shell.leave() == 0


def test_ways_out(terminal):
    for word in (".quit", ".exit", "\\q", "exit"):
        shell = terminal()
        shell.child.send(word + "\r")
        shell.child.expect(pexpect.EOF)
        shell.child.close()
        assert shell.child.exitstatus == 0


def test_the_first_file_and_the_options(terminal):
    shell = terminal(
        "--no-color", "-p", "n=3", init="CREATE TEMP VIEW mine AS FROM range(2);\n.mode csv\n"
    )
    assert "range\n0\n1\n" in shell.type("FROM mine;")
    assert "x\n3\n" in shell.type("FROM range(1) |> SELECT $n AS x;")
    assert shell.leave() == 0


def test_what_data_says_does_not_reach_the_terminal_raw(terminal):
    shell = terminal()
    shell.send("FROM range(1) |> SELECT chr(27) || ']0;x' || chr(7) AS a;")
    shell.wait()
    raw = shell.child.before
    assert "\\x1b]0;x\\x07" in raw
    assert "\x1b]0;x" not in raw
    assert shell.leave() == 0
