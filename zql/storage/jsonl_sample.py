"""A first look at the heads of JSON Lines files: what their columns seem to be.

What it says must be verified (`jsonl_checked.sampled`) by the query that relies on it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from zql.schema import DataType, InputFile
from zql.storage import compression, files, inference, jsonl_checked, jsonl_read
from zql.storage.format import Sample
from zql.storage.remote import protocol

_HEAD = 1 << 15
"""Bytes that are looked at in each file."""
_MOST_FILES = 64
_MOST_LINES = 40


def sample(
    inputs: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
) -> Sample | None:
    """What the heads of some files tell of these columns.

    None when they do not look like JSON Lines or are not at hand, or when a name of `columns` is
    there in another case: such files need a full look, which also explains what is wrong.
    """
    evidence: dict[str, inference.Evidence] = {}
    like_json: set[str] = set()
    longest = 0
    step = max(1, len(inputs) // _MOST_FILES)
    for file in inputs[::step][:_MOST_FILES]:
        for line in _head(file, options) or [b""]:
            found = _keys(line)
            if found is None:
                return None
            longest = max(longest, len(line))
            for key, value in found.items():
                one = inference.of_value(value)
                evidence[key] = inference.merge(evidence.get(key, inference.NOTHING), one)
                if isinstance(value, str) and _is_json(value):
                    like_json.add(key)
    absent = tuple(name for name in columns if name not in evidence)
    folded = {key.lower() for key in evidence}
    if any(name.lower() in folded for name in absent) or jsonl_read.unnameable(absent):
        return None
    wanted = {key: _verifiable(e) for key, e in evidence.items() if key in set(columns)}
    types = {key: type_ for key, type_ in wanted.items() if type_}
    unsure = tuple(key for key, type_ in wanted.items() if type_ is None)
    line_bytes = max(jsonl_read.LINE_BYTES, 1 << longest.bit_length())
    as_json = tuple(key for key in types if key in like_json)
    return Sample(types, unsure, absent, line_bytes, as_json=as_json)


def _keys(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None when it is none."""
    try:
        found = json.loads(line, parse_float=inference.Number, parse_constant=inference.Number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_json(text: str) -> bool:
    """Whether a text is itself a list or an object."""
    if text[:1] not in {"[", "{"}:
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        pass
    return True


def _verifiable(e: inference.Evidence) -> DataType | None:
    type_ = inference.type_of(e)
    plain = type_ in jsonl_checked.VERIFIABLE and e != inference.NOTHING
    # Text that stands for different kinds of scalars needs all of them to be known.
    mixed = type_ == "VARCHAR" and not _only_texts(e)
    return type_ if plain and not mixed else None


def _only_texts(e: inference.Evidence) -> bool:
    return e.texts and not (e.bools or e.ints or e.floats)


def _head(file: InputFile, options: Mapping[str, Any]) -> list[bytes] | None:
    packed = compression.chosen(file.path, options.get("compression"))
    if protocol(file.path) or file.local or packed not in {compression.NONE, compression.GZIP}:
        return None
    with files.open_binary(file) as stream:
        data = stream.read(_HEAD)
    whole = len(data) < _HEAD
    if packed is compression.GZIP:
        try:
            unpacker = zlib.decompressobj(wbits=31)
            data = unpacker.decompress(data, _HEAD)
        except zlib.error:
            return None
        whole = False
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not whole:
        lines.pop()
    return [line for line in lines[:_MOST_LINES] if line.strip()]
