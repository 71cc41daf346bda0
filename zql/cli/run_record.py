"""The object of `--json`: what each statement did, and the sums of it all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zql.display.errors import as_record, flat
from zql.display.preview import COUNTED_ROWS
from zql.errors import ZqlError

if TYPE_CHECKING:
    from zql.session import StatementResult


class RunRecord:
    """Collects results; small enough to be kept, for of rows it takes only the first."""

    def __init__(self) -> None:
        self._statements: list[dict[str, Any]] = []
        self._totals: dict[str, Any] = {"outputs": [], "counters": {}, "warnings": []}
        self._elapsed = 0.0

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
            run = result.result.to_dict()
            record |= run
            self._totals["outputs"] += run.get("outputs", [])
            self._totals["warnings"] += run.get("warnings", [])
            self._totals["counters"] = _sum(self._totals["counters"], run.get("counters", {}))
            self._elapsed += result.result.elapsed
        self._statements.append(record)

    def finished(self) -> dict[str, Any]:
        """The object of a run that came to its end."""
        return {
            "ok": True,
            **self._totals,
            "elapsed": self._elapsed,
            "statements": self._statements,
        }

    def failed(self, error: ZqlError) -> dict[str, Any]:
        """The object of a run that failed: what was done until then, and why it ended."""
        return {
            **self.finished(),
            "ok": False,
            "errors": [as_record(one) for one in flat(error)],
        }


def _sum(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(left)
    for name, value in right.items():
        before = out.get(name)
        if isinstance(value, Mapping):
            out[name] = _sum(before if isinstance(before, Mapping) else {}, value)
        elif isinstance(value, (int, float)) and isinstance(before, (int, float)):
            out[name] = before + value
        else:
            out[name] = value
    return out
