"""What is known of each version of each file, kept between runs in the user's cache folder.

One small JSON file for each input file: the keys it has, evidence of the columns that were looked
at, a line length that was enough to read it. Evidence of several files merges (`inference`), so one
changed file costs one file's scan. A cache file that cannot be read counts as none.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from zql.schema import DataType, InputFile
from zql.storage import inference
from zql.storage.inference import Evidence
from zql.storage.remote import protocol
from zql.tree import node
from zql.user_cache import read_cached, write_cached

_LAYOUT = 1
"""Changes with the meaning of what is kept."""
_SETTLED_NS = 2_000_000_000
"""A file that was written less than this before it is looked at may change again unseen."""
_KEPT = 4096


@node
class Known:
    """What is known of one file. `keys` is None until all of them are known.

    `line_ends` of text: `lf`, `crlf`, or `mixed` when they differ or some may be inside of values.
    `whole`: a packed file was found undamaged.
    """

    keys: tuple[str, ...] | None = None
    columns: Mapping[str, Evidence] = field(default_factory=dict)
    line_bytes: int | None = None
    rows: int | None = None
    line_ends: str | None = None
    whole: bool = False

    def lacks(self, names: Sequence[str]) -> list[str]:
        """The columns without evidence; keys that the file does not have need none."""
        return [
            name
            for name in names
            if name not in self.columns and (self.keys is None or name in self.keys)
        ]

    def with_columns(self, columns: Mapping[str, Evidence]) -> Known:
        """The same with more evidence."""
        return replace(self, columns={**self.columns, **columns})


NOTHING = Known()
_memory: dict[tuple[str, str, int, str], Known] = {}


def fingerprint(options: Mapping[str, Any], names: Sequence[str]) -> str:
    """The options that decide what a reader sees, as one text."""
    return json.dumps([[name, options[name]] for name in names if name in options])


def load(file: InputFile, reader: str) -> Known:
    """What is known of this version of a file, read as `reader` says."""
    key = _key(file, reader)
    known = _memory.get(key)
    if known is None:
        known = _from_disk(key)
        _remember(key, known)
    return known


def save(file: InputFile, reader: str, known: Known) -> None:
    """Keeps what is known: in this process always, on disk when the version is a sure one."""
    key = _key(file, reader)
    _remember(key, known)
    if not file.version or not _settled(file):
        return
    content = {
        "layout": _LAYOUT,
        "of": list(key),
        "keys": known.keys,
        "columns": [[name, inference.as_json(e)] for name, e in known.columns.items()],
        "line_bytes": known.line_bytes,
        "rows": known.rows,
        "line_ends": known.line_ends,
        "whole": known.whole,
    }
    write_cached(_name(key), json.dumps(content, separators=(",", ":")).encode())


def _settled(file: InputFile) -> bool:
    if protocol(file.path) or not file.version.isdigit():
        return True
    return time.time_ns() - int(file.version) > _SETTLED_NS


def _key(file: InputFile, reader: str) -> tuple[str, str, int, str]:
    path = file.path if protocol(file.path) else os.path.abspath(file.path)
    return reader, path, file.size, file.version


def _remember(key: tuple[str, str, int, str], known: Known) -> None:
    if len(_memory) >= _KEPT:
        _memory.clear()
    _memory[key] = known


def _name(key: tuple[str, str, int, str]) -> str:
    # By path, not by version: a new version takes the place of the old one.
    return f"files/{_digest(f'{key[0]}{chr(10)}{key[1]}')}.json"


def _digest(text: str) -> str:
    """A short name for a text. What is kept under it says itself what it is of."""
    data = text.encode("utf-8", "surrogatepass")
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}{len(data):x}"


def _from_disk(key: tuple[str, str, int, str]) -> Known:
    data = read_cached(_name(key)) if key[3] else None
    if data is None:
        return NOTHING
    try:
        content = json.loads(data)
        if content["layout"] != _LAYOUT or content["of"] != list(key):
            return NOTHING
        keys = content["keys"]
        return Known(
            None if keys is None else tuple(keys),
            {name: inference.from_json(e) for name, e in content["columns"]},
            content["line_bytes"],
            content["rows"],
            content["line_ends"],
            bool(content["whole"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return NOTHING


def forget() -> None:
    """Drops what this process remembers; what is on disk stays."""
    _memory.clear()


# ---- datasets ----------------------------------------------------------------------------------


def confirm(
    files: Sequence[InputFile], reader: str, types: Mapping[str, DataType], line_bytes: int
) -> None:
    """Keeps the types that a query over every row of the files has verified, for these files."""
    known = {**confirmed(files, reader)[0], **types}
    listing = _listing(files, reader)
    if listing is None or not all(map(_settled, files)):
        return
    content = {"layout": _LAYOUT, "of": listing, "types": known, "line_bytes": line_bytes}
    write_cached(_set_name(listing), json.dumps(content, separators=(",", ":")).encode())


def confirmed(files: Sequence[InputFile], reader: str) -> tuple[dict[str, DataType], int | None]:
    """The types that `confirm` kept for these very versions of these files, and a line length."""
    listing = _listing(files, reader)
    data = read_cached(_set_name(listing)) if listing else None
    if data is None:
        return {}, None
    try:
        content = json.loads(data)
        if content["layout"] != _LAYOUT or content["of"] != listing:
            return {}, None
        return {str(n): str(t) for n, t in content["types"].items()}, int(content["line_bytes"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, None


def _listing(files: Sequence[InputFile], reader: str) -> list[list[Any]] | None:
    if not all(file.version for file in files):
        return None
    return [list(_key(file, reader)) for file in files]


def _set_name(listing: list[list[Any]]) -> str:
    return f"sets/{_digest(json.dumps(listing))}.json"
