"""The leaves of a plan as SQL relations that one engine can read."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from zql.errors import InternalError
from zql.execution import kept
from zql.execution.engine import Engine
from zql.execution.kept import KeptFile, Part
from zql.execution.own_formats import format_of
from zql.execution.remote_files import add_filesystems
from zql.execution.stored import StoredTable
from zql.expr.expression import Column
from zql.expr.sql import quote_identifier
from zql.logical.plan import BatchInput, MemoryScan, Scan, StageResult
from zql.storage.format import ReadColumn, Split
from zql.tree import Node, walk

if TYPE_CHECKING:
    import pyarrow as pa

Input = Split | Part
"""What one task reads of its stage's source."""

_numbers = itertools.count()


class Sources:
    """Gives each leaf of plans its relation; what it registers lives as long as the context."""

    def __init__(
        self,
        engine: Engine,
        results: Mapping[int, Sequence[KeptFile]],
        objects: Mapping[str, object],
        storage_options: Mapping[str, Any],
    ) -> None:
        self._engine = engine
        self._results = results
        self._objects = objects
        self._storage_options = storage_options
        self.streamed: Remembering | None = None
        """The rows of a reader of the user's own, if there is one."""
        self._stack = ExitStack()

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(
        self, plan: Node, given: Mapping[Node, str] | None = None, *, number_rows: bool = False
    ) -> dict[Node, str]:
        """The relations of a plan's leaves; those `given` are taken as they are."""
        found = dict(given or {})
        for node in walk(plan):
            if isinstance(node, Scan | MemoryScan | StageResult | BatchInput) and node not in found:
                found[node] = self.relation(node, number_rows=number_rows)
        return found

    def relation(self, leaf: Node, input: Input | None = None, *, number_rows: bool = False) -> str:
        """The relation of one leaf: of all of it, or of the part that a task reads."""
        match leaf:
            case Scan():
                split = input if isinstance(input, Split) else None
                return self._scan(leaf, split, number_rows)
            case MemoryScan():
                return self._memory(leaf)
            case StageResult():
                if isinstance(input, Part):
                    return self.registered(kept.part_reader(input), leaf.columns)
                return self.registered(kept.table(self._results[leaf.stage]), leaf.columns)
            case _:
                raise InternalError(f"nothing to read for {type(leaf).__name__}")

    def registered(self, data: object | None, columns: Sequence[Column]) -> str:
        """Arrow data as a relation of the columns with their types; None stands for no rows."""
        if data is None:
            return f"(SELECT {_nulls(columns)} WHERE false)"
        name = new_name()
        self._engine.register(name, data)
        self._stack.callback(self._engine.unregister, name)
        return f"(SELECT {casts(columns)} FROM {name})"

    def _memory(self, scan: MemoryScan) -> str:
        if scan.key not in self._objects:
            # A table that an earlier statement would make, were it run and not checked.
            return self.registered(None, scan.columns)
        value, sources = self._objects[scan.key], scan.sources
        if isinstance(value, StoredTable):
            sources = tuple(value.source(s) for s in sources)
            value = value.data()
            if value is None:
                return self.registered(None, scan.columns)
        name = new_name()
        self._engine.register(name, value)
        self._stack.callback(self._engine.unregister, name)
        items = ", ".join(
            f"CAST({quote_identifier(s)} AS {c.type}) AS {quote_identifier(c.name)}"
            for s, c in zip(sources, scan.columns, strict=True)
        )
        return f"(SELECT {items or '1'} FROM {name})"

    def _scan(self, scan: Scan, split: Split | None, number_rows: bool) -> str:
        format_ = format_of(scan.format, scan.own)
        options = dict(scan.options)
        number_rows = number_rows or any(c.kind == "row" for c in scan.columns_read)
        files = [split.file] if split else scan.files
        add_filesystems(self._engine, [f.path for f in files], self._storage_options)
        source = self._stack.enter_context(
            format_.opened(split or list(scan.files), options, number_rows=number_rows)
        )
        columns = [
            ReadColumn(c.column.name, c.source, c.column.type, c.kind) for c in scan.columns_read
        ]
        return format_.scan_sql(source, columns, options, self)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """See `SqlEngine`."""
        return self._engine.rows(sql)

    def stream(self, schema: pa.Schema, batches: Generator[pa.RecordBatch]) -> str:
        """See `ScanEngine`."""
        self.streamed = Remembering(batches)
        self._stack.callback(_close, batches)
        return self._stack.enter_context(registered_stream(self._engine, schema, self.streamed))


def casts(columns: Sequence[Column]) -> str:
    """A select list that gives the columns their types; a no-op where they have them.

    Columns of which a plan does not know the type keep the one that they have.
    """
    items = (f"CAST({n} AS {t}) AS {n}" if t else n for n, t in _quoted(columns))
    return ", ".join(items) or "1"


def _nulls(columns: Sequence[Column]) -> str:
    return ", ".join(f"CAST(NULL AS {t}) AS {n}" for n, t in _quoted(columns)) or "1"


def _quoted(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    return ((quote_identifier(c.name), c.type) for c in columns)


def _close(batches: Generator[pa.RecordBatch]) -> None:
    """Ends a reader whose rows are not wanted any more: its file is closed."""
    with suppress(ValueError):  # it is at work in another thread, which has noticed by itself
        batches.close()


class Remembering:
    """Batches on their way into DuckDB, which makes of an exception in them one of its own."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.error: BaseException | None = None
        self.rows = 0
        self.seconds = 0.0

    def __iter__(self) -> Remembering:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter()
        try:
            batch = next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.seconds += time.perf_counter() - began
        self.rows += batch.num_rows
        return batch


def new_name() -> str:
    """A name for what is registered, which nothing else has."""
    return f"zql_{next(_numbers)}"


@contextmanager
def registered_stream(
    engine: Engine, schema: pa.Schema, batches: Iterator[pa.RecordBatch], name: str | None = None
) -> Iterator[str]:
    """A name under which a statement reads batches as they are made, once."""
    import pyarrow as pa

    name = name or new_name()
    engine.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    try:
        yield name
    finally:
        engine.unregister(name)
