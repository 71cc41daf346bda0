"""Results as streams for programs: CSV, TSV, JSON, JSONL, Markdown, Arrow and Parquet.

CSV, TSV and JSONL are the very lines that WRITE puts into files. Everything is UTF-8 with LF line
ends, and only a chunk of rows is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Protocol

from zql.display.text import is_numeric, safe_text
from zql.errors import RunError
from zql.storage.parquet_bounds import bounded, leaves

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 2_048

SUFFIXES = {
    ".txt": "table",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".md": "markdown",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
}
"""The format of an output file by its suffix."""

BINARY = ("arrow", "parquet")
"""Formats that no terminal can show."""


Row = Sequence[str | None]


class TextRows(Protocol):
    """A result as far as text needs it; `text_rows` goes on where the last call ended."""

    @property
    def names(self) -> Sequence[str]:
        """Column names."""

    @property
    def types(self) -> Sequence[str]:
        """Types as DuckDB writes them."""

    def text_rows(self, limit: int) -> Sequence[Row]:
        """The next rows, `limit` at most; none at the end."""


class ResultRows(TextRows, Protocol):
    """A result as the formats read it: one pass, in one of its three forms."""

    def json_rows(self, limit: int) -> Sequence[str]:
        """The next rows as JSON objects on one line each; none at the end."""

    def delimited_rows(self, delimiter: str, limit: int) -> Sequence[str]:
        """The next rows as lines of CSV without their ends; none at the end."""

    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow has them."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows as Arrow."""


def _delimited(delimiter: str) -> Callable[[ResultRows, IO[bytes]], None]:
    def write(rows: ResultRows, out: IO[bytes]) -> None:
        from zql.storage.delimited_write import header
        from zql.storage.format import WriteColumn

        names = [WriteColumn("", name, "VARCHAR") for name in rows.names]
        out.write(header(names, {"delimiter": delimiter, "quote": '"'}))
        while chunk := rows.delimited_rows(delimiter, _CHUNK):
            out.write(("\n".join(chunk) + "\n").encode())

    return write


def _jsonl(rows: ResultRows, out: IO[bytes]) -> None:
    while chunk := rows.json_rows(_CHUNK):
        out.write(("\n".join(chunk) + "\n").encode())


def _json(rows: ResultRows, out: IO[bytes]) -> None:
    before = b"[\n  "
    while chunk := rows.json_rows(_CHUNK):
        out.write(before + ",\n  ".join(chunk).encode())
        before = b",\n  "
    out.write(b"[]\n" if before.startswith(b"[") else b"\n]\n")


def _markdown_cell(value: str | None) -> str:
    lines = (value or "").replace("\r\n", "\n").split("\n")
    return "<br>".join(safe_text(line).replace("|", "\\|") for line in lines)


def _markdown(rows: ResultRows, out: IO[bytes]) -> None:
    def line(cells: Row) -> str:
        return "| " + " | ".join(map(_markdown_cell, cells)) + " |\n"

    rules = ["--:" if is_numeric(kind) else "---" for kind in rows.types]
    out.write((line(rows.names) + "|" + "|".join(rules) + "|\n").encode())
    while chunk := rows.text_rows(_CHUNK):
        out.write("".join(map(line, chunk)).encode())


def _arrow_stream(rows: ResultRows, out: IO[bytes]) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(out, rows.arrow_schema()) as writer:
        for batch in rows.batches():
            writer.write_batch(batch)


def _arrow_file(rows: ResultRows, out: IO[bytes]) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(out, rows.arrow_schema()) as writer:
        for batch in rows.batches():
            writer.write_batch(batch)


def _parquet(rows: ResultRows, out: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = rows.arrow_schema()
    bounds = bounded(leaves(schema))
    try:
        with pq.ParquetWriter(out, schema, compression="zstd", write_statistics=bounds) as writer:
            for batch in rows.batches():
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        raise RunError(
            f"parquet cannot hold a column of this result: {error}",
            code="R751",
            hint="CAST it to VARCHAR",
        ) from None


WRITERS: dict[str, Callable[[ResultRows, IO[bytes]], None]] = {
    "csv": _delimited(","),
    "tsv": _delimited("\t"),
    "json": _json,
    "jsonl": _jsonl,
    "markdown": _markdown,
    "arrow": _arrow_stream,
    "arrow file": _arrow_file,
    "parquet": _parquet,
}
"""Every format but the table: reads the result to its end and writes it to a binary stream.

`arrow` is the IPC stream, for pipes; `arrow file` the IPC file, which can be read in any order.
"""
