"""A small SqlEngine for the storage tests, and ways to write and read tables with a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from zql.execution.introspect import user_module
from zql.execution.own_formats import OwnFormats
from zql.storage import registry, schema_cache
from zql.storage.dataset import Dataset, open_dataset
from zql.storage.format import Format, Source, WriteColumn


class DuckEngine:
    """One connection; remembers what was asked."""

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(config={"threads": 2})
        self.connection.execute("SET autoinstall_known_extensions = false")
        self.connection.execute("SET autoload_known_extensions = false")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.statements: list[str] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        return self.connection.execute(sql).fetchall()

    def stream(self, schema, batches) -> str:
        import pyarrow as pa

        name = f"stream_{len(self.statements)}"
        self.connection.register(name, pa.RecordBatchReader.from_batches(schema, batches))
        return name

    def describe(self, sql: str) -> list[tuple[str, str]]:
        return [(r[0], r[1]) for r in self.rows(f"DESCRIBE {sql}")]


@pytest.fixture(scope="session")
def engine() -> DuckEngine:
    return DuckEngine()


@pytest.fixture(autouse=True)
def forgetful_cache(tmp_path, monkeypatch):
    """A cache of its own for each test: the same path may hold other bytes of the same size."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    schema_cache.forget()


OWN = OwnFormats()
"""Formats in Python, which keep the contract too."""

OWN.add_module(user_module(str(Path(__file__).with_name("line_formats.py")), is_path=True))

SUFFIXES = {"none": "", "gzip": ".gz", "zstd": ".zst", "xz": ".xz", "bzip2": ".bz2"}


def write(
    engine: DuckEngine,
    format: str,
    path: Path | str,
    query: str,
    *,
    options: Mapping[str, Any] | None = None,
    compression: str | None = None,
    batch_rows: int = 2048,
) -> int:
    """Writes the rows of a query as the runner does; gives the number of rows."""
    one = format_named(format)
    columns = [WriteColumn(name, name, type_) for name, type_ in engine.describe(query)]
    sql = one.output_sql(query, columns, options or {})
    with engine.connection.sql(sql).to_arrow_reader(batch_rows) as reader:
        writer = one.writer(str(path), columns, reader.schema, options or {}, compression)
        writer.write_all(reader)
    return writer.rows


def opened(engine: DuckEngine, *paths: Path | str, reader=None, subset=None, **options) -> Dataset:
    found = [str(p) for p in paths]
    return open_dataset(found, options, engine, reader=reader, columns=subset, own=OWN)


def read(
    engine: DuckEngine,
    dataset: Dataset,
    names: Sequence[str] | None = None,
    source: Source | None = None,
) -> list[tuple[Any, ...]]:
    """All rows of a dataset, or of a part of it, in order."""
    wanted = dataset.schema.names if names is None else names
    columns = [dataset.read_column(name, f"k{i}") for i, name in enumerate(wanted)]
    numbered = any(c.kind == "row" for c in columns)
    given = dataset.files if source is None else source
    with dataset.format.opened(given, dataset.options, number_rows=numbered) as there:
        return engine.rows(
            f"SELECT * FROM {dataset.format.scan_sql(there, columns, dataset.options, engine)}"
        )


def table(engine: DuckEngine, *paths: Path | str, reader=None, **options) -> list[tuple[Any, ...]]:
    return read(engine, opened(engine, *paths, reader=reader, **options))


def types(dataset: Dataset) -> dict[str, str]:
    return {f.name: f.type for f in dataset.schema}


def format_named(name: str) -> Format:
    return registry.by_name(name, OWN)
