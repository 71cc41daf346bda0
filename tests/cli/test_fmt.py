"""`zql fmt`: files, folders and stdin; what it leaves alone, and what it says."""

import os
import stat
import sys

import pytest
from zql.cli.format_scripts import Formatting
from zql.display.screen import Screen
from zql.errors import InternalError
from zql.syntax import formatter

PLAIN = "from t |> limit 1"
STYLED = "FROM t\n|> LIMIT 1;\n"


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name}.zql"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_files_are_formatted_in_place(zql, tmp_path):
    write(tmp_path, a=PLAIN, b=STYLED)
    done = zql("fmt", "a.zql", "b.zql")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "1 script formatted, 1 script in style already\n"
    assert (tmp_path / "a.zql").read_text() == STYLED
    assert zql("fmt", "-q", "a.zql").stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zql", "b.zql"]


def test_check_names_what_would_change_and_changes_nothing(zql, tmp_path):
    write(tmp_path, a=PLAIN, b=STYLED)
    done = zql("fmt", "--check", "a.zql", "b.zql")
    assert (done.returncode, done.stdout) == (1, "a.zql\n")
    assert done.stderr == "1 script would be formatted, 1 script in style already\n"
    assert (tmp_path / "a.zql").read_text() == PLAIN
    assert zql("fmt", "--check", "b.zql").returncode == 0


def test_diff_shows_what_would_change(zql, tmp_path):
    write(tmp_path, a=PLAIN, b=STYLED)
    done = zql("fmt", "--diff", "a.zql", "b.zql")
    assert done.returncode == 0
    assert done.stdout == (
        "--- a.zql\n+++ a.zql\n@@ -1 +1,2 @@\n-from t |> limit 1\n"
        "\\ No newline at end of file\n+FROM t\n+|> LIMIT 1;\n"
    )
    assert (tmp_path / "a.zql").read_text() == PLAIN
    assert zql("fmt", "--diff", "--check", "a.zql").returncode == 1


def test_the_diff_has_colours_on_a_terminal(zql, tmp_path, monkeypatch):
    write(tmp_path, a=PLAIN)
    monkeypatch.setattr("zql.display.style.os.environ", {})
    screen = Screen()
    screen.style.color = True
    written = []
    monkeypatch.setattr(Screen, "write", lambda _, data: written.append(data.decode()))
    Formatting(screen, check=False, diff=True).format(str(tmp_path / "a.zql"))
    text = "".join(written)
    assert "\x1b[31m-from t |> limit 1\x1b[0m\n" in text
    assert "\x1b[32m+|> LIMIT 1;\x1b[0m\n" in text


def test_folders_are_searched(zql, tmp_path):
    inner = tmp_path / "jobs" / "daily"
    inner.mkdir(parents=True)
    hidden = tmp_path / "jobs" / ".venv"
    hidden.mkdir()
    write(inner, a=PLAIN)
    write(tmp_path / "jobs", b=PLAIN)
    write(hidden, c=PLAIN)
    (inner / "notes.txt").write_text(PLAIN)
    done = zql("fmt", "--check", "jobs", "jobs/daily", "jobs/b.zql")
    assert done.stdout.splitlines() == [os.path.join("jobs", "b.zql"),
                                        os.path.join("jobs", "daily", "a.zql")]  # fmt: skip
    assert zql("fmt", "jobs").stderr == "2 scripts formatted\n"
    assert (hidden / "c.zql").read_text() == PLAIN
    assert (inner / "notes.txt").read_text() == PLAIN


def test_stdin_goes_to_stdout(zql):
    done = zql("fmt", "-", input=PLAIN)
    assert (done.stdout, done.stderr, done.returncode) == (STYLED, "", 0)
    assert zql("fmt", "--check", "-", input=PLAIN).stdout == "<stdin>\n"
    wrong = zql("fmt", "-", input="from t |> limt 1")
    assert (wrong.stdout, wrong.returncode) == ("", 2)
    assert "<stdin>:1:11" in wrong.stderr


def test_what_is_no_script_is_left_alone_and_the_others_are_formatted(zql, tmp_path):
    write(tmp_path, a="from t |> limt 1", b=PLAIN, c=b"FROM '\xe9'")
    done = zql("fmt", "a.zql", "missing.zql", "c.zql", "b.zql")
    assert done.returncode == 2
    assert "a.zql:1:11" in done.stderr
    assert "cannot read missing.zql" in done.stderr
    assert "not UTF-8" in done.stderr
    assert done.stderr.endswith("1 script formatted\n")
    assert (tmp_path / "a.zql").read_text() == "from t |> limt 1"
    assert (tmp_path / "b.zql").read_text() == STYLED
    assert zql("fmt", "--check", "a.zql", "b.zql").returncode == 2


def test_nothing_to_format_is_wrong_usage(zql):
    done = zql("fmt")
    assert done.returncode == 2
    assert "zql fmt FILE" in done.stderr


def test_marks_and_line_ends_stay(zql, tmp_path):
    write(tmp_path, a=b"\xef\xbb\xbffrom t\r\n|> limit 1\r\n")
    assert zql("fmt", "a.zql").returncode == 0
    assert (tmp_path / "a.zql").read_bytes() == b"\xef\xbb\xbfFROM t\r\n|> LIMIT 1;\r\n"
    assert zql("fmt", "--check", "a.zql").returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
def test_permissions_and_links_stay(zql, tmp_path):
    write(tmp_path, a=PLAIN)
    path = tmp_path / "a.zql"
    path.chmod(0o754)
    (tmp_path / "link.zql").symlink_to("a.zql")
    assert zql("fmt", "link.zql", "a.zql").stderr == "1 script formatted\n"
    assert (tmp_path / "link.zql").is_symlink()
    assert path.read_text() == STYLED
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


def test_a_file_that_cannot_be_written_stays_whole(zql, tmp_path, monkeypatch):
    write(tmp_path, a=PLAIN)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zql.cli.format_scripts.os.replace", refuse)
    done = zql("fmt", "a.zql")
    assert done.returncode == 1
    assert "cannot write a.zql: Permission denied" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.zql"]
    assert (tmp_path / "a.zql").read_text() == PLAIN


def test_a_bug_that_would_change_the_script_leaves_the_file(zql, tmp_path, monkeypatch):
    write(tmp_path, a=PLAIN)
    monkeypatch.setattr(formatter, "lay_out", lambda *_: "FROM t")
    done = zql("fmt", "a.zql")
    assert done.returncode == InternalError.exit_code
    assert "ZQL-X900" in done.stderr
    assert (tmp_path / "a.zql").read_text() == PLAIN
