"""One file written by a format of the user's own: a single call that takes all the rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zql.errors import ZqlError
from zql.execution import frames, kinds, traces
from zql.execution.arguments import to_python
from zql.execution.binding import CallError
from zql.execution.misfit import Misfit
from zql.execution.printed import aside
from zql.execution.user_method import UserMethod
from zql.storage import compression as packing
from zql.storage import opening
from zql.storage.format import WriteColumn

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 1 << 20


class UserWriter:
    """See `RowWriter`. What the user's code raises is a `CallError`."""

    def __init__(
        self,
        name: str,
        method: UserMethod,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        packed: tuple[packing.Compression, int | None],
    ) -> None:
        """`name` is the function's for people, `schema` that of the batches that will come."""
        import pyarrow as pa

        self.rows = 0
        self._name = name
        self._method = method
        self._path = path
        self._kinds = [kinds.parse(c.type) for c in columns]
        self._names = [c.name for c in columns]
        self._schema = pa.schema(
            [pa.field(n, f.type) for n, f in zip(self._names, schema, strict=True)]
        )
        self._options = dict(options)
        self._packed, self._level = packed
        self._failure: BaseException | None = None

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """See `RowWriter`."""
        form = self._method.form(self._method.first)
        given = self._given(iter(batches), form)
        if "schema" in self._method.own:
            self._options["schema"] = self._schema
        try:
            with aside(self._name):
                self._called(given)
        except (KeyboardInterrupt, GeneratorExit, ZqlError, CallError):
            raise
        except BaseException as error:
            if error is self._failure:
                raise
            notes = traces.frames(error)
            raise self._error("R710", f"raised {traces.told(error)}", notes=notes) from None
        if self._failure is not None:
            raise self._failure
        rows = self.rows
        if next(given, None) is not None:
            self.rows = rows
            message = "returned before it had taken all rows"
            raise self._error("R711", message, hint="take each of the rows that it is given")
        self._finish()

    def _called(self, given: Iterator[Any]) -> None:
        if not self._method.stream:
            self._method.call(given, self._path, **self._options)
            return
        with opening.as_target(self._path, self._packed, self._level) as file:
            self._method.call(given, file, **self._options)

    def _given(self, batches: Iterator[pa.RecordBatch], form: str) -> Iterator[Any]:
        """The rows as the function takes them; what fails before it is told from its own errors."""
        import pyarrow as pa

        try:
            for batch in batches:
                # Counted before they are handed over: whoever takes one has it.
                if form:
                    self.rows += batch.num_rows
                    named = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
                    yield frames.handed(named, form)
                    continue
                columns = [
                    to_python(column, kind)
                    for column, kind in zip(batch.columns, self._kinds, strict=True)
                ]
                for row in zip(*columns, strict=True):
                    self.rows += 1
                    yield dict(zip(self._names, row, strict=True))
        except Misfit as misfit:
            message = f"cannot be handed {misfit.value}: {misfit.why}"
            self._failure = self._error("R712", message, hint="CAST the column to VARCHAR")
            raise self._failure from None
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failure = error
            raise

    def _finish(self) -> None:
        """The file packed, if the function has not done it, and synced to disk."""
        if not os.path.isfile(self._path):
            message = "wrote no file"
            raise self._error("R711", message, hint="the second argument is the path to write to")
        if not self._method.stream and self._packed is not packing.NONE:
            self._pack()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _pack(self) -> None:
        import shutil

        plain = f"{self._path}.plain"
        os.replace(self._path, plain)
        try:
            with (
                open(plain, "rb") as source,
                opening.as_target(self._path, self._packed, self._level) as target,
            ):
                shutil.copyfileobj(source, target, _CHUNK)
        finally:
            os.unlink(plain)

    def _error(
        self, code: str, message: str, *, hint: str | None = None, notes: tuple[str, ...] = ()
    ) -> CallError:
        return CallError(code, self._name, self.rows, message, hint=hint, notes=notes)
