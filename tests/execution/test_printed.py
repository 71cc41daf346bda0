"""What functions print and log: line by line, with the name of their task, on stderr."""

import logging
import os
import re
import subprocess
import sys

import pytest
from zql.execution import printouts
from zql.execution.printed import Printer

FUNCTIONS = r"""
import logging
import os
import signal
import sys
import threading

print("imported")
log = logging.getLogger("mine")

def say(text: str) -> str:
    print("got", text)
    print(f"half of {text}", end="")
    sys.stderr.write(" is whole\n")
    print("rest of", text, end=" ")
    return text

def bar(text: str) -> str:
    for i in range(1000):
        sys.stderr.write(f"\r{i} of {text}")
    sys.stdout.buffer.write(b"\nraw \xff\n")
    print("\x1b[31mred\x07", "é\u3000\U0001f468\u200d\U0001f4bb", sep="\t")
    return text

def many(text: str) -> str:
    for i in range(400):
        print(text, i, "x" * 100)
    return text

def once(text: str) -> str:
    if text == "a0":
        print("before the end")
        try:
            os.close(os.open("died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return text

def threads(text: str) -> str:
    def talk(name):
        for _ in range(50):
            print(name, name, name)
    all_of_them = [threading.Thread(target=talk, args=(name,)) for name in "xyz"]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    return text

def logs(text: str, ctx) -> str:
    ctx.logger.info("seen %s", text, extra={"more": text})
    log.warning("100% strange")
    try:
        {}[text]
    except KeyError:
        logging.getLogger("mine.deeper").exception("no key")
    logging.debug("fine")
    return text

def untyped(text):
    print("trying", text)
    return text

def made() -> dict:
    print("making")
    return {}

def with_object(text: str, thing) -> str:
    return text
"""
HEAD = "IMPORT PYTHON 'udf.py';\n"


@pytest.fixture
def texts(place):
    place.functions(FUNCTIONS)
    for name in "abc":
        place.rows(f"in-{name}.jsonl", [{"text": f"{name}{i}"} for i in range(3)])
    return place


def write(call: str) -> str:
    select = f"FROM 'in-*.jsonl' |> SELECT udf.{call} AS x"
    return f"{select} |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"


