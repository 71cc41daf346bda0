"""Golden messages of everything behind the parser, and a message for each code that there is."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
import zql
from error_cases import shown
from zql.execution import format_decorator

from golden import cases, read

HERE = Path(__file__).parent
FOLDERS = sorted(p for p in HERE.iterdir() if p.is_dir() and any(p.glob("*.test")))
WITHOUT_A_CASE = {
    "R717": "worker processes that die at their start, again and again",
    "R718": "a function that takes too long for its probe: tests/execution shortens the time",
    "R725": "a protocol whose package is missing: which ones are depends on the installation",
    "R728": "a file without columns: the binder refuses such queries",
    "R731": "Python's own MemoryError in a task",
    "R739": "rows that are closed before their end: tests/session reads on",
    "R799": "an interruption: tests/cli sends the signal",
    "S110": "depth: tests/syntax writes the thousands of parentheses",
    "U626": "a package whose format cannot be loaded: tests/formats installs one",
    "X900": "a bug",
    "X901": "a bug",
    "X903": "a bug",
}
"""Codes that no small script can show, and why."""


@pytest.fixture
def folder(tmp_path_factory, monkeypatch):
    """A folder with the data, the current one."""
    path = tmp_path_factory.mktemp("case")
    shutil.copytree(HERE / "data", path, dirs_exist_ok=True)
    monkeypatch.chdir(path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return path


def everything():
    for path in FOLDERS:
        if path.name != "syntax":
            yield from (pytest.param(c, id=f"{path.name}/{c.id}") for c in cases(path))


@pytest.fixture(autouse=True)
def no_formats_of_other_tests():
    """What is decorated anywhere in a process is known to all its sessions, and suggested."""
    known = dict(format_decorator.decorated)
    format_decorator.decorated.clear()
    yield
    format_decorator.decorated.clear()
    format_decorator.decorated.update(known)


@pytest.mark.parametrize("case", list(everything()))
def test_message(case, folder):
    case.check(shown(case))


def codes_of_the_source() -> set[str]:
    """Every text in the program that has the form of a code, but for those in docstrings."""
    found = set()
    for path in Path(zql.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\A[SNTPAURX]\d{3}\Z", node.value))
    return found


def test_every_code_has_a_message_here():
    texts = [
        case.expected for path in FOLDERS for file in path.glob("*.test") for case in read(file)
    ]
    seen = set(re.findall(r"ZQL-([SNTPAURX]\d{3})\b", "\n".join(texts)))
    codes = codes_of_the_source()
    assert codes - seen == set(WITHOUT_A_CASE)
    assert seen <= codes
