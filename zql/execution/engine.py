"""DuckDB. The only module that knows it.

An `Engine` is one connection; `cursor` gives another to the same database. An open stream keeps
its connection, so each stream runs on a cursor of its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, finalize

from zql.errors import Interrupted, RunError
from zql.execution.conversion_mode import ConversionMode
from zql.execution.offload import Helper
from zql.execution.settings import Settings
from zql.execution.temporary_folders import make_folder, remove_stale_folders, removed_with
from zql.expr.sql import quote_identifier, quote_literal
from zql.schema import DataType

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.expr.expression import Expr

T = TypeVar("T")

_SESSION = (
    # What a cursor does not take over from the connection that it was made from.
    "SET TimeZone = 'UTC'",
    "SET errors_as_json = true",
    "SET enable_progress_bar = false",
    # A table that is not there is none: no variable of this program stands in for it.
    "SET python_enable_replacements = false",
)


_JOIN_OPTIMIZERS = "join_order,build_side_probe_side"
"""What else decides which side of a join is held."""
READERS = {
    "jsonl": ("READ_JSON", "READ_JSON_OBJECTS"),
    "csv": ("READ_CSV",),
    "tsv": ("READ_CSV",),
}
"""How a profile calls those readers of formats that hand over every row."""


OUT_OF_MEMORY = "Out of Memory"
"""The kind of the error when what a statement holds is more than it may."""
MEMORY = frozenset({"R716", "R731"})
"""The codes of the errors of tasks that had too little memory."""


class EngineError(RunError):
    """DuckDB refused or failed; the parts are DuckDB's own.

    `kind` is the class of error (`Binder`, `Conversion`, `IO`), `subtype` a finer one
    (`COLUMN_NOT_FOUND`) or empty, `position` the offset in bytes in `sql`, the text that was run.
    `cause` is the expression there, once somebody has looked.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        subtype: str = "",
        position: int | None = None,
        candidates: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code="R730", hint=hint, candidates=candidates)
        self.kind = kind
        self.subtype = subtype
        self.position = position
        self.sql = ""
        self.cause: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Threads of a statement and bytes of all together, while somebody wants them."""

    threads: int | None
    memory: int | None


class Engine:
    """One DuckDB connection. Use one thread at a time; `interrupt` may come from any."""

    def __init__(
        self,
        settings: Settings,
        *,
        threads: int | None = None,
        memory: int | None = None,
        folder: str | None = None,
        offload: bool = True,
    ) -> None:
        """Connects on first use. `memory` is in bytes; DuckDB spills into `folder`.

        Without a folder one is made under the settings' `temp_dir`, and removed by `close`.
        Without `offload` statements run on the calling thread, even when that is the main one.
        """
        self._settings = settings
        self._threads = threads or settings.thread_count()
        self._memory = memory or settings.native_memory()
        self._folder = folder
        self._own_folder = folder is None
        self._remove_folder: Callable[[], object] = _nothing
        self._connection: Any = None
        self._root: Engine = self
        self._cursors: WeakSet[Engine] = WeakSet()
        self._helper = _helper_of(self, offload)
        self._types: dict[tuple[DataType, bool], pa.DataType] = {}
        self._sql = ""
        self._mode = ConversionMode()
        self._limits: list[Limits] = []
        self._as_written = 0
        self._in_force = Limits(self._threads, self._memory)
        self._limiting = threading.Lock()

    def cursor(self) -> Engine:
        """Another connection to the same database; registered objects are not shared."""
        other = Engine.__new__(Engine)
        other.__dict__.update(self.__dict__)
        other._helper = _helper_of(other, self._helper.active)  # noqa: SLF001 - of the same class
        other._own_folder = False  # noqa: SLF001
        other._connection = self._run(self._new_cursor)  # noqa: SLF001
        self._root._cursors.add(other)  # noqa: SLF001 - an interruption is theirs too
        return other

    def _new_cursor(self) -> Any:
        connection = self._connected().cursor()
        _set_up(connection)
        return connection

    def warm(self) -> None:
        """Begins to connect, which takes tens of ms that need not be waited for."""
        if self._connection is None:
            self._helper.begin(self._connected)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs one statement and gives all its rows. Raises `EngineError`, `Interrupted`."""
        self._sql = sql
        return self._run(lambda: self._connected().execute(sql).fetchall())

    def kinds(self, sql: str) -> list[tuple[str, frozenset[str]]]:
        """The statements of a text: the kind of each (`SELECT`, `COPY`), and its parameters.

        Raises `EngineError` for what is no SQL.
        """
        found = self._run(lambda: self._connected().extract_statements(sql))
        return [(s.type.name, frozenset(s.named_parameters)) for s in found]

    def describe(self, sql: str) -> list[tuple[str, DataType]]:
        """Names and types of a query's columns, without running it."""
        return self._run(lambda: _columns(self._connected(), sql))

    def batches(self, sql: str, batch_rows: int, *, lossless: bool = False) -> ArrowStream:
        """Runs a query; its rows as Arrow batches, made as they are asked for.

        `lossless` keeps types that Arrow lacks (HUGEINT, JSON, TIMETZ) as extension types, which
        only DuckDB understands, and BOOLEAN as bytes; it is for data that comes back here.
        """
        self._sql = sql
        reader = self._run(lambda: self._open(sql, batch_rows, lossless))
        return ArrowStream(self, reader)

    def open(self, sql: str) -> None:
        """Runs a query up to its first rows; `fetch` gives them."""
        self._sql = sql
        self._run(lambda: self._connected().execute(sql))

    def fetch(self, limit: int) -> list[tuple[Any, ...]]:
        """The next rows of the query that was opened, `limit` at most; none at the end."""
        return self._run(lambda: self._connected().fetchmany(limit))

    def abandon(self) -> None:
        """Gives up the rest of the query that was opened, if there is one."""
        if self._connection is not None:
            self._run(self._connection.abort)

    def register(self, name: str, data: object) -> None:
        """Makes an Arrow object (or a data frame) readable under a name, on this connection."""
        self._connected()
        _arrow_sources()
        self._run(lambda: self._connected().register(name, data))

    def unregister(self, name: str) -> None:
        """Forgets a registered object."""
        self._run(lambda: self._connected().unregister(name))

    def arrow_type(self, type: DataType, *, lossless: bool = False) -> pa.DataType:
        """The Arrow type in which DuckDB hands out a type."""
        key = (type, lossless)
        if key not in self._types:
            with self.cursor() as cursor:
                sql = f"SELECT CAST(NULL AS {type}) AS x LIMIT 0"
                with cursor.batches(sql, 1, lossless=lossless) as stream:
                    self._types[key] = stream.schema.field(0).type
        return self._types[key]

    def copy(self, sql: str, path: str, options: str) -> int:
        """Writes a query's rows into a local file with COPY; gives the number of rows."""
        clause = f" ({options})" if options else ""
        rows = self.rows(f"COPY (\n{sql}\n) TO {quote_literal(path)}{clause}")
        return int(rows[0][0])

    def functions(self) -> dict[str, tuple[frozenset[str], bool]]:
        """For each function its kinds (scalar, aggregate, window, table, macro, ...), volatile."""
        sql = (
            "SELECT function_name, list(DISTINCT function_type),"
            " bool_or(coalesce(stability = 'VOLATILE', false))"
            " FROM duckdb_functions() GROUP BY function_name"
        )
        return {
            name: (frozenset(kinds), bool(volatile)) for name, kinds, volatile in self.rows(sql)
        }

    @contextmanager
    def limited(self, threads: int | None = None, memory: int | None = None) -> Iterator[None]:
        """While it lasts, statements of this database have so many threads each, and all together
        so many bytes. From any thread; what was asked for last holds.
        """
        if threads is None and memory is None:
            yield
            return
        root, limits = self._root, Limits(threads, memory)
        root._limit(limits, add=True)  # noqa: SLF001 - of the same class
        try:
            yield
        finally:
            if root._connection is not None:  # noqa: SLF001
                root._limit(limits, add=False)  # noqa: SLF001

    @contextmanager
    def joins_as_written(self) -> Iterator[None]:
        """While it lasts, joins that are planned hold their right sides, in the order of the text.

        DuckDB has the setting for a database, not for a connection.
        """
        root = self._root
        with root._limiting:  # noqa: SLF001 - of the same class
            root._as_written += 1  # noqa: SLF001
            self._say(f"SET disabled_optimizers = '{_JOIN_OPTIMIZERS}'")
        try:
            yield
        finally:
            with root._limiting:  # noqa: SLF001
                root._as_written -= 1  # noqa: SLF001
                if not root._as_written and root._connection is not None:  # noqa: SLF001
                    self._say("RESET disabled_optimizers")

    def _limit(self, limits: Limits, *, add: bool) -> None:
        with self._limiting:
            if add:
                self._limits.append(limits)
            else:
                at = next(i for i, each in enumerate(self._limits) if each is limits)
                del self._limits[at]
            threads = [limits.threads for limits in self._limits if limits.threads is not None]
            memory = [limits.memory for limits in self._limits if limits.memory is not None]
            self._set_limits((threads or [self._threads])[-1], (memory or [self._memory])[-1])

    def _set_limits(self, threads: int, memory: int) -> None:
        """Says what is new: with other threads DuckDB ends and begins some, which takes ms."""
        before, self._in_force = self._in_force, Limits(threads, memory)
        if before == self._in_force:
            return
        if threads != before.threads:
            self._say(f"SET threads = {threads}")
        if memory != before.memory:
            try:
                self._say(f"SET memory_limit = '{memory}B'")
            except EngineError:  # more is held at the moment, by who cannot let it go
                self._in_force = Limits(threads, before.memory)

    def _say(self, sql: str) -> None:
        """One short statement beside what this connection does."""

        def say() -> None:
            with self._connected().cursor() as cursor:
                cursor.execute(sql).fetchall()

        self._run(say)

    def profile(self) -> None:
        """Counts what statements of this connection do from now on; see `profiled`."""
        self.rows("SET enable_profiling = 'no_output'")

    def profiled(self) -> dict[str, Any]:
        """What was counted while the last statement ran, as DuckDB tells it."""
        import json

        found = json.loads(self._connected().get_profiling_information("json"))
        return found if isinstance(found, dict) else {}

    def version(self) -> str:
        """DuckDB's version, as `2.0.1`."""
        return str(_library().__version__)

    def add_filesystem(self, filesystem: object) -> None:
        """Lets DuckDB read the protocols of an fsspec file system; it must be thread-safe."""
        connection = self._connected()
        protocols = getattr(filesystem, "protocol", ())
        names = (protocols,) if isinstance(protocols, str) else tuple(protocols)
        if not any(connection.filesystem_is_registered(name) for name in names):
            connection.register_filesystem(filesystem)

    def interrupt(self) -> None:
        """Stops what runs on this connection, and on its cursors; from any thread."""
        cursors = list(self._cursors) if self._root is self else []
        for engine in (self, *cursors):
            connection = engine._connection  # noqa: SLF001 - of the same class
            if connection is not None:
                connection.interrupt()

    def close(self) -> None:
        """Closes the connection and removes the spill folder if this engine made it."""
        # First: a connection that was begun and that nobody waited for is there afterwards.
        self._helper.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._own_folder and self._folder is not None:
            self._remove_folder()
            self._folder = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Any:
        if self._folder is None:
            self._folder = make_folder(self._settings.temp_root())
            self._remove_folder = removed_with(self, self._folder)
            remove_stale_folders(self._settings.temp_root())
        config = {
            "threads": str(self._threads),
            "memory_limit": f"{self._memory}B",
            "temp_directory": self._folder,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_unsigned_extensions": "false",
            "preserve_insertion_order": "true",
        }
        connection = _library().connect(":memory:", config=config)
        _set_up(connection)
        return connection

    def _open(self, sql: str, batch_rows: int, lossless: bool) -> Any:
        connection = self._connected()
        word = "true" if lossless else "false"

        def change() -> None:
            connection.execute(f"SET arrow_lossless_conversion = {word}").fetchall()

        # The setting is the database's, and is read when a statement has its first rows.
        with self._root._mode.held(lossless, change):  # noqa: SLF001 - of the same class
            return _reader(connection, sql, batch_rows)

    def _run(self, function: Callable[[], T]) -> T:
        try:
            return self._helper.call(function, self.interrupt)
        except KeyboardInterrupt:
            raise Interrupted("interrupted", code="R799") from None
        except _library().Error as error:
            translated = _translate(error)
            if isinstance(translated, EngineError):
                translated.sql = self._sql
            raise translated from None
        except RuntimeError as error:
            if "interrupted" in str(error).lower():
                raise Interrupted("interrupted", code="R799") from None
            raise


