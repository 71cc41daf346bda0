"""Errors for people, for editors and for CI: coloured text, JSON, GitHub annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from zql.display.style import PLAIN, Style
from zql.display.text import safe_lines, safe_text
from zql.errors import ErrorList, ZqlError

_CARETS = re.compile(r"( +\| +)(\^+.*)")
_SOURCE = re.compile(r"( +\d+ \|)(.*)")


def flat(error: ZqlError) -> list[ZqlError]:
    """The errors that an `ErrorList` holds, or the error itself."""
    return list(error.errors) if isinstance(error, ErrorList) else [error]


def _paint(line: str, style: Style) -> str:
    if match := re.match(r"(ZQL-\w+) (.*)", line):
        return f"{style.error(match[1])} {style.strong(match[2])}"
    if line.startswith("  --> "):
        return style.faint(line)
    if match := _CARETS.fullmatch(line):
        return match[1] + style.error(match[2])
    if match := _SOURCE.fullmatch(line):
        return style.faint(match[1]) + match[2]
    if match := re.match(r"  (hint|note):(.*)", line):
        return f"  {style.hint(match[1] + ':')}{match[2]}"
    return line


def render_error(error: ZqlError, style: Style = PLAIN) -> str:
    """The error's whole text, safe for a terminal, coloured if the style says so."""
    text = safe_lines(error.render())
    return "\n".join(_paint(line, style) for line in text.split("\n")) if style.color else text


def as_record(error: ZqlError) -> dict[str, object]:
    """One error as JSON data: place, code, message and what to do; None where unknown."""
    return {
        "file": error.span.source.name if error.span else None,
        "line": error.line,
        "column": error.column,
        "end_line": error.end_line,
        "end_column": error.end_column,
        "code": f"ZQL-{error.code}",
        "message": error.message,
        "hint": error.hint,
        "notes": list(error.notes),
        "candidates": list(error.candidates),
        "statement": error.statement,
        "operator": error.operator,
    }


def as_json(errors: Iterable[ZqlError]) -> str:
    """A JSON array with a line for each error."""
    lines = [json.dumps(as_record(e), ensure_ascii=False) for e in errors]
    return "[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]" if lines else "[]"


def _workflow_value(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _workflow_property(text: str) -> str:
    return _workflow_value(text).replace(":", "%3A").replace(",", "%2C")


def as_github(errors: Iterable[ZqlError]) -> Iterator[str]:
    """A workflow command for each error: GitHub shows it beside the line of the script."""
    for error in errors:
        properties = {"title": f"ZQL-{error.code}"}
        if error.span:
            places = ("line", error.line), ("col", error.column), ("endLine", error.end_line)
            properties = {
                "file": safe_text(error.span.source.name),
                **{name: str(place) for name, place in places},
                "endColumn": str(error.end_column),
                **properties,
            }
        text = error.message + "".join(
            f"\n{kind}: {line}"
            for kind, lines in (("hint", [error.hint] if error.hint else []), ("note", error.notes))
            for line in lines
        )
        listed = ",".join(f"{k}={_workflow_property(v)}" for k, v in properties.items())
        yield f"::error {listed}::{_workflow_value(safe_lines(text))}"
