"""Tests as text files: a script and what it gives, completed by running with UPDATE_GOLDEN=1.

A file holds cases one after the other:

    # what this case shows
    FROM t |> LIMIT 1
    ----
    a BIGINT
    1

A case begins at a line `# title` (at the top or behind an empty line); `----` ends its script.
Words in square brackets at the title's end are its flags, for the test that runs it. Lines that
begin with `##` may stand before the first case: remarks on the file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

_TITLE = re.compile(r"^# (.+?)(?:\s*\[([^\]]*)\])?$")
_END = "----"


@dataclass(frozen=True)
class Case:
    """One case of a golden file; `line` is the line of its title, from 1."""

    path: Path
    line: int
    title: str
    flags: frozenset[str]
    script: str
    expected: str

    @property
    def id(self) -> str:
        return f"{self.path.stem}: {self.title}"

    def check(self, actual: str) -> None:
        """Compares; with UPDATE_GOLDEN=1 writes what came out into the file instead."""
        actual = "\n".join(line.rstrip() for line in actual.strip("\n").split("\n"))
        if os.environ.get("UPDATE_GOLDEN") == "1":
            _write(self, actual)
            return
        assert actual == self.expected, f"{self.path}:{self.line} {self.title}\n{actual}"


def cases(folder: Path, pattern: str = "*.test") -> list[Case]:
    """All cases of a folder's files, in the order of names and lines."""
    return [case for path in sorted(folder.glob(pattern)) for case in read(path)]


def parameters(folder: Path, pattern: str = "*.test") -> list[object]:
    """The cases for `pytest.mark.parametrize("case", ...)`."""
    found = [pytest.param(case, id=case.id) for case in cases(folder, pattern)]
    assert found, f"no cases in {folder}"
    return found


def read(path: Path) -> list[Case]:
    """The cases of one file. Raises `ValueError` for a file that is none."""
    lines = path.read_text(encoding="utf-8").split("\n")
    starts = [i for i, line in enumerate(lines) if _begins_case(lines, i)]
    found = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = _TITLE.match(lines[start])
        block = lines[start + 1 : stop]
        if match is None or _END not in block:
            raise ValueError(f"{path}:{start + 1}: a case needs a title and a line {_END}")
        cut = block.index(_END)
        flags = frozenset((match.group(2) or "").replace(",", " ").split())
        script = "\n".join(block[:cut]).strip("\n")
        expected = "\n".join(block[cut + 1 :]).strip("\n")
        found.append(Case(path, start + 1, match.group(1), flags, script, expected))
    titles = [case.title for case in found]
    if len(set(titles)) != len(titles):
        twice = next(t for t in titles if titles.count(t) > 1)
        raise ValueError(f"{path}: two cases are called {twice!r}")
    return found


def _begins_case(lines: list[str], index: int) -> bool:
    behind_gap = index == 0 or not lines[index - 1] or lines[index - 1].startswith("##")
    return behind_gap and _TITLE.match(lines[index]) is not None


def _write(case: Case, actual: str) -> None:
    lines = case.path.read_text(encoding="utf-8").split("\n")
    title = next(
        i
        for i, line in enumerate(lines)
        if _begins_case(lines, i) and _TITLE.match(line).group(1) == case.title  # type: ignore[union-attr]
    )
    cut = lines.index(_END, title)
    stop = next((i for i in range(cut + 1, len(lines)) if _begins_case(lines, i)), len(lines))
    tail = lines[stop:]
    body = [*lines[: cut + 1], *actual.split("\n"), "", *tail]
    case.path.write_text("\n".join(body).rstrip("\n") + "\n", encoding="utf-8")
