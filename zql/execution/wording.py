"""DuckDB's words for a failure, as they are told to people who have never seen its SQL."""

from __future__ import annotations

import re

from zql.execution.engine import EngineError

_TYPES = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INT128": "HUGEINT",
    **{f"UINT{n}": f"U{t}" for n, t in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INTEGER"))},
    "UINT64": "UBIGINT",
    "UINT128": "UHUGEINT",
}
"""DuckDB's inner names of types, and those that are written in scripts."""

_TYPE = re.compile(r"\b(U?INT(?:8|16|32|64|128))\b")
_COLUMN = re.compile(r" when casting from source column .*\Z", re.DOTALL)
_CARET = re.compile(r"\n.*\n\s*\^\n")

_PATTERN = re.compile(
    r"\A(missing [\])]|no argument for|invalid (escape|char|perl|repetition|named)|bad repetition"
    r"|unexpected \)|trailing \\|pattern too large)"
)
"""How messages about regular expressions begin."""

_HINTS = (
    (r"no regular expression", "regexp_escape(..) makes signs stand for themselves"),

    (r"subquery gave", "end it with |> LIMIT 1, or with |> AGGREGATE"),
    (r"format specifier", "try_strptime(..) gives NULL for what does not fit"),
    (r"overflow in", "CAST an operand to a wider type first: HUGEINT or DOUBLE"),
    (r"cannot cast list", None),
    (r"convert|cast|date field|timestamp field|time field|malformed json",
     "TRY_CAST gives NULL for what does not fit; or take such rows out with |> WHERE before"),
)  # fmt: skip


_OWN_WORDS = ("Could ", "Cannot ", "Overflow ", "Malformed ", "Type ", "Failed ", "Unable ")
"""How DuckDB's own messages begin; those of `error(..)` are the script's and stay as they are."""


def with_type_names(message: str) -> str:
    """A message with the types under the names that scripts have for them."""
    return _TYPE.sub(lambda m: _TYPES[m[1]], message)


def worded(error: EngineError) -> EngineError:
    """The error itself with its message told for people, and what can be done about it."""
    if error.kind not in ("Conversion", "Out of Range", "Invalid Input"):
        return error
    message = _COLUMN.sub("", error.message)
    if error.kind != "Invalid Input":
        message = with_type_names(message)
    message = _CARET.sub(": ", message).replace("\n", " ").strip()
    if "scalar subqueries can only return" in message:
        message = "a subquery gave more than one row where one value is wanted"
    elif _PATTERN.match(message):
        message = f"no regular expression: {message}"
    elif message.startswith(_OWN_WORDS):
        message = message[:1].lower() + message[1:]
    error.message = message.rstrip(".!")
    error.args = (error.message,)
    if error.hint is None:
        found = (hint for pattern, hint in _HINTS if re.search(pattern, message, re.IGNORECASE))
        error.hint = next(found, None)
    return error
