"""Every error that ZQL raises.

ZqlError                      has code, message, span, hint, notes; renders with a caret
├── ParseError        S1xx    the text is no ZQL
├── BindError         N2xx T3xx P4xx   a name, a type or a plan that cannot be
├── ParameterError    A5xx    a value for a parameter is missing, unknown or of the wrong type
├── UsageError        U6xx    wrong options of the command line or the Python API
├── RunError          R7xx    the run failed
│   ├── UdfError      R71x    a Python function raised or returned what does not fit
│   └── StorageError  R72x    a file cannot be found, read, or written
├── Interrupted       R799    Ctrl-C or `Session.interrupt()`
├── InternalError     X900    a bug in ZQL
└── ErrorList                 several of the above, sorted by position
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from zql.source import Span


class ZqlError(Exception):
    """Base of all: `str(error)` is the whole message with its place; parts are attributes."""

    exit_code = 2
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        code: str = "X900",
        span: Span | None = None,
        label: str = "",
        hint: str | None = None,
        notes: tuple[str, ...] = (),
        candidates: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.span = span
        self.label = label
        self.hint = hint
        self.notes = notes
        self.candidates = candidates
        self.suspects: tuple[Span, ...] = ()
        """Places of which one is meant, when it cannot be told which."""
        self.statement: int | None = None
        self.operator: str | None = None

    @property
    def line(self) -> int | None:
        """Line of the script, from 1; None when the error has no place in a script."""
        return self.span.line if self.span else None

    @property
    def column(self) -> int | None:
        """Column in characters, from 1."""
        return self.span.column if self.span else None

    @property
    def end_line(self) -> int | None:
        """Line of the last character of the span."""
        return self.span.source.position(self.span.end)[0] if self.span else None

    @property
    def end_column(self) -> int | None:
        """Column behind the last character of the span."""
        return self.span.source.position(self.span.end)[1] if self.span else None

    @property
    def snippet(self) -> str:
        """The line before the span, its first line, and carets below; empty without a place."""
        return "\n".join(excerpt(self.span, self.label)) if self.span else ""

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The message as it is shown: code, place, excerpt, hint and notes."""
        lines = [f"ZQL-{self.code} {masked(self.message)}"]
        if self.span:
            where = f"  --> {self.span.source.name}:{self.span.line}:{self.span.column}"
            inside = []
            if self.statement is not None:
                inside.append(f"statement {self.statement}")
            if self.operator:
                inside.append(self.operator)
            lines.append(where + (f"   ({', '.join(inside)})" if inside else ""))
            lines += excerpt(self.span, self.label)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


class ParseError(ZqlError):
    """The text is no ZQL; `expected` holds what could stand there."""

    expected: tuple[str, ...] = ()


class BindError(ZqlError):
    """A name that is unknown or ambiguous, a type that does not fit, a plan that cannot be."""


class ParameterError(ZqlError):
    """A parameter without a value, a value without a parameter, or a value of the wrong type."""


class UsageError(ZqlError):
    """Wrong options of the command line or wrong arguments of the Python API."""


class RunError(ZqlError):
    """The run failed; what had been there before is unchanged."""

    exit_code = 1


class UdfError(RunError):
    """A Python function raised, died, or returned a value that does not fit."""


class StorageError(RunError):
    """A file that cannot be found, read, understood or written."""


class Interrupted(RunError):
    """The user stopped the run."""

    exit_code = 130


class InternalError(ZqlError):
    """A bug in ZQL: please report it."""

    exit_code = 1


class ErrorList(ZqlError):
    """Several errors of one script in the order of their places; at most `LIMIT` are shown."""

    LIMIT = 20

    def __init__(self, errors: Iterable[ZqlError]) -> None:
        self.errors = sorted(errors, key=lambda e: e.span.start if e.span else -1)
        first = self.errors[0]
        super().__init__(first.message, code=first.code, span=first.span, hint=first.hint)

    def render(self) -> str:
        """Each error in full, an empty line between them."""
        shown = [error.render() for error in self.errors[: self.LIMIT]]
        if len(self.errors) > self.LIMIT:
            shown.append(f"... and {len(self.errors) - self.LIMIT} more errors")
        return "\n\n".join(shown)


def excerpt(span: Span, label: str = "") -> list[str]:
    """The source lines of a span with carets under it, a bar at the left.

    Of a line too long for a terminal only the part around the span is shown.
    """
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    width = len(str(line))
    out = []
    if line > 1 and span.source.line(line - 1).strip():
        before = masked(span.source.line(line - 1))
        out.append(f"  {line - 1:>{width}} | {_around(before, 0)[0]}")
    whole = masked(span.source.line(line))
    stop = end_column if end_line == line else len(whole) + 1
    text, left_out = _around(whole, column - 1)
    out.append(f"  {line:>{width}} | {text}")
    pad = "".join("\t" if c == "\t" else " " * _columns(c) for c in text[: column - 1 - left_out])
    marked = text[column - 1 - left_out : stop - 1 - left_out]
    carets = "^" * max(1, len(marked) if marked.isascii() else sum(map(_columns, marked)))
    out.append(f"  {'':>{width}} | {pad}{carets}{' ' + label if label else ''}")
    return out


_LONGEST_LINE = 160
_BEFORE = 50


def _around(text: str, place: int) -> tuple[str, int]:
    """The part of a long line around a place, and how far its characters have moved left."""
    if len(text) <= _LONGEST_LINE:
        return text, 0
    start = max(0, min(place - _BEFORE, len(text) - _LONGEST_LINE))
    part = text[start : start + _LONGEST_LINE]
    if start:
        part = "…" + part[1:]
    if start + _LONGEST_LINE < len(text):
        part = part[:-1] + "…"
    return part, start


def _columns(char: str) -> int:
    """How many columns of a terminal a character takes, so that carets stand below it."""
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_SECRET = re.compile(
    r"((?:X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-Signature|Signature|sig|token|secret"
    r"|password|key)=)([^&\s'\"]{4,})|(://[^/@\s'\":]*:)([^/@\s'\"]+)(?=@)",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """Text without the secrets of URLs: signatures, keys and passwords become asterisks.

    The length stays, so that carets below still point at their words.
    """
    return _SECRET.sub(lambda m: (m[1] or m[3]) + "*" * len(m[2] or m[4]), text)


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Candidates like `name`, best first: equal but for case, then close by letters.

    Words of one or two letters have no neighbours worth a guess.
    """
    pool = list(dict.fromkeys(candidates))
    same = [c for c in pool if c.casefold() == name.casefold() and c != name]
    if len(name) <= 2:
        return tuple(same[:limit])
    folded = {c.casefold(): c for c in pool}
    close = difflib.get_close_matches(name.casefold(), folded, n=limit, cutoff=0.66)
    return tuple(dict.fromkeys(same + [folded[c] for c in close]))[:limit]


def did_you_mean(names: tuple[str, ...]) -> str | None:
    """The hint for the names that `nearest` found; None when there are none."""
    if not names:
        return None
    quoted = [f'"{name}"' for name in names]
    return (
        "did you mean "
        + " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
        + "?"
    )