def lines_of_tasks(capsys) -> list[str]:
    """The lines on stderr but those of imports; nothing may be on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    return [line for line in err.splitlines() if not line.startswith("[udf.py] ")]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_lines_have_the_names_of_their_tasks(texts, capsys, workers):
    texts.run(HEAD + write("say(text)"), workers)
    expected = []
    for number, name in enumerate("abc", 1):
        label = f"[task {number} of 3, in-{name}.jsonl]"
        before = ""
        for i in range(3):
            expected += [
                f"{label} {before}got {name}{i}",
                f"{label} half of {name}{i} is whole",
            ]
            before = f"rest of {name}{i} "
        expected.append(f"{label} {before}")
    assert sorted(lines_of_tasks(capsys)) == sorted(expected)


def test_calls_in_this_process_print_the_same_way(texts, capsys):
    with texts.session() as session:
        texts.rows("in-b.jsonl", [{"text": "b0"}])
        session.query(HEAD + "FROM 'in-b.jsonl' |> SELECT udf.say(text) AS x").to_dicts()
    label = "[task 1 of 1, in-b.jsonl]"
    assert lines_of_tasks(capsys) == [
        f"{label} got b0",
        f"{label} half of b0 is whole",
        f"{label} rest of b0 ",
    ]
    assert not isinstance(sys.stdout, Printer)
    assert not isinstance(sys.stderr, Printer)


def test_progress_bars_and_control_characters(texts, capsys):
    texts.run(HEAD + write("bar(text)"))
    lines = lines_of_tasks(capsys)
    assert len(lines) == 9 * 3
    assert {line.partition("] ")[2] for line in lines} == {
        *(f"999 of {name}{i}" for name in "abc" for i in range(3)),
        "raw \\xff",
        "\\x1b[31mred\\x07\té\u3000\U0001f468\u200d\U0001f4bb",
    }


def test_many_lines_lose_nothing_and_their_files_go(texts, capsys, monkeypatch):
    seen = []
    forward = printouts.Inbox.forward

    def watched(inbox):
        forward(inbox)
        seen.append(len([n for n in os.listdir(inbox._folder) if n.startswith("lines-")]))

    monkeypatch.setattr(printouts.Inbox, "forward", watched)
    texts.rows("in-a.jsonl", [{"text": f"a{i}"} for i in range(40)])
    with texts.session() as session:
        session.run(HEAD + write("many(text)"))
    lines = lines_of_tasks(capsys)
    for name, rows in (("a", 40), ("b", 3), ("c", 3)):
        found = [line.split()[-3:-1] for line in lines if f"in-{name}.jsonl" in line]
        assert found == [[f"{name}{i}", str(n)] for i in range(rows) for n in range(400)]
    assert seen
    assert seen[-1] <= 2, "one for each worker: what has been read is removed"


def test_what_was_printed_before_the_end_of_a_worker_is_there(texts, capsys):
    report = texts.run(HEAD + write("once(text)"))
    assert report.counters["retries"] >= 1
    assert lines_of_tasks(capsys) == ["[task 1 of 3, in-a.jsonl] before the end"] * 2


def test_threads_of_a_function_do_not_mix_their_lines(texts, capsys):
    texts.run(HEAD + write("threads(text)"))
    lines = lines_of_tasks(capsys)
    assert len(lines) == 9 * 150
    assert {line.partition("] ")[2] for line in lines} == {"x x x", "y y y", "z z z"}


@pytest.mark.parametrize("workers", [0, 2])
def test_records_go_to_the_loggers_of_the_caller(texts, caplog, workers):
    logging.getLogger("zql.task").setLevel(logging.INFO)
    try:
        if workers:
            texts.run(HEAD + write("logs(text)"), workers)
        else:
            with texts.session() as session:
                session.query(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.logs(text)").to_dicts()
    finally:
        logging.getLogger("zql.task").setLevel(logging.NOTSET)
    records = [r for r in caplog.records if r.name in ("zql.task", "mine", "mine.deeper", "root")]
    assert len(records) == 9 * 3
    task = "task 1 of 3, in-a.jsonl"
    first = next(r for r in records if r.name == "zql.task" and r.task == task)
    assert first.getMessage() == f"[{task}] seen a0"
    assert (first.levelname, first.more, first.funcName) == ("INFO", "a0", "logs")
    named = f"[{task}] " if workers else ""
    assert f"{named}100% strange" in [r.getMessage() for r in records if r.name == "mine"]
    causes = [r.exc_text for r in records if r.name == "mine.deeper"]
    assert sum("KeyError: 'a0'" in cause for cause in causes) == 1


def test_what_is_below_the_level_stays_away(texts, caplog):
    caplog.set_level(logging.ERROR, logger="mine")
    texts.run(HEAD + write("logs(text)"))
    assert {r.name for r in caplog.records} & {"zql.task", "mine", "root"} == set()
    assert "mine.deeper" in {r.name for r in caplog.records}
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.NOTSET, logger="mine")
    texts.run(HEAD + write("logs(text)"))
    assert {r.name for r in caplog.records} >= {"zql.task", "mine", "mine.deeper", "root"}


def test_without_a_configuration_records_are_lines(texts):
    (texts.folder / "x.zql").write_text(HEAD + write("logs(text)"))
    (texts.folder / "y.zql").write_text(HEAD + "FROM 'in-a.jsonl' |> SELECT udf.logs(text) AS x;")
    for script, tasks, results in (("x.zql", 3, ""), ("y.zql", 1, '{"x":"a0"}\n')):
        done = subprocess.run(
            [sys.executable, "-m", "zql", "run", "--workers", "2", script],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.stdout[: len(results)] == results
        assert bool(done.stdout) == bool(results)
        found = [line for line in done.stderr.splitlines() if line.startswith("[task 1 of ")]
        label = f"[task 1 of {tasks}, in-a.jsonl]"
        assert found[0] == f"{label} 100% strange"
        assert f"{label} KeyError: 'a0'" in found


def test_imports_probes_and_factories_print_aside(texts, capsys):
    script = HEAD + "DECLARE thing SHARED DEFAULT udf.made();\n"
    texts.run(script + write("untyped(udf.with_object(text, $thing))"))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "[udf.py] imported"
    assert "[$thing] making" in lines
    assert lines.count("[first rows, udf.untyped] trying a0") == 1
    assert lines.count("[task 1 of 3, in-a.jsonl] trying a0") == 1
    with texts.session() as session:
        query = session.query(script + "FROM 'in-a.jsonl' |> SELECT udf.untyped(text) AS x")
        assert len(query.to_dicts()) == 3
    assert capsys.readouterr().out == ""


def test_streams_come_back_whichever_printer_ends_first():
    before = (sys.stdout, sys.stderr)
    one, other = Printer("one"), Printer("other")
    one.__enter__()
    other.__enter__()
    one.__exit__()
    assert sys.stdout is other
    other.__exit__()
    assert (sys.stdout, sys.stderr) == before


def test_a_line_without_an_end_is_cut(capsys):
    printer = Printer("x")
    for _ in range(100):
        printer.write("y" * 1000)
    printer.flush_rest()
    lines = capsys.readouterr().err.splitlines()
    assert sum(len(line) - len("[x] ") for line in lines) == 100_000
    assert all(re.fullmatch(r"\[x\] y+", line) for line in lines)
    assert len(lines) > 5
