"""Text to tokens. What cannot be one is kept as an error and met when the parser gets there."""

from __future__ import annotations

import re
from functools import cache

from zql.errors import ParseError
from zql.source import Source, Span
from zql.syntax.keywords import KEYWORDS
from zql.syntax.tables import Tables, load

END = 0
"""The number of the terminal that stands behind the last token of a statement."""

BAD = -1
"""Stands for text that is no token; the error is in `Tokens.errors`."""


class Tokens:
    """The tokens of a source, side by side: what each is, and where it starts and ends.

    `errors` has the errors of `BAD` tokens by their place in the list.
    """

    __slots__ = ("ends", "errors", "kinds", "source", "starts")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.errors: dict[int, ParseError] = {}

    def text(self, at: int) -> str:
        """The text of a token."""
        return self.source.text[self.starts[at] : self.ends[at]]

    def span(self, at: int) -> Span:
        """The place of a token."""
        return Span(self.source, self.starts[at], self.ends[at])

    def add(self, kind: int, start: int, end: int) -> None:
        """Append one token."""
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)


class Vocabulary:
    """The tokens of the grammar: one regular expression, and the words that are keywords."""

    def __init__(self, tables: Tables) -> None:
        self.names = tables.terminals
        self.number = tables.number
        self.pattern = re.compile("|".join(f"(?P<{name}>{text})" for name, text in tables.patterns))
        self.kinds = {
            name: tables.number.get(name, BAD)
            for name, _ in tables.patterns
            if name not in tables.ignored
        }
        self.words = {word: tables.number[word] for word in KEYWORDS if word in tables.number}
        self.with_time = tables.number["WITH_TIME"]


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of the grammar in use."""
    return Vocabulary(load())


def tokenize(source: Source) -> Tokens:
    """All tokens of a source, without an end mark; never raises."""
    words = vocabulary()
    tokens = Tokens(source)
    text = source.text
    match, kinds, keyword = words.pattern.match, words.kinds, words.words.get
    ident = words.number["IDENT"]
    at = start_of_script(text)
    size = len(text)
    while at < size:
        found = match(text, at)
        if found is None:
            at = _add_error(tokens, at)
            continue
        end = found.end()
        kind = kinds.get(found.lastgroup or "")
        if kind == ident:
            word = found.group()
            if word.isascii():
                kind = keyword(word.upper(), kind)
        if kind is not None:
            tokens.kinds.append(kind)
            tokens.starts.append(at)
            tokens.ends.append(end)
        at = end
    _mark_with_time(tokens, words)
    return tokens


def start_of_script(text: str) -> int:
    """Where the language begins: behind a byte order mark and a `#!` line."""
    at = 1 if text.startswith("\ufeff") else 0
    if text.startswith("#!", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    return at


def _mark_with_time(tokens: Tokens, words: Vocabulary) -> None:
    """`WITH TIME ZONE` of a type begins with a token of its own: `WITH` means other things too."""
    with_, time, zone = words.number["WITH"], words.number["TIME"], words.number["ZONE"]
    kinds = tokens.kinds
    at = -1
    for _ in range(kinds.count(with_)):
        at = kinds.index(with_, at + 1)
        if kinds[at + 1 : at + 3] == [time, zone]:
            kinds[at] = words.with_time


# ---- what is no token --------------------------------------------------------------------------

_BAD_NUMBER = re.compile(r"[\d.][\w.]*")
_DOLLAR = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_LOOKALIKES = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u00d7": "*",
    "\uff0c": ",",
    "\uff1b": ";",
    "\uff08": "(",
    "\uff09": ")",
}


def _add_error(tokens: Tokens, at: int) -> int:
    """Record what is wrong at an offset; returns where to go on (the end if nothing is sure)."""
    text = tokens.source.text
    char = text[at]
    dollar = _DOLLAR.match(text, at)
    if char == "'" or text[at : at + 2].lower() == "e'":
        end, error = len(text), _unclosed("S103", "string", at, tokens, "'")
    elif dollar:
        end, error = len(text), _unclosed("S103", "string", at, tokens, dollar.group())
    elif text.startswith("/*", at):
        end, error = len(text), _unclosed("S104", "comment", at, tokens, "*/")
    elif char in '"`':
        end, error = len(text), _unclosed("S105", "quoted name", at, tokens, char)
    elif char.isdecimal() or char == ".":
        found = _BAD_NUMBER.match(text, at)
        end = found.end() if found else at + 1
        error = ParseError(
            f"{text[at:end]} is not a number",
            code="S106",
            span=Span(tokens.source, at, end),
            hint="put a space between a number and a word; a name cannot begin with a digit",
        )
    else:
        end = at + 1
        error = ParseError(
            f"{_named(char)} means nothing here",
            code="S107",
            span=Span(tokens.source, at, end),
            hint=_character_hint(char),
        )
    tokens.errors[len(tokens.kinds)] = error
    tokens.add(BAD, at, end)
    return end


def _unclosed(code: str, what: str, at: int, tokens: Tokens, closing: str) -> ParseError:
    line_end = tokens.source.text.find("\n", at)
    return ParseError(
        f"this {what} is never closed",
        code=code,
        span=Span(tokens.source, at, len(tokens.source.text) if line_end < 0 else line_end),
        label="opened here",
        hint=f"close it with {closing}",
    )


def _named(char: str) -> str:
    if char.isprintable() and not char.isspace():
        return f'the character "{char}" (U+{ord(char):04X})'
    return f"the invisible character U+{ord(char):04X}"


def _character_hint(char: str) -> str | None:
    if char in _LOOKALIKES:
        return f"write the plain {_LOOKALIKES[char]} of the keyboard"
    if char == "$":
        return "a parameter is $name; a string may stand between $$ and $$"
    if char == "#":
        return "a comment begins with --"
    if char == "!":
        return "not equal is <> or !=; negation is NOT"
    if char == "@":
        return "a parameter is $name; hints stand in @{ }"
    if char == "\\":
        return "there are no line continuations; a statement ends with ;"
    return None if char.isprintable() else "delete it"
