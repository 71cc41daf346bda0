"""Tables of a session: rows that a statement computed, kept in files until the session ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zql.execution.engine import make_folder, remove_folder, removed_with
from zql.execution.kept import KeptFile
from zql.execution.settings import Settings
from zql.expr.expression import Column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The files of a table in its rows' order; `columns` are theirs, `names` those of users."""

    files: tuple[KeptFile, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files)

    def data(self) -> pa.Table | None:
        """All rows, memory-mapped, under the columns' names in the files; None without rows."""
        from zql.execution import kept

        return kept.table(self.files)

    def source(self, name: str) -> str:
        """The name in the files of the column that users call `name`."""
        return self.columns[self.names.index(name)].name


class StoredTables:
    """The tables of one session by name."""

    def __init__(self) -> None:
        self.tables: dict[str, StoredTable] = {}
        self._folder: str | None = None
        self._remove_folder: Callable[[], object]
        self._count = 0

    def folder(self, settings: Settings) -> str:
        """An empty folder for the files of a new table."""
        if self._folder is None:
            self._folder = make_folder(settings.temp_root())
            self._remove_folder = removed_with(self, self._folder)
        self._count += 1
        path = os.path.join(self._folder, str(self._count))
        os.mkdir(path, 0o700)
        return path

    def put(
        self, name: str, files: Sequence[KeptFile], columns: Sequence[Column], names: Sequence[str]
    ) -> None:
        """Takes in a finished table; the files of the one it replaces go."""
        before = self.tables.get(name)
        self.tables[name] = StoredTable(tuple(files), tuple(columns), tuple(names))
        if before is not None and before.files:
            # Rows that someone still reads stay mapped.
            remove_folder(os.path.dirname(before.files[0].path))

    def close(self) -> None:
        """Removes all tables."""
        self.tables.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            self._remove_folder()
