"""Names and types of the options of readers and writers, checked before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zql.errors import UsageError, did_you_mean, nearest

FOR_ALL_READERS = {
    "filename": "BOOLEAN",
    "file_row_number": "BOOLEAN",
    "hive_partitioning": "BOOLEAN",
    "union_by_name": "TRUE",
}
"""Options of every reader. Files are joined by name in any case."""

SYNONYMS = {
    "delim": "delimiter",
    "sep": "delimiter",
    "separator": "delimiter",
    "nullstr": "null_str",
    "null": "null_str",
    "dtypes": "types",
    "column_types": "types",
    "maximum_object_size": "max_line_bytes",
    "maximum_line_size": "max_line_bytes",
    "max_line_size": "max_line_bytes",
}
"""DuckDB's spellings, and the name that the same option has here."""


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_names(value: object) -> bool:
    names = (value,) if isinstance(value, str) else value
    return isinstance(names, list | tuple) and all(isinstance(n, str) for n in names) and any(names)


_CHECKS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "BOOLEAN": ("TRUE or FALSE", lambda v: isinstance(v, bool)),
    "TRUE": ("TRUE, as it always is", lambda v: v is True),
    "ANY": ("a value", lambda _: True),
    "INTEGER": ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "DOUBLE": ("a number", lambda v: isinstance(v, float | int) and not isinstance(v, bool)),
    "VARCHAR": ("a text", lambda v: isinstance(v, str)),
    "CHAR": ("a text of one character", lambda v: isinstance(v, str) and len(v) == 1),
    "CHAR?": ("one character or ''", lambda v: isinstance(v, str) and len(v) <= 1),
    "BIGINT": ("a whole number above zero", _is_size),
    "BYTES": ("a size ('64MB')", lambda v: _is_size(v) or isinstance(v, str)),
    "SIZE": ("a whole number above zero, or -1 for all", lambda v: _is_size(v) or v == -1),
    "NAMES": ("names of columns ([a, b])", _is_names),
    "STRUCT": ("{name: 'TYPE', ...}", lambda v: isinstance(v, Mapping)),
}


def check(given: Mapping[str, Any], allowed: Mapping[str, str], what: str) -> dict[str, Any]:
    """The options under their own names, in the order of `allowed`.

    `what` names the reader or writer in the message. Raises `UsageError` for an unknown name, for
    a name given twice by way of a synonym, and for a value of the wrong type. A value of None is
    the same as no option. A type in small letters lists the words that are allowed. Where `*` is
    allowed, so are names that are not listed.
    """
    found: dict[str, Any] = {}
    for spelled, value in given.items():
        name = spelled.lower()
        if name not in allowed:
            name = SYNONYMS.get(name, name)
        if name not in allowed and "*" in allowed:
            name = spelled
        elif name not in allowed:
            guess = nearest(spelled, [*allowed, *(s for s, n in SYNONYMS.items() if n in allowed)])
            raise UsageError(
                f'{what} has no option "{spelled}"',
                code="U610",
                hint=did_you_mean(guess) or "it has " + ", ".join(sorted(allowed)),
                candidates=guess,
            )
        if name in found:
            raise UsageError(
                f'option "{name}" of {what} is given twice',
                code="U611",
                hint=f'"{spelled}" is another name of it' if spelled != name else None,
            )
        if value is not None:
            found[name] = _checked(name, value, allowed.get(name, "ANY"), what)
    return {name: found[name] for name in (*allowed, *found) if name in found}


def _checked(name: str, value: Any, kind: str, what: str) -> Any:
    if kind not in _CHECKS:
        choices = kind.replace(" or ", ", ").split(", ")
        if not isinstance(value, str) or value.lower() not in choices:
            raise UsageError(
                f'option "{name}" of {what} must be {kind}, not {value!r}', code="U612"
            )
        return value.lower()
    words, fits = _CHECKS[kind]
    if not fits(value):
        raise UsageError(f'option "{name}" of {what} must be {words}, not {value!r}', code="U612")
    if kind == "NAMES":
        return (value,) if isinstance(value, str) else tuple(value)
    if kind == "STRUCT":
        for column, type_ in value.items():
            if not isinstance(type_, str):
                raise UsageError(
                    f'option "{name}" of {what}: the type of "{column}" must be a text '
                    f"such as 'VARCHAR', not {type_!r}",
                    code="U612",
                )
        return dict(value)
    return value
