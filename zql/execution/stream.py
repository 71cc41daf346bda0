"""The rows of a query, as they are asked for: as text, as JSON, or as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING
from weakref import finalize

from zql.errors import RunError, ZqlError
from zql.execution import kinds
from zql.execution.engine import ArrowStream, Engine, EngineError
from zql.execution.kinds import Kind
from zql.expr.sql import quote_identifier
from zql.schema import DataType

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.storage.format import WriteColumn

_BATCH_ROWS = 65_536
_AS_TEXT = frozenset({"UHUGEINT", "TIME WITH TIME ZONE", "BIT", "BIGNUM"})


class RowStream:
    """One pass over a result, in one of its three forms. A context manager.

    The query runs when the first rows are asked for, and holds no more than it needs to. What was
    kept for it goes with the last reference, if nobody has closed it before.
    """

    def __init__(
        self,
        engine: Engine,
        select: str,
        columns: Sequence[tuple[str, str, DataType]],
        stack: ExitStack,
        explain: Callable[[EngineError], ZqlError],
    ) -> None:
        """Reads `select` on a connection of its own.

        `columns` has each one's name in the SELECT, its user's name, and its type; `stack` is
        closed with the stream.
        """
        self.names = [name for _, name, _ in columns]
        self.types = [type_ for _, _, type_ in columns]
        self._engine = engine
        self._select = select
        self._columns = columns
        self._stack = stack
        self._end = finalize(self, stack.close)
        self._end.atexit = False  # folders of a process that ends are removed by others
        self._explain = explain
        self._opened = False
        self._stream: ArrowStream | None = None

    def on_error(self, change: Callable[[ZqlError], ZqlError]) -> None:
        """Lets what is known around the query be told with an error of its rows."""
        explain = self._explain
        self._explain = lambda error: change(explain(error))

    def text_rows(self, limit: int) -> list[tuple[str | None, ...]]:
        """The next rows with values as text, `limit` at most; none at the end."""
        items = (f"CAST({quote_identifier(c)} AS VARCHAR)" for c, _, _ in self._columns)
        return self._fetch(lambda select: f"SELECT {', '.join(items)} FROM ({select})", limit)

    def json_rows(self, limit: int) -> list[str]:
        """The next rows as JSON objects without line breaks, `limit` at most; none at the end.

        They are what WRITE puts into files; NaN and infinity, which JSON lacks, are texts.
        """
        from zql.storage.jsonl_write import output_sql

        columns, options = self._written(), {"nan": "text"}
        return self._lines(lambda select: output_sql(select, columns, options, "''"), limit)

    def delimited_rows(self, delimiter: str, limit: int) -> list[str]:
        """The next rows as WRITE puts them into CSV, without line ends; none at the end."""
        from zql.storage.delimited_write import output_sql

        columns, options = self._written(), {"delimiter": delimiter, "quote": '"'}
        return self._lines(lambda select: output_sql(select, columns, options, "''"), limit)

    def batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """All rows as Arrow batches."""
        if not self._columns:
            return
        self._still_there()
        with self._errors():
            stream = self._engine.batches(self._arrow_sql(), batch_rows or _BATCH_ROWS)
        self._stream = stream
        self._stack.callback(stream.close)
        rows = iter(stream)
        while True:
            self._still_there()
            with self._errors():
                batch = next(rows, None)
            if batch is None:
                return
            yield batch

    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        if self._stream is not None:
            return self._stream.schema
        if not self._columns:
            import pyarrow as pa

            return pa.schema([])
        with self._errors(), self._engine.batches(f"{self._arrow_sql()} LIMIT 0", 1) as stream:
            return stream.schema

    def close(self) -> None:
        """Ends the query and removes what was kept for it; twice does no harm."""
        self._end()

    def __enter__(self) -> RowStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _still_there(self) -> None:
        if not self._end.alive:
            raise RunError(
                "the rest of these rows is gone: they or their session were closed, or a setting "
                "of the session was changed",
                code="R739",
                hint="read them to their end first",
            )

    def _written(self) -> list[WriteColumn]:
        from zql.storage.format import WriteColumn

        return [WriteColumn(*column) for column in self._columns]

    def _lines(self, form: Callable[[str], str], limit: int) -> list[str]:
        return [row[0] or "" for row in self._fetch(form, limit)]

    def _fetch(self, form: Callable[[str], str], limit: int) -> list[tuple[str | None, ...]]:
        """The next rows of the SELECT in a form, which stays the one of the first call."""
        if not self._columns:
            return []
        self._still_there()
        with self._errors():
            if not self._opened:
                # Nothing else can be done on a connection with an open result, not even tidying up.
                self._stack.callback(self._engine.abandon)
                self._engine.open(form(f"\n{self._select}\n"))
                self._opened = True
            return self._engine.fetch(limit)

    def _arrow_sql(self) -> str:
        items = ", ".join(_arrow_item(c, n, t) for c, n, t in self._columns)
        return f"SELECT {items} FROM (\n{self._select}\n)"

    def _errors(self) -> _Explaining:
        return _Explaining(self._explain)


def _arrow_item(column: str, name: str, type_: DataType) -> str:
    """A column for Arrow; types that it would change without a word become text."""
    kind = kinds.parse(type_)
    handed = _handed_out(kind)
    value = quote_identifier(column)
    if handed != kind:
        value = f"CAST({value} AS {handed})"
    return f"{value} AS {quote_identifier(name)}"


def _handed_out(kind: Kind) -> Kind:
    if kind.name in _AS_TEXT:
        return Kind("VARCHAR")
    parts = tuple((name, _handed_out(part)) for name, part in kind.parts)
    return Kind(kind.name, parts, kind.numbers, kind.labels)


class _Explaining:
    """Turns errors of DuckDB into what they mean for the user."""

    def __init__(self, explain: Callable[[EngineError], ZqlError]) -> None:
        self._explain = explain

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, EngineError):
            raise self._explain(error) from None
