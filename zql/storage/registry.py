"""Which formats there are, and which one a path has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.schema import InputFile
from zql.storage import compression
from zql.storage.delimited import DelimitedFormat
from zql.storage.files import shown
from zql.storage.format import Format
from zql.storage.jsonl import JsonlFormat
from zql.storage.parquet import ParquetFormat

FORMATS: tuple[Format, ...] = (
    JsonlFormat(),
    ParquetFormat(),
    DelimitedFormat("csv", (".csv",), ","),
    DelimitedFormat("tsv", (".tsv", ".tab"), "\t"),
)

READERS = {"read_json": "jsonl", "read_parquet": "parquet", "read_csv": "csv"}
"""Reader functions of the language, and the format that each reads."""

_SYNONYMS = {"json": "jsonl", "ndjson": "jsonl"}


def by_name(name: str) -> Format:
    """The format of a name; `UsageError` when there is none."""
    wanted = _SYNONYMS.get(name.lower(), name.lower())
    for one in FORMATS:
        if one.name == wanted:
            return one
    names = tuple(f.name for f in FORMATS)
    guess = nearest(name, names)
    raise UsageError(
        f'unknown format "{name}"',
        code="U623",
        hint=did_you_mean(guess) or "one of " + ", ".join(names),
        candidates=guess,
    )


def suffixes(formats: Iterable[Format] = FORMATS) -> tuple[str, ...]:
    """All suffixes of formats, also with those of compressions behind them."""
    packed = ["", *(s for c in compression.COMPRESSIONS for s in c.suffixes)]
    return tuple(s + p for f in formats for s in f.suffixes for p in packed)


def format_of(path: str) -> Format | None:
    """The format that a path's suffix tells behind none or one of a compression; else None."""
    name = compression.strip_suffix(path).lower()
    for one in FORMATS:
        if name.endswith(one.suffixes):
            return one
    return None


def format_of_all(files: Sequence[InputFile]) -> Format:
    """The one format of all files; `StorageError` for two, or for an unknown suffix."""
    found: dict[str, tuple[Format, str]] = {}
    for file in files:
        one = format_of(file.path)
        if one is None:
            raise StorageError(
                f"the name of {shown(file.path)} does not tell its format",
                code="R726",
                hint="say how to read it: read_json('..'), read_csv('..') or read_parquet('..')",
            )
        found.setdefault(one.name, (one, file.path))
    if len(found) > 1:
        (a, first), (b, second) = list(found.values())[:2]
        raise StorageError(
            f"files of two formats: {shown(first)} is {a.name}, {shown(second)} is {b.name}",
            code="R726",
            hint="a pattern for one format, such as *"
            f"{a.suffixes[0]}, or two FROMs and UNION ALL BY NAME",
        )
    return next(iter(found.values()))[0]
