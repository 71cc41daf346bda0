"""Folders of the form `key=value` on the way to a file: columns of text."""

from __future__ import annotations

from collections.abc import Sequence

from zql.schema import Field, InputFile, Schema

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder value that stands for NULL."""


def folder_values(path: str) -> dict[str, str | None]:
    """Keys and values of the folders of a path, outermost first; percent codes are decoded."""
    if "=" not in path:
        return {}
    from urllib.parse import unquote

    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            found[unquote(key)] = None if value == NULL else unquote(value)
    return found


def folder_schema(files: Sequence[InputFile], taken: Sequence[str] = ()) -> Schema:
    """The columns that the folders of the files give, in order of appearance, all VARCHAR.

    Files without one of the folders have NULL in it. A column that the files themselves have
    (`taken`) is theirs: it has their type, and the folder only repeats it.
    """
    names: dict[str, None] = {}
    for file in files:
        names.update(dict.fromkeys(folder_values(file.path)))
    return Schema(tuple(Field(name, "VARCHAR") for name in names if name not in taken))


def folder_name(key: str, value: str | None) -> str:
    """The folder for a value, as DuckDB writes it."""
    from urllib.parse import quote

    return quote(key, safe="") + "=" + (NULL if value is None else quote(value, safe=""))
