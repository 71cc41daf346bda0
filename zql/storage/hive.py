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
    """The folder for a value, as DuckDB writes it: all but letters, digits and `-_.~` in percents.

    A text that says what NULL says is told from it by a percent code, and so is a key from names
    that readers pass over.
    """
    from urllib.parse import quote

    said = NULL if value is None else quote(value, safe="")
    if value == NULL:
        said = f"%5F{said[1:]}"
    name = quote(key, safe="")
    if name.startswith((".", "_")):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return f"{name}={said}"


def above_folders(path: str) -> str:
    """Where the `key=value` folders of a path begin: a folder with `/` at its end, or empty."""
    *folders, _ = path.split("/")
    while folders and "=" in folders[-1]:
        folders.pop()
    return "".join(f"{folder}/" for folder in folders)
