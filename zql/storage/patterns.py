"""Path patterns: `*`, `?`, `[..]`, `**`, and braces `{a,b}`, `{1..3}`, `{01..12}`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zql.errors import UsageError

MAGIC = re.compile(r"[*?[]")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_MOST = 100_000


def has_magic(text: str) -> bool:
    """Whether a part of a path is a pattern."""
    return MAGIC.search(text) is not None


def escape(path: str) -> str:
    """A pattern that matches exactly this path: each magic character in brackets."""
    return MAGIC.sub(lambda m: f"[{m.group()}]", path)


def expand_braces(pattern: str) -> list[str]:
    """All alternatives in the order written; a pattern without alternatives is its own only one.

    `{x}` without a comma or a range stays as it is, as shells do. Raises `UsageError` when there
    would be more than 100,000.
    """
    out = []
    for alternative in _alternatives(pattern):
        out.append(alternative)
        if len(out) > _MOST:
            raise UsageError(f"the braces of {pattern!r} give more than {_MOST} paths", code="U621")
    return out


def _alternatives(text: str) -> Iterator[str]:
    start = text.find("{")
    while start >= 0:
        stop = _closing(text, start)
        choices = _choices(text[start + 1 : stop]) if stop >= 0 else None
        if choices is not None:
            for choice in choices:
                for middle in _alternatives(choice):
                    for tail in _alternatives(text[stop + 1 :]):
                        yield text[:start] + middle + tail
            return
        start = text.find("{", start + 1)
    yield text


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return -1


def _choices(inside: str) -> list[str] | None:
    found = _RANGE.fullmatch(inside)
    if found:
        return _numbers(*found.groups())
    parts, depth, start = [], 0, 0
    for i, char in enumerate(inside):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(inside[start:i])
            start = i + 1
    return [*parts, inside[start:]] if parts else None


def _numbers(first: str, last: str, step: str | None) -> list[str]:
    a, b = int(first), int(last)
    by = abs(int(step or 1)) or 1
    if abs(b - a) // by > _MOST:
        raise UsageError(f"{{{first}..{last}}} gives more than {_MOST} paths", code="U621")
    padded = any(len(n.lstrip("-")) > 1 and n.lstrip("-").startswith("0") for n in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{n:0{width}d}" for n in (range(a, b + 1, by) if a <= b else range(a, b - 1, -by))]


def name_matcher(part: str) -> re.Pattern[str]:
    """A compiled expression for one part of a pattern; it must match a whole name.

    In brackets `!` and `^` negate, `-` is a range, a `]` first is itself. A bracket without its end
    is itself.
    """
    out, i = "", 0
    while i < len(part):
        char = part[i]
        stop = _bracket_end(part, i) if char == "[" else -1
        if char == "*":
            out += "" if out.endswith("[^/]*") else "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif stop > 0:
            out += _bracket(part[i + 1 : stop])
            i = stop
        else:
            out += re.escape(char)
        i += 1
    return re.compile(out, re.DOTALL)


def _bracket_end(part: str, start: int) -> int:
    first = start + 1
    if part[first : first + 1] in {"!", "^"}:
        first += 1
    return part.find("]", first + 1)


def _bracket(inside: str) -> str:
    negated = inside[0] in "!^"
    members = inside[1:] if negated else inside
    out, i = "", 0
    while i < len(members):
        if members[i + 1 : i + 2] == "-" and i + 2 < len(members):
            low, high = members[i], members[i + 2]
            if low <= high:
                out += f"{re.escape(low)}-{re.escape(high)}"
            i += 3
        else:
            out += re.escape(members[i])
            i += 1
    if not out:
        return "[^/]" if negated else "(?!)"
    return f"[{'^/' if negated else ''}{out}]"


def is_hidden(name: str, part: str = "") -> bool:
    """Whether a name is passed over: it begins with `.` or `_` and the pattern does not name that.

    A `key=value` folder is data whatever its key begins with.
    """
    return name[:1] in {".", "_"} and part[:1] != name[:1] and "=" not in name
