"""Tables handed in with a query: kept as long as somebody may read them, and no longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary


class HandedTables:
    """The Arrow tables of a session's queries by key.

    A name may mean another table in the next query, while one from before still waits to be run:
    so each table has a key of its own, and whoever may still read it holds it.
    """

    def __init__(self) -> None:
        self.tables: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def key(self, name: str, table: Any, taken: Mapping[str, object]) -> str:
        """The key of a table that is called `name`; the same table keeps the one it has."""
        number, key = 1, name
        while key in taken or self.tables.get(key, table) is not table:
            number += 1
            key = f"{name} {number}"
        self.tables[key] = table
        return key
