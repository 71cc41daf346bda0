"""One call of a user's reader: what it gives, one by one, and as batches of typed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zql.errors import UdfError, ZqlError
from zql.execution import frames, traces
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.printed import Printer
from zql.execution.results import records_to_arrow
from zql.execution.udf import iterator_of

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS, _MOST_ROWS = 256, 8192
_BATCH_BYTES = 8 << 20
_COLUMNS_HINT = (
    "an annotation or the method schema says what the columns are, and so does the option "
    "columns => {name: 'TYPE', ..}"
)


class Taken(NamedTuple):
    """Records that came next, and the table behind them; `ended` when there is nothing more."""

    records: list[Any]
    table: pa.Table | None
    ended: bool


class Reading:
    """The rows of one file, or of a part of it; `place` is for people.

    `function` is the reader's name, `call` calls it: the file is open while this lasts.
    """

    def __init__(self, function: str, place: str, call: Callable[[], Any]) -> None:
        self.function = function
        self.place = place
        self._printer = Printer(f"{function}, {place}")
        self.given = 0
        """Rows that the reader has given."""
        self._call = call
        self._items: Iterator[Any] | None = None

    def take(self, most: int) -> Taken:
        """The next records, `most` at most, or fewer and a table. Raises `UdfError`."""
        records: list[Any] = []
        with self.guarded():
            if self._items is None:
                self._items = self._begun()
            for item in self._items:
                table = None if type(item) is dict else frames.table_of(item)
                if table is not None:
                    return Taken(records, table, False)
                records.append(item)
                self.given += 1
                if len(records) >= most:
                    return Taken(records, None, False)
        return Taken(records, None, True)

    def batches(
        self, names: Sequence[str], kinds: Sequence[Kind], known: frozenset[str]
    ) -> Iterator[list[pa.Array]]:
        """The rows as columns of these names; rows may have others that are `known`, no more.

        Without names they are only counted, whatever they are.
        """
        room, ended = _FIRST_ROWS, False
        while not ended:
            records, table, ended = self.take(room)
            if ended:
                self._printer.flush_rest()
            if not names:
                self.given += 0 if table is None else table.num_rows
                yield []
            elif records:
                convert = partial(records_to_arrow, records, names, kinds, known)
                columns = self._fitted(convert, len(records), records)
                yield columns
                room = _next_room(columns, len(records))
            if table is not None and names:
                yield from self._of_table(table, names, kinds, known)

    def _begun(self) -> Iterator[Any]:
        found = self._call()
        if found is None:
            return iter(())
        if frames.table_of(found) is not None:
            return iter((found,))
        items = iterator_of(found)
        if items is None:
            message = f"gave {show(found)}, where a reader gives rows"
            raise self._error("R711", f"on {self.place}", message, "yield dicts, or tables")
        return items

    def _of_table(
        self, table: pa.Table, names: Sequence[str], kinds: Sequence[Kind], known: frozenset[str]
    ) -> Iterator[list[pa.Array]]:
        extra = [n for n in table.column_names if n not in known and n not in names]
        if extra:
            message = f"gave the column {show(extra[0])}, which is not among its columns"
            raise self._error("R711", self._after(), message, _COLUMNS_HINT)
        wanted = table.select([n for n in table.column_names if n in names])
        for start in range(0, table.num_rows, _MOST_ROWS):
            # Without a column that is wanted a table of Arrow would have no rows either.
            rows = min(_MOST_ROWS, table.num_rows - start)
            piece = wanted.slice(start, rows) if wanted.num_columns else None
            self.given += rows
            yield self._fitted(partial(_table_columns, piece, rows, names, kinds), rows)

    def _fitted(
        self, convert: Callable[[], list[pa.Array]], rows: int, records: Sequence[Any] | None = None
    ) -> list[pa.Array]:
        try:
            return convert()
        except Misfit as misfit:
            message = f"gave {show(misfit.value)}, which does not fit: {misfit.why}"
            if records is not None and records[misfit.row] is None:
                message = "gave None, where a reader gives rows"
            place = f"on row {self.given - rows + misfit.row + 1} of {self.place}"
            raise self._error("R711", place, message, _COLUMNS_HINT) from None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Makes `UdfError`s of the exceptions of the user's code inside."""
        try:
            with self._printer:
                yield
        except (KeyboardInterrupt, GeneratorExit, ZqlError):
            raise
        except BaseException as error:  # noqa: BLE001 - user code
            self._printer.flush_rest()
            message = f"raised {traces.told(error)}"
            raise self._error("R710", self._after(), message, None, traces.frames(error)) from None

    def _after(self) -> str:
        rows = f"after {self.given:,} row{'s' if self.given != 1 else ''}"
        return f"on {self.place}, {rows}," if self.given else f"on {self.place}"

    def _error(
        self, code: str, where: str, message: str, hint: str | None, notes: tuple[str, ...] = ()
    ) -> UdfError:
        return UdfError(f"{self.function} {where} {message}", code=code, hint=hint, notes=notes)


def _table_columns(
    piece: pa.Table | None, rows: int, names: Sequence[str], kinds: Sequence[Kind]
) -> list[pa.Array]:
    if piece is not None:
        return frames.table_columns(piece, names, kinds)
    return records_to_arrow([{}] * rows, names, kinds)


def _next_room(columns: Sequence[pa.Array], rows: int) -> int:
    """How many records the next batch may have, by how big those of this one were."""
    each: int = max(1, sum(column.nbytes for column in columns) // rows)
    return max(1, min(_MOST_ROWS, 4 * rows, _BATCH_BYTES // each))
