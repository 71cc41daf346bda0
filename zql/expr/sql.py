"""Quoting, and bound expressions as DuckDB SQL text. The only door from data to SQL."""

from __future__ import annotations


def quote_identifier(name: str) -> str:
    """A name as a quoted SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as a SQL string; NUL, which SQL text cannot hold, is put in by `chr(0)`."""
    quoted = "'" + text.replace("'", "''") + "'"
    if "\0" in text:
        return "(" + quoted.replace("\0", "' || chr(0) || '") + ")"
    return quoted
