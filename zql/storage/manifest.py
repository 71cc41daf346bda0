"""The manifest beside written files, and what it knows of files that cannot say it themselves.

JSON lines without a line have no keys, and delimited text without rows has names but no types: a
result without rows would come back as another table than it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from zql.errors import UsageError
from zql.schema import DataType, Field, InputFile
from zql.storage import files, hive, scan
from zql.storage.format import SqlEngine

MANIFEST = "_zql_manifest.json"
SUCCESS = "_SUCCESS"
"""An empty file: it is there while all that the manifest beside it lists is finished."""
_VERSION = 1
_HEADER_BYTES = 1 << 12
_SAYS_MORE = ("columns", "types", "all_varchar", "header")


def read_manifest(folder: str, storage_options: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a folder (empty, or with `/` at its end); one without targets if need be."""
    text = files.read_whole(folder + MANIFEST, storage_options)
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(text or b"")
        if found["version"] == _VERSION and isinstance(found["targets"], dict):
            return dict(found)
    return {"version": _VERSION, "targets": {}}


def may_tell_more(
    fields: Sequence[Field], inputs: Sequence[InputFile], given: Collection[str]
) -> bool:
    """Whether files may be without rows, and nothing but a manifest can say what they were."""
    if any(name in given for name in _SAYS_MORE):
        return False
    small = all(f.size < _HEADER_BYTES and files.protocol(f.path) is None for f in inputs)
    return not fields or (small and all(f.type == "VARCHAR" for f in fields))


def columns_without_rows(
    inputs: Sequence[InputFile], engine: SqlEngine, storage_options: Mapping[str, Any]
) -> tuple[Field, ...]:
    """The columns of files that a manifest says have no rows; none when that is not all of them."""
    manifests: dict[str, dict[str, Any]] = {}
    found: dict[str, DataType] = {}
    for file in inputs:
        folder = hive.above_folders(file.path)
        name = file.path[len(folder) :]
        if folder not in manifests:
            manifests[folder] = read_manifest(folder, storage_options)
        entries = manifests[folder]["targets"].values()
        columns = next((c for e in entries if (c := _columns(e, name, file.size))), {})
        if not columns:
            return ()
        found |= {n: t for n, t in columns.items() if n not in found}
    with suppress(UsageError):
        types = scan.canonical_types({n: t for n, t in found.items() if t != '"NULL"'}, engine)
        return tuple(Field(name, types.get(name, "JSON")) for name in found)
    return ()


def _columns(entry: Any, name: str, size: int) -> dict[str, DataType]:
    """What an entry says of a file of that size, if it is one without rows."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        facts = entry["files"][name]
        if (facts["rows"], facts["bytes"]) == (0, size):
            return {str(column): str(type_) for column, type_ in entry["columns"]}
    return {}
