"""Errors and summaries as people, editors and CI see them."""

import json
import re
from types import SimpleNamespace

import pytest
from zql.display.errors import as_github, as_json, flat, render_error
from zql.display.style import Style
from zql.display.summary import common_folder, stage_lines, written_lines
from zql.errors import BindError, ErrorList, RunError
from zql.execution.report import RunReport, StageReport, StepCount
from zql.source import Source, Span

TEXT = "FROM t\n|> WHERE titel = 'x'\n"


def unknown_column():
    source = Source("clean.zql", TEXT)
    start = TEXT.index("titel")
    error = BindError(
        'unknown column "titel"',
        code="N201",
        span=Span(source, start, start + 5),
        label="not a column here",
        hint='did you mean "title"?',
        notes=("columns here: id, title",),
        candidates=("title",),
    )
    error.statement = 1
    return error


def test_colour_changes_no_word():
    error = unknown_column()
    painted = render_error(error, Style(color=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == render_error(error) == error.render()
    assert painted.startswith("\x1b[1;31mZQL-N201\x1b[0m")


def test_what_came_from_data_is_escaped():
    error = RunError("cannot read \x1b]0;owned\x07.csv", code="R720", hint="\u202e")
    shown = render_error(error, Style(color=True))
    assert "\x1b]" not in shown
    assert "\\x1b]0;owned\\x07.csv" in shown
    assert "\\u202e" in shown


def test_json_has_every_part():
    (record,) = json.loads(as_json([unknown_column()]))
    assert record == {
        "file": "clean.zql",
        "line": 2,
        "column": 10,
        "end_line": 2,
        "end_column": 15,
        "code": "ZQL-N201",
        "message": 'unknown column "titel"',
        "hint": 'did you mean "title"?',
        "notes": ["columns here: id, title"],
        "candidates": ["title"],
        "statement": 1,
        "operator": None,
    }
    assert json.loads(as_json([])) == []


def test_github_annotations_are_one_line_each():
    source = Source("a,b:c.zql", TEXT)
    error = BindError("50% wrong\nhere", code="N201", span=Span(source, 0, 4), hint="fix")
    lines = list(as_github([error, RunError("no place", code="R700")]))
    place = "file=a%2Cb%3Ac.zql,line=1,col=1,endLine=1,endColumn=5,title=ZQL-N201"
    assert lines == [
        f"::error {place}::50%25 wrong%0Ahere%0Ahint: fix",
        "::error title=ZQL-R700::no place",
    ]


@pytest.mark.parametrize(
    ("text", "word", "carets"),
    [
        ("WHERE x = y", "x", "      ^"),
        ("WHERE '日本' = x", "x", "               ^"),
        ("WHERE '日本' = x", "日本", "       ^^^^"),
        ("WHERE 'e\u0301' = x", "x", "            ^"),
        ("\tWHERE\tx", "x", "\t     \t^"),
    ],
)
def test_carets_stand_below_wide_characters(text, word, carets):
    start = text.index(word)
    error = BindError("wrong", code="N201", span=Span(Source("a", text), start, start + len(word)))
    assert error.snippet.split("\n")[-1] == "    | " + carets


@pytest.mark.parametrize("before", [0, 30, 60, 500])
@pytest.mark.parametrize("after", [0, 100, 500])
def test_of_a_long_line_the_part_around_the_mistake_is_shown(before, after):
    text = "a " * before + "wrong" + " b" * after
    start = 2 * before
    error = BindError("wrong", code="N201", span=Span(Source("x", text), start, start + 5))
    line, carets = error.snippet.split("\n")
    assert len(line) <= 170
    assert line[carets.index("^") :].startswith("wrong")
    assert carets.count("^") == 5


def test_a_list_of_errors_is_taken_apart():
    errors = [unknown_column(), unknown_column()]
    assert flat(ErrorList(errors)) == errors
    assert flat(errors[0]) == errors[:1]


def files(*entries):
    return [SimpleNamespace(path=path, rows=rows, bytes=size) for path, rows, size in entries]


def test_one_file_is_one_line():
    assert written_lines(files(("out.parquet", 1234, 5_600_000)), 1.5) == [
        "wrote out.parquet: 1,234 rows, 5.6 MB in 1.50 s"
    ]


def test_some_files_are_listed():
    assert written_lines(files(("o/a.csv", 1, 10), ("o/bb.csv", 2000, 2_000))) == [
        "wrote 2 files in o/: 2,001 rows, 2.0 kB",
        "  o/a.csv         1 row   10 bytes",
        "  o/bb.csv   2,000 rows     2.0 kB",
    ]


def test_many_files_are_summarised():
    lines = written_lines(files(*((f"o/{i:03}.csv", 1, 1) for i in range(500))), 2)
    assert lines[0] == "wrote 500 files in o/: 500 rows, 500 bytes in 2.00 s"
    assert [line.split()[0] for line in lines[1:6]] == [f"o/{i:03}.csv" for i in range(5)]
    assert lines[6] == "  … 492 more files"
    assert len(written_lines(files(*((f"o/{i}.csv", 1, 1) for i in range(9))))) == 1 + 9
    assert [line.split()[0] for line in lines[7:]] == [f"o/{i}.csv" for i in (497, 498, 499)]


def test_a_path_cannot_move_the_cursor():
    (line,) = written_lines(files(("o\x1b[2J.csv", 1, 1)))
    assert line == "wrote o\\x1b[2J.csv: 1 row, 1 byte"


@pytest.mark.parametrize(
    ("paths", "folder"),
    [(["a.csv", "b.csv"], "./"), (["o/a", "o/b"], "o/"), (["o/x/a", "o/y/b"], "o/"),
     (["/tmp/x/a", "/tmp/xy/b"], "/tmp/"), (["s3://b/k/a", "s3://b/k/c"], "s3://b/k/")],
)  # fmt: skip
def test_the_folder_that_files_share(paths, folder):
    assert common_folder(files(*((path, 0, 0) for path in paths))) == folder


def test_stages_tell_rows_calls_and_time():
    steps = (StepCount("read", 9, 9), StepCount("CallPython f", 9, 5, 0.25, 9))
    stages = (StageReport(1, "native", 1, 12345, 0.5), StageReport(2, "tasks", 4, 5, 2.0, 9, steps))
    counters = {"records_in": 12345, "retries": 0, "records_written": 5}
    assert stage_lines(RunReport((), counters, stages, 2.5)) == [
        "stage 1: one DuckDB statement, 12,345 rows in 500 ms",
        "stage 2: 4 tasks, 5 rows in 2.00 s",
        "  read: 9 -> 9 rows",
        "  CallPython f: 9 -> 5 rows, 9 calls, 250 ms",
        "counters: records_in 12,345, records_written 5",
    ]
