"""Which formats there are, and which one a path has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

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


class OwnFormats(Protocol):
    """Formats of the user's own. Each method may raise a `ZqlError`: their code may not load."""

    def named(self, name: str) -> Format | None:
        """The format of a name."""

    def of_path(self, path: str, *, known: bool) -> Format | None:
        """The one that a path's suffix tells; `known` says that a format of ZQL's has it too."""

    def names(self) -> Sequence[str]:
        """The names of all."""

    def listed(self) -> Sequence[Format]:
        """Those whose files are found in folders: which they are must not be chance."""

    def notes(self) -> tuple[str, ...]:
        """What was said of those that could not be loaded when a path was looked at."""


class _None:
    def named(self, name: str) -> Format | None:  # noqa: ARG002
        return None

    def of_path(self, path: str, *, known: bool) -> Format | None:  # noqa: ARG002
        return None

    def names(self) -> Sequence[str]:
        return ()

    def listed(self) -> Sequence[Format]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return ()


NO_OWN: OwnFormats = _None()


def is_built_in(name: str) -> bool:
    """Whether a name is one of ZQL's own formats, or a synonym of one."""
    return name.lower() in {*_SYNONYMS, *(f.name for f in FORMATS)}


def by_name(name: str, own: OwnFormats = NO_OWN) -> Format:
    """The format of a name; `UsageError` when there is none."""
    wanted = _SYNONYMS.get(name.lower(), name.lower())
    for one in FORMATS:
        if one.name == wanted:
            return one
    found = own.named(name)
    if found is not None:
        return found
    names = (*(f.name for f in FORMATS), *own.names())
    guess = nearest(name, names)
    raise UsageError(
        f'unknown format "{name}"',
        code="U623",
        hint=did_you_mean(guess) or "one of " + ", ".join(names),
        candidates=guess,
    )


def by_reader(reader: str, own: OwnFormats = NO_OWN) -> Format:
    """The format that a reader function reads; `UsageError` when there is none."""
    return by_name(READERS.get(reader) or reader.removeprefix("read_"), own)


def suffixes(formats: Iterable[Format] = FORMATS) -> tuple[str, ...]:
    """All suffixes of formats, also with those of compressions behind them."""
    return with_packed([suffix for f in formats for suffix in f.suffixes])


def with_packed(plain: Iterable[str]) -> tuple[str, ...]:
    """Suffixes, and each with those of compressions behind it."""
    packed = ["", *(s for c in compression.COMPRESSIONS for s in c.suffixes)]
    return tuple(s + p for s in plain for p in packed)


def format_of(path: str, own: OwnFormats = NO_OWN) -> Format | None:
    """The format that a path's suffix tells behind none or one of a compression; else None.

    One of the user's own may have a longer suffix than one of ZQL's: then it is meant.
    """
    name = compression.strip_suffix(path).lower()
    found = next((one for one in FORMATS if name.endswith(one.suffixes)), None)
    return own.of_path(path, known=found is not None) or found


def format_of_all(files: Sequence[InputFile], own: OwnFormats = NO_OWN) -> Format:
    """The one format of all files; `StorageError` for two, or for an unknown suffix."""
    found: dict[str, tuple[Format, str]] = {}
    for file in files:
        one = format_of(file.path, own)
        if one is None:
            raise StorageError(
                f"the name of {shown(file.path)} does not tell its format",
                code="R726",
                hint="say how to read it: read_json('..'), read_csv('..') or read_parquet('..'); a "
                "format of your own is known after IMPORT PYTHON of its file",
                notes=own.notes(),
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
