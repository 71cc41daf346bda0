"""Queries and what they give, however they are run: rules on or off, fused, in a pool or not.

The first way writes and compares the golden files; the others must agree with them.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from zql.errors import ZqlError
from zql.logical.context import Declarations
from zql.session import ALL_RULES, Session
from zql.source import Source

from golden import Case, cases

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Way:
    """A way to run a script; `pooled` ones differ from the first only where Python takes part."""

    name: str
    disabled: frozenset[str] = frozenset()
    workers: int | None = None

    @property
    def pooled(self) -> bool:
        return self.workers is not None

    def shows(self, script: str) -> bool:
        """Whether it differs from the first way: steps and pools are there where Python is."""
        native = "IMPORT PYTHON" not in script and "LANGUAGE python" not in script
        return not (native and self.pooled)


WAYS = (
    Way("as it comes"),
    Way("without rules", ALL_RULES),
    Way("unfused in a pool of 1", frozenset({"fuse_steps"}), 1),
    Way("pool of 4", frozenset(), 4),
)


@pytest.fixture(scope="module")
def session_for():
    """The session of a way; one is open at a time, so the tests of a way come together."""
    opened: dict[Way, Session] = {}

    def get(way: Way) -> Session:
        if way not in opened:
            close()
            opened[way] = Session(workers=way.workers)
            if way.pooled:
                made = opened[way]
                made.settings = replace(made.settings, inline_bytes=0, split_size=160)
        return opened[way]

    def close() -> None:
        for session in opened.values():
            session.close()
        opened.clear()

    yield get
    close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of a test: its data, its functions, room for what it writes."""
    for name in ("data", "udfs.py", "aggregates.py"):
        os.symlink(HERE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("way", "case"),
    [
        pytest.param(way, case, id=f"{way.name}-{case.id}")
        for way in WAYS
        for case in cases(HERE)
        if way.shows(case.script)
    ],
)
def test_query(way, case, session_for, folder):
    session = session_for(way)
    session.declarations = Declarations()
    session.previous = None
    session.disabled = way.disabled
    text = outcome(session, case)
    if way is WAYS[0]:
        case.check(text)
    else:
        assert text == case.expected, f"{case.id}, {way.name}"


def outcome(session: Session, case: Case) -> str:
    """What a script gives: the rows of its queries and, if it fails, how."""
    parts: list[str] = []
    try:
        for result in session.statements(Source("script.zql", case.script)):
            if result.kind == "rows":
                parts.append(rows_text(result.rows, "unordered" in case.flags))
            elif result.kind == "text":
                parts.append(result.text)
    except ZqlError as error:
        parts.append(error_text(error))
    return "\n\n".join(parts)


def error_text(error: ZqlError) -> str:
    lines = []
    for each in getattr(error, "errors", [error]):
        place = f" at {each.line}:{each.column}" if each.span else ""
        lines.append(f"{type(each).__name__} {each.code}{place}: {each.message}")
    return "\n".join(lines)


def rows_text(stream, unordered: bool) -> str:
    try:
        batches = list(stream.batches())
        names, types = list(stream.names), list(stream.types)
    finally:
        stream.close()
    head = ", ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
    lines = [
        " | ".join(map(value_text, row))
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    if unordered:
        lines.sort()
    return "\n".join([head, *lines]) if lines else f"{head}\n(no rows)"


def value_text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
        case bytes():
            return "x'" + value.hex() + "'"
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{k}: {value_text(v)}" for k, v in value.items()) + "}"
        case tuple():
            return "(" + ", ".join(map(value_text, value)) + ")"
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat(*(" ",) if isinstance(value, datetime.datetime) else ())
        case datetime.timedelta() | decimal.Decimal() | int() | float() | uuid.UUID():
            return str(value)
        case _:
            return repr(value)


def _is_plain(text: str) -> bool:
    plain = (
        text.isprintable() and text.strip() == text and text not in ("", "NULL", "true", "false")
    )
    return plain and not any(c in text for c in '|[]{}(),"') and not text[0].isdigit()
