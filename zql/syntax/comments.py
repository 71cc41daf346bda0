"""Comments between the tokens of a script, and their places between tokens that are printed anew.

A comment stays between the tokens where it stood. At the end of a line it ends its line again,
on a line of its own it has one again, and before a token on the same line it stays before it. Only
a comma, a semicolon or an operator is passed over, where the line ends or begins with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from zql.syntax.layout import BLANK, HARD, SPACE, STEP, STOP, Aside, Break, Item, Mark
from zql.tree import node

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENING = frozenset({"(", "[", "{", "@{"})
_CLOSING = frozenset({")", "]", "}", "END"})
_LEADING = frozenset(
    "AND OR + - * / // % ** ^ || << >> & | -> ->> = <> < <= > >= ~ LIKE ILIKE GLOB".split()  # noqa: SIM905
)
"""Operators: lines are broken before them, and in many scripts behind them."""


@node
class Comment:
    """A comment; `line` counts those of its gap from 0, the one on which the gap begins.

    `blank`: an empty line stands before it.
    """

    text: str
    start: int
    end: int
    line: int
    blank: bool


@node
class Remarks:
    """The comments of one gap between two tokens.

    `trailing` ends the line of the token before, `lines` stand by themselves (behind an empty
    line if they begin with a line feed), `inline` stands before the next token on its line.
    """

    trailing: str = ""
    lines: tuple[str, ...] = ()
    inline: str = ""

    def followed_by(self, later: Remarks) -> Remarks:
        """One gap's comments of two gaps: none changes its place among the others."""
        between = tuple(filter(None, (self.inline, later.trailing)))
        if not (later.trailing or later.lines):
            return Remarks(self.trailing, self.lines, " ".join([*between, later.inline]).strip())
        if not (self.trailing or self.lines):
            return Remarks(" ".join(between), later.lines, later.inline)
        return Remarks(self.trailing, (*self.lines, *between, *later.lines), later.inline)


NOTHING = Remarks()


def find_comments(text: str, start: int, end: int) -> list[Comment]:
    """The comments of a range that holds nothing else but space and semicolons."""
    found = []
    line, at = 0, start
    for match in _COMMENT.finditer(text, start, end):
        feeds = text.count("\n", at, match.start())
        line += feeds
        words = match.group().rstrip()
        found.append(Comment(words, match.start(), match.end(), line, feeds > 1))
        at = match.end()
    return found


def remarks_between(text: str, start: int, end: int) -> Remarks:
    """The comments between two tokens, from where the one ends to where the other starts."""
    comments = find_comments(text, start, end)
    if not comments:
        return NOTHING
    lines = []
    for line, together in groupby(comments, lambda comment: comment.line):
        first, *others = together
        words = " ".join([first.text, *(comment.text for comment in others)])
        lines.append((line, f"\n{words}" if first.blank else words))
    inline = trailing = ""
    if "\n" not in text[comments[-1].end : end]:
        inline = lines.pop()[1].lstrip("\n")
    if lines and lines[0][0] == 0:
        trailing = lines.pop(0)[1]
    return Remarks(trailing, tuple(line for _, line in lines), inline)


@node
class Printed:
    """A statement's tokens as they will be written; `gaps[i]` is what stands before `tokens[i]`."""

    tokens: Sequence[str]
    gaps: Sequence[Sequence[Item]]

    def breaks(self, at: int) -> bool:
        """Whether a line can end before a token."""
        return any(isinstance(item, Break) and not item.kept for item in self.gaps[at])


def settle(remarks: Mapping[int, Remarks], printed: Printed) -> dict[int, Remarks]:
    """The comments, by gap, where lines can end: behind commas and before operators."""
    tokens = printed.tokens
    settled: dict[int, Remarks] = {}
    for at in sorted(remarks):
        here, gap = remarks[at], at
        if at > 1 and tokens[at - 1] in _LEADING and not printed.breaks(at):
            earlier = Remarks(here.trailing, here.lines)
            if earlier != NOTHING and printed.breaks(at - 1):
                settled[at - 1] = settled.get(at - 1, NOTHING).followed_by(earlier)
                here = Remarks(inline=here.inline)
        elif tokens[at] == "," and (here.trailing or here.lines):
            if here.inline:
                here = Remarks(here.trailing, (*here.lines, here.inline))
            gap = at + 1
        if here != NOTHING:
            settled[gap] = settled.get(gap, NOTHING).followed_by(here)
    return settled


def with_remarks(printed: Printed, remarks: Mapping[int, Remarks]) -> Iterable[Item]:
    """The tokens and what stands between them, comments and all."""
    for at, token in enumerate(printed.tokens):
        gap = printed.gaps[at]
        if at in remarks:
            gap = _filled(gap, remarks[at], printed.tokens[at - 1] if at else "", token)
        yield from gap
        yield token


def _filled(gap: Sequence[Item], remarks: Remarks, before: str, token: str) -> list[Item]:
    """A gap with its comments."""
    closes = token in _CLOSING
    items = list(gap)
    ends_line = bool(remarks.trailing or remarks.lines)
    if ends_line:
        items = _broken(items, remarks, before, token)
    if not remarks.inline:
        return items
    if (closes or token in (",", ";")) and before not in _OPENING and not ends_line:
        # If a line ends here it will be at its end, and must weigh the same then.
        return [Aside(f" {remarks.inline}"), *items]
    return [*items, remarks.inline, "" if closes or token in (",", ";") else " "]


def _broken(items: list[Item], remarks: Remarks, before: str, token: str) -> list[Item]:
    """A gap that ends a line, and its comments that end one."""
    trailing: list[Item] = [Aside(f" {remarks.trailing}")] if remarks.trailing else []
    ends, own_lines = _own_lines(remarks.lines, apart=token in ("|>", ";"))
    if not before:
        first: list[Item] = [Aside(remarks.trailing), HARD] if remarks.trailing else []
        return [*first, *own_lines, *items]
    at = next((i for i, x in enumerate(items) if isinstance(x, Break) and not x.kept), None)
    if token in _CLOSING:
        # As far right as what stands before the bracket.
        inside: list[Item] = [HARD, *own_lines[:-1]] if own_lines else []
        if at is None:
            return [*trailing, *inside, *items, HARD]
        return [*trailing, *inside, *items[:at], HARD, *items[at + 1 :]]
    if at is not None:
        return [*trailing, *items[:at], ends, *own_lines, *items[at + 1 :]]
    rest = [item for item in items if item != SPACE]
    if token == ";":  # noqa: S105 - no secret
        return [*trailing, *rest, ends, *own_lines]
    return [*trailing, *rest, Mark(columns=STEP), HARD, *own_lines, STOP]


def _own_lines(lines: Sequence[str], *, apart: bool) -> tuple[Break, list[Item]]:
    """What ends the line before, and each line with what ends it.

    Only where operators and statements end (`apart`) an empty line may stand.
    """
    ends = [BLANK if apart and line[0] == "\n" else HARD for line in lines]
    items: list[Item] = []
    for line, end in zip(lines, [*ends[1:], HARD], strict=False):
        items += [Aside(line.lstrip("\n")), end]
    return ends[0] if ends else HARD, items
