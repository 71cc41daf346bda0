"""Tables of a session: rows that a statement computed, kept in files until the session ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import finalize

from zql.execution.kept import KeptFile
from zql.execution.temporary_folders import remove_folder
from zql.expr.expression import Column
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.work import Work


@node
class StoredTable:
    """The files of a table in its rows' order; `columns` are theirs, `names` those of users.

    `key` stands for its rows: a table with the same one has the same.
    """

    files: tuple[KeptFile, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    key: str

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files)

    @property
    def nbytes(self) -> int:
        """The bytes of its rows, by the name that Arrow has for it."""
        return sum(file.bytes for file in self.files)

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
        self._works: list[Work] = []
        # Nobody may close it: then it is done when it goes, or the process.
        finalize(self, _end, self._works, unfinished=False)

    def put(self, name: str, table: StoredTable) -> None:
        """Takes in a finished table; the files of the one it replaces go."""
        before = self.tables.get(name)
        self.tables[name] = table
        if before is not None and before.files:
            # Rows that someone still reads stay mapped.
            remove_folder(os.path.dirname(before.files[0].path))

    def take(self, work: Work) -> None:
        """Takes over the work of a run that made tables: their files are in it."""
        self._works.append(work)

    def close(self, *, unfinished: bool = False) -> None:
        """Removes all tables; those of an `unfinished` script that may be resumed stay for that."""
        self.tables.clear()
        _end(self._works, unfinished=unfinished)


def _end(works: list[Work], *, unfinished: bool) -> None:
    while works:
        work = works.pop()
        work.published = not unfinished
        work.close()
