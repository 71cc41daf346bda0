"""Where in a text one is: inside quotes, inside a comment, or in neither."""

from __future__ import annotations

import re

from zql.tree import node

# Each alternative takes the whole of a quoted text or a comment, or all that is left when it has
# no end; names say which it was.
_PIECES = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?(?:\*/|(?P<open_comment>\Z)) )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*(?:'|(?P<open_escape>\\?\Z))
                | '(?:[^']|'')*(?:'|(?P<open_string>\Z)) )
    | (?P<name> "(?:[^"]|"")*(?:"|(?P<open_name>\Z)) | `[^`]*(?:`|(?P<open_tick>\Z)) )
    | (?P<dollar> \$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?(?:\$(?P=tag)\$|(?P<open_dollar>\Z)) )
    | \w+ | \s+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = ("open_comment", "open_escape", "open_string", "open_name", "open_tick", "open_dollar")


@node
class Place:
    """The end of a text: what is still open there, and where that began.

    `inside` is `string`, `name`, `comment`, `dollar`, or empty.
    """

    inside: str
    start: int


def place_at_end(text: str) -> Place:
    """What the end of a text is part of."""
    for match in _PIECES.finditer(text):
        kind = match.lastgroup or ""
        line_comment = kind == "comment" and match.group().startswith("--")
        if any(match.group(name) is not None for name in _OPEN) or (
            line_comment and match.end() == len(text)
        ):
            inside = next(k for k in ("comment", "string", "name", "dollar") if match.group(k))
            return Place(inside, match.start())
    return Place("", len(text))
