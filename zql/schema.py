"""What is known of a table before it is read: its columns, and the files that hold it."""

from __future__ import annotations

from collections.abc import Iterator

from zql.tree import node

DataType = str
"""A type as DuckDB writes it: `BIGINT`, `VARCHAR[]`, `STRUCT(a BIGINT, b VARCHAR)`."""


@node
class Field:
    """One column of a file or a result, under the name that the user sees."""

    name: str
    type: DataType


@node
class Schema:
    """Ordered columns; names are exact (`Id` and `id` are two)."""

    fields: tuple[Field, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(f.name for f in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@node
class InputFile:
    """One input: where, its size in bytes, and a version (mtime in ns, or an etag).

    `local` is set while a local stand-in is read in its place: the fetched or unpacked file, or a
    window on some of its bytes.
    """

    path: str
    size: int
    version: str
    local: str = ""
