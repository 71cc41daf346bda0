"""Colours for ZQL in the shell, in documents and in whatever uses Pygments."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from zql.syntax.keywords import NON_RESERVED, OPERATORS, RESERVED
from zql.syntax.type_names import ALIASES

_CONSTANTS = ("TRUE", "FALSE", "NULL")
_TYPES = tuple(
    sorted(
        {word for word in (*ALIASES, *ALIASES.values()) if " " not in word}
        | {"DATE", "INTERVAL", "JSON", "STRUCT", "TIME", "TIMESTAMP", "UHUGEINT", "VARCHAR"}
        - set(RESERVED)
    )
)
_WORD_OPERATORS = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "BETWEEN", "GLOB")


def _any(values: object) -> words:
    return words(tuple(sorted(values)), prefix=r"(?<![.\w])", suffix=r"\b")  # type: ignore[call-overload]


class ZqlLexer(RegexLexer):  # type: ignore[misc]
    """Words by what they usually are: only the parser knows where one is a name."""

    name = "ZQL"
    url = ""
    aliases: ClassVar[list[str]] = ["zql"]
    filenames: ClassVar[list[str]] = ["*.zql"]
    mimetypes: ClassVar[list[str]] = ["text/x-zql"]
    flags = 2  # re.IGNORECASE

    tokens: ClassVar[dict[str, list[object]]] = {
        "root": [
            (r"\A\ufeff?#![^\n]*", Comment.Hashbang),
            (r"\s+", Whitespace),
            (r"--[^\n]*", Comment.Single),
            (r"/\*(?:[^*]|\*(?!/))*\*/", Comment.Multiline),
            (r"/\*(?:[^*]|\*(?!/))*\Z", Error),
            (r"e'(?:[^'\\]|\\[\s\S]|'')*'", String.Escape),
            (r"'(?:[^']|'')*'", String.Single),
            (r"\$((?:[^\W\d]\w*)?)\$[\s\S]*?\$\1\$", String.Heredoc),
            (r"e?'[\s\S]*\Z", Error),
            (r'"(?:[^"]|"")*"|`(?:[^`]|``)*`', Name),
            (r"\$[^\W\d]\w*", Name.Variable),
            (r"(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:e[+-]?\d+)?(?!\w)", Number),
            (r"\|>", Operator.Word, "operator"),
            (r"(\.)([^\W\d]\w*)", bygroups(Punctuation, Name.Attribute)),
            (_any(_CONSTANTS), Keyword.Constant),
            (_any(_WORD_OPERATORS), Operator.Word),
            (_any(RESERVED), Keyword),
            (r"[^\W\d]\w*(?=\()", Name.Function),
            (_any(NON_RESERVED), Keyword),
            (_any(_TYPES), Keyword.Type),
            (r"[^\W\d]\w*", Name),
            (r"->>|->|=>|\|\||<<|>>|\*\*|//|::|==|<>|!=|<=|>=|[-+*/%^~&|<>=]", Operator),
            (r"@\{|[(){}\[\],;:.]", Punctuation),
            (r".", Error),
        ],
        "operator": [
            (r"\s+", Whitespace),
            (r"--[^\n]*", Comment.Single),
            (_any(OPERATORS), Keyword.Declaration, "#pop"),
            (r"(?=[\s\S])", Literal, "#pop"),
        ],
    }
