"""A small SqlEngine for the storage tests."""

from __future__ import annotations

from typing import Any

import pytest


class DuckEngine:
    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(
            config={"threads": 2, "autoinstall_known_extensions": "false"}
        )
        self.connection.execute("SET autoload_known_extensions = false")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.statements: list[str] = []

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        return self.connection.execute(sql).fetchall()


@pytest.fixture(scope="session")
def engine() -> DuckEngine:
    return DuckEngine()
