"""A value that does not fit its type, and how values look in messages."""

from __future__ import annotations

from typing import Any

_SHOWN = 60
_BYTE = 0xFF


class Misfit(Exception):  # noqa: N818 - no error yet: the caller adds function, file and row
    """A value that its type cannot hold: its row in the batch, the value, and why."""

    def __init__(self, row: int, value: Any, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.value = value
        self.why = why


def show(value: Any) -> str:
    """A value for a message: one line of printable characters, cut when long."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the user's __repr__ may do anything
        text = f"<{type(value).__name__}, repr failed: {type(error).__name__}>"
    return safe_text(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def safe_text(text: str) -> str:
    """Text from data or from a user's function, with nothing that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code <= _BYTE else f"\\u{code:04x}"