class ArrowStream:
    """The rows of a running query. Keeps its engine's connection until it is read out or closed."""

    def __init__(self, engine: Engine, reader: Any) -> None:
        self._engine = engine
        self._reader = reader
        self.schema: pa.Schema = reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._engine._run(self._next)) is not None:  # noqa: SLF001 - its own part
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        if self._reader is None:
            return None
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            self.close()
            return None
        except OSError as error:  # Arrow wraps what DuckDB says while rows are made
            raise _library().Error(str(error)) from None

    def close(self) -> None:
        """Ends the query; twice does no harm."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def __enter__(self) -> ArrowStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _helper_of(engine: Engine, active: bool) -> Helper:
    """A helper whose thread ends with the engine, if nobody has ended it before."""
    helper = Helper(active)
    finalize(engine, helper.close).atexit = False
    return helper


def _nothing() -> None:
    """There is nothing to remove."""


def _library() -> ModuleType:
    """DuckDB's native module: the package around it takes longer to import than to query."""
    global _LIBRARY  # noqa: PLW0603 - an import, done once
    if _LIBRARY is None:
        try:
            import _duckdb

            _duckdb.DuckDBPyConnection._submit  # noqa: B018, SLF001 - is it there?
            _LIBRARY = _duckdb
        except (ImportError, AttributeError):
            import duckdb

            _LIBRARY = duckdb
    return _LIBRARY


