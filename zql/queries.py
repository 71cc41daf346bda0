"""Queries and results as Python objects: lazy until rows are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from zql.errors import ZqlError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.schema import Field, Schema

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from zql.execution.report import RunReport
    from zql.execution.stream import RowStream


class Planner(Protocol):
    """What a query needs of its session."""

    def open_rows(self, plan: lp.Query | lp.Program) -> RowStream: ...

    def print_rows(self, rows: RowStream) -> None: ...

    def explain_query(self, query: Query, level: str, format: str) -> str: ...

    def then(self, query: Query, text: str, params: Mapping[str, Any] | None) -> Query: ...

    def write_query(self, query: Query, path: str, options: Mapping[str, Any]) -> RunReport: ...


class _Rows:
    """The ways to get rows; `batches` is what all of them rest on."""

    def batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Arrow batches in order, made as they are asked for."""
        raise NotImplementedError

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches()), schema=self.arrow_schema())

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.arrow_schema(), self.batches(batch_rows))

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas data frame (pandas must be installed)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars data frame (polars must be installed)."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return list(self)

    def _whole_numbers(self) -> frozenset[str]:
        """Columns of integers that Arrow has as decimals (`sum` of integers is a HUGEINT)."""
        return frozenset()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        whole = self._whole_numbers()
        for batch in self.batches():
            for row in batch.to_pylist():
                for name in whole:
                    row[name] = None if row[name] is None else int(row[name])
                yield row

    def first(self) -> dict[str, Any] | None:
        """The first row, or None."""
        return next(iter(self), None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class Query(_Rows):
    """A query, bound and not run: its columns are known, rows are computed when asked for.

    Printing one never runs it.
    """

    def __init__(
        self,
        session: Planner,
        plan: lp.Query | lp.Program,
        text: str,
        params: Mapping[str, Any] | None = None,
        tables: Mapping[str, object] | None = None,
        placed: Callable[[ZqlError], ZqlError] = lambda error: error,
    ) -> None:
        """`tables` are the Python objects that it reads, by name: it holds them.

        `placed` gives an error of its rows the place in the text.
        """
        self._session = session
        self._plan = plan
        self.text = text
        self.params = dict(params or {})
        self.tables = dict(tables or {})
        self._placed = placed

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._rows.names)

    @property
    def _rows(self) -> lp.Query:
        found = lp.rows_of(self._plan)
        if found is None:
            raise TypeError(self._plan)
        return found

    @property
    def types(self) -> list[str]:
        """The types of the columns, as DuckDB writes them."""
        return [c.type for c in self._rows.columns]

    def _whole_numbers(self) -> frozenset[str]:
        named = zip(self.columns, self.types, strict=True)
        return frozenset(n for n, t in named if t in ("HUGEINT", "UHUGEINT"))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return self.arrow_schema()

    def arrow_schema(self) -> pa.Schema:
        import pyarrow as pa

        rows = self._rows
        nulls = tuple(ex.Cast(ex.Literal(None), column.type) for column in rows.columns)
        none = lp.Limit(lp.Values(rows.columns, (nulls,)), 0)
        with_none = self._session.open_rows(lp.Query(none, rows.names))
        try:
            return pa.schema(with_none.arrow_schema())
        finally:
            with_none.close()

    def _open(self) -> RowStream:
        try:
            rows = self._session.open_rows(self._plan)
        except ZqlError as error:
            raise self._placed(error) from None
        rows.on_error(self._placed)
        return rows

    def _limited(self, count: int) -> Query:
        plan = lp.limited(self._plan, count)
        return Query(self._session, plan, self.text, self.params, self.tables, self._placed)

    def batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        rows = self._open()
        try:
            yield from rows.batches(batch_rows)
        finally:
            rows.close()

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        rows = self._open()
        try:
            return pa.Table.from_batches(list(rows.batches()), schema=rows.arrow_schema())
        finally:
            rows.close()

    def collect(self, *, limit: int | None = None) -> Result:
        """Runs the query; all rows (or the first `limit`) in memory."""
        query = self if limit is None else self._limited(limit)
        return Result(query.to_arrow(), self._whole_numbers())

    def count(self) -> int:
        """The number of rows."""
        return self.then("|> AGGREGATE count(*) AS n").to_arrow()["n"][0].as_py()  # type: ignore[no-any-return]

    def then(self, text: str, params: Mapping[str, Any] | None = None) -> Query:
        """The query with more operators behind it: `q.then("|> WHERE n > 1")`."""
        return self._session.then(self, text, params)

    def explain(self, level: str = "stages", format: str = "text") -> str:
        """The query's plan.

        `level` is `syntax`, `logical`, `trace`, `stages` or `analyze` (which runs the query and
        throws its rows away), `format` is `text`, `json` or `mermaid`.
        """
        return self._session.explain_query(self, level, format)

    def show(self, n: int = 20) -> None:
        """Prints the first `n` rows as a table."""
        limited = self._limited(n)
        self._session.print_rows(limited._open())  # noqa: SLF001 - its own class

    def write(self, path: str, **options: Any) -> RunReport:
        """Writes the rows into files, as `|> WRITE path OPTIONS (..)` does."""
        try:
            return self._session.write_query(self, path, options)
        except ZqlError as error:
            raise self._placed(error) from None

    def __repr__(self) -> str:
        fields = ", ".join(f"{n} {t}" for n, t in zip(self.columns, self.types, strict=True))
        return f"<zql.Query ({fields}), not run>"


@dataclass(frozen=True, eq=False)
class Result(_Rows):
    """Rows in memory."""

    table: pa.Table = field(repr=False)
    whole: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def _whole_numbers(self) -> frozenset[str]:
        return self.whole

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def __len__(self) -> int:
        return self.num_rows

    def arrow_schema(self) -> pa.Schema:
        return self.table.schema

    def batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches(max_chunksize=batch_rows)

    def to_arrow(self) -> pa.Table:
        return self.table

    def __repr__(self) -> str:
        return f"<zql.Result {self.num_rows} rows: {', '.join(self.columns)}>"


def schema_of(plan: lp.Query | lp.Write | lp.Store) -> Schema:
    """The users' names and the types of a plan's columns."""
    return Schema(tuple(Field(n, c.type) for n, c in zip(plan.names, plan.columns, strict=True)))
