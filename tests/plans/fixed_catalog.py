"""Tables that are only said to exist: plans are made without a file to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zql.errors import StorageError
from zql.execution.catalog import EngineCatalog
from zql.logical.catalog import FileTable, WriteTarget
from zql.schema import Field, InputFile, Schema
from zql.session import Session

HERE = Path(__file__).parent

TABLES = {
    "docs": "id BIGINT, url VARCHAR, title VARCHAR, text VARCHAR, lang VARCHAR, score DOUBLE, "
    "tags VARCHAR[], meta STRUCT(source VARCHAR; words INTEGER)",
    "hosts": "host VARCHAR, rank INTEGER, lang VARCHAR",
    "large": "a BIGINT, b VARCHAR",
    "t": "a BIGINT, b VARCHAR, c DOUBLE",
    "u": "a BIGINT, d VARCHAR",
    "big": "id BIGINT, host VARCHAR, text VARCHAR, score DOUBLE",
    "swapped": "b VARCHAR, a BIGINT, c DOUBLE",
}


def _schema(text: str) -> Schema:
    pairs = (column.replace(";", ",").split(" ", 1) for column in text.split(", "))
    return Schema(tuple(Field(name, kind) for name, kind in pairs))


class FixedCatalog(EngineCatalog):
    """`FROM 'docs.parquet'` is a table of TABLES in two files, whatever the folder holds."""

    def files(
        self,
        patterns: Sequence[str],
        reader: str | None,
        options: Mapping[str, Any],
        columns: frozenset[str] | None = None,
    ) -> FileTable:
        stem, _, suffix = patterns[0].partition(".")
        if stem not in TABLES:
            raise StorageError(f'no file matches "{patterns[0]}"', code="R720")
        sizes = {"big": (900 << 20, 67 << 20), "large": (1 << 30, 1 << 30)}.get(stem, (1000, 1000))
        files = tuple(InputFile(f"{stem}-{i}.{suffix}", s, str(i)) for i, s in enumerate(sizes))
        return FileTable(patterns[0], suffix.split(".")[0], files, _schema(TABLES[stem]), (), ())

    def write_target(self, uri: str, options: Mapping[str, Any]) -> WriteTarget:
        given = dict(options)
        mode = str(given.pop("mode", "error"))
        name = str(given.pop("format", uri.rsplit(".", 1)[-1]))
        return WriteTarget(name, mode, tuple(given.items()))


class PlanningSession(Session):
    """A session that plans over the fixed tables; Python modules come from this folder."""

    def catalog(self, base_dir=None, tables=None, find=None) -> EngineCatalog:
        return FixedCatalog(self.engine, self._objects, base_dir=str(HERE))
