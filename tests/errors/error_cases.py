"""What a case of the golden error files does, and what its user sees."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys

import pytest
import zql
from zql.cli.main import call
from zql.errors import ErrorList, ZqlError
from zql.session import Session
from zql.source import Source

CHANGING = (
    (re.compile(r"/\S*/pytest-\S*?/case\d*"), "FOLDER"),
    (re.compile(r"(zql-\S*?)-[0-9a-f]{12,}"), r"\1-NUMBER"),
    (re.compile(r"\(\d+ more lines?\)"), "(.. more lines)"),
)
"""Words of messages that differ from run to run, and what stands for them."""


def shown(case) -> str:
    """What a case shows: a script's errors, a command line's output, a Python call's exception."""
    if case.script.startswith("$ "):
        text = command_line(case.script)
    elif case.script.startswith(">>> "):
        text = python(case.script)
    else:
        text = script(case.script, check="check" in case.flags, pool="pool" in case.flags)
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return text


def script(text: str, *, check: bool, pool: bool) -> str:
    """Runs a script up to its first error, or checks all of it; the errors as they are shown."""
    with Session(workers=1 if pool else None, memory_limit="1GB") as session:
        source = Source("script.zql", text)
        if check:
            errors = session.check(source)
            return ErrorList(errors).render() if errors else "no mistakes"
        try:
            for result in session.statements(source):
                if result.rows is not None:
                    with result.rows as rows:
                        while rows.text_rows(1000):
                            pass
        except ZqlError as error:
            return str(error)
    return "no error"


def command_line(text: str) -> str:
    """Runs `$ zql ..` in this process; what it prints, and its exit code. `< text` is its input."""
    line, _, given = text.removeprefix("$ zql").partition(" <<< ")
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    source = io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", source)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = call(shlex.split(line))
            except SystemExit as end:
                code = end.code
    return f"{out.buffer.getvalue().decode().rstrip()}\nexit code {code}"


def python(text: str) -> str:
    """Runs Python lines (behind `>>> `) with a `session`; the ZQL error that they raise."""
    lines = "\n".join(line.removeprefix(">>> ").removeprefix("... ") for line in text.split("\n"))
    with Session() as session:
        try:
            exec(lines, {"session": session, "zql": zql})
        except ZqlError as error:
            return f"{type(error).__name__}: {error}"
    return "no error"