_LIBRARY: ModuleType | None = None


def _arrow_sources() -> None:
    """Sets up the scanning of Python objects, which the package does and not its native part."""
    import duckdb  # noqa: F401


def _set_up(connection: Any) -> None:
    for statement in _SESSION:
        connection.execute(statement).fetchall()


def _columns(connection: Any, sql: str) -> list[tuple[str, DataType]]:
    bind: Callable[..., Any] | None = getattr(connection, "_bind", None)
    if bind is not None:
        # Binding alone takes half of the time of DESCRIBE, which says the same.
        with suppress(_library().Error):
            names, types = bind(sql)[:2]
            return [(name, str(type_)) for name, type_ in zip(names, types, strict=True)]
    # It also says, in full, why not.
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {sql}").fetchall()]


def _reader(connection: Any, sql: str, batch_rows: int) -> Any:
    submit: Callable[..., Any] | None = getattr(connection, "_submit", None)
    if submit is not None:
        return submit(sql, None, "stream", batch_rows).arrow_reader()
    return connection.sql(sql).to_arrow_reader(batch_rows)


def _translate(error: Exception) -> RunError:
    """DuckDB's exception as ours: its JSON taken apart, an interruption told from a failure."""
    text = str(error)
    if type(error).__name__ == "InterruptException" or "INTERRUPT Error" in text:
        return Interrupted("interrupted", code="R799")
    facts = _facts(text)
    kind = str(facts.get("exception_type") or text.partition(" Error:")[0])
    position = facts.get("position")
    candidates: Sequence[str] = [c for c in str(facts.get("candidates", "")).split(",") if c]
    message = _ADVICE.sub("", str(facts.get("exception_message", text))).rstrip()
    return EngineError(
        message,
        kind=kind,
        subtype=str(facts.get("error_subtype", "")),
        position=int(position) if position is not None else None,
        candidates=tuple(candidates),
        hint=_MEMORY_HINT if kind == OUT_OF_MEMORY else _ROOM_HINT if _SPILL in message else None,
    )


_ROOM_HINT = "set temp_dir to a folder with more room (--temp-dir, SET temp_dir)"
_SPILL = "duckdb_temp_"
"""In the names of files into which DuckDB spills."""
_ADVICE = re.compile(r"\s*(?:,? or |Use )\"?SET \w+ ?=.*", re.DOTALL)
"""DuckDB's advice to change its settings, which cannot be followed here."""
_MEMORY_HINT = "raise the memory budget (--memory, SET memory), or work on fewer rows at once"


def _facts(text: str) -> dict[str, Any]:
    import json

    start = text.find("{")
    if start < 0:
        return {}
    try:
        facts, _ = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) and "exception_message" in facts else {}


def identifier_list(names: Sequence[str]) -> str:
    """Names as quoted identifiers with commas between."""
    return ", ".join(quote_identifier(name) for name in names)
