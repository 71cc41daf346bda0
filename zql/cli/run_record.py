"""The object of `--json`: what each statement did, and the sums of it all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zql.display.errors import as_record, flat
from zql.display.preview import COUNTED_ROWS
from zql.errors import ZqlError
from zql.execution.report import RunReport, merged

if TYPE_CHECKING:
    from zql.session import StatementResult


class RunRecord:
    """Collects results; small enough to be kept, for of rows it takes only the first."""

    def __init__(self) -> None:
        self._statements: list[dict[str, Any]] = []
        self._reports: list[RunReport] = []

    def add(self, result: StatementResult, max_rows: int | None) -> None:
        """Notes one result; its rows are read as far as `max_rows` says."""
        record: dict[str, Any] = {"statement": result.statement, "kind": result.kind}
        if result.text:
            record["text"] = result.text
        if result.rows is not None:
            with result.rows as rows:
                limit = COUNTED_ROWS if max_rows is None else max_rows
                found = rows.json_rows(limit + 1)
                columns = zip(rows.names, rows.types, strict=True)
                record["columns"] = [{"name": name, "type": kind} for name, kind in columns]
                record["rows"] = [json.loads(row) for row in found[:limit]]
                record["truncated"] = len(found) > limit
        if result.result is not None:
            record |= result.result.to_dict()
            self._reports.append(result.result)
        self._statements.append(record)

    def finished(self) -> dict[str, Any]:
        """The object of a run that came to its end."""
        return {"ok": True, **merged(self._reports).to_dict(), "statements": self._statements}

    def failed(self, error: ZqlError) -> dict[str, Any]:
        """The object of a run that failed: what was done until then, and why it ended."""
        return {
            **self.finished(),
            "ok": False,
            "errors": [as_record(one) for one in flat(error)],
        }
