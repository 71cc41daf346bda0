"""Names as text: bare where that reads back the same, else in double quotes."""

from __future__ import annotations

import re

from zql.expr.sql import quote_identifier
from zql.syntax.keywords import is_reserved

_WORD = re.compile(r"[^\W\d]\w*")


def identifier_text(name: str, *, any_word: bool = False) -> str:
    """A name as it is written; `any_word` where reserved words are names too (after a dot)."""
    if _WORD.fullmatch(name) and (any_word or not is_reserved(name)):
        return name
    return quote_identifier(name)
