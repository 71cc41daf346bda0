"""Rows of files that cannot be read and that ON ERROR passes over: counted, limited, kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from zql.errors import InternalError
from zql.execution.engine import Engine, EngineError
from zql.execution.kept import KeptFile, KeptWriter
from zql.execution.rejects import Rejected, check_percent, check_rows
from zql.execution.remote_files import add_filesystems
from zql.execution.settings import Settings
from zql.expr.functions import ErrorPolicy
from zql.logical.plan import Scan
from zql.storage import registry
from zql.storage.files import shown
from zql.storage.format import BadRow, SkippingFormat

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1024
"""Rows of a batch that are written together."""


def look_for_rejects(
    scan: Scan, policy: ErrorPolicy, engine: Engine, settings: Settings, folder: str
) -> Rejected:
    """Goes through all files of a scan; the rows themselves are kept in a folder when INTO asks.

    Raises `UdfError` when there are more than the policy allows, and what the reader raises.
    """
    format_ = registry.by_name(scan.format)
    if not hasattr(format_, "bad_rows"):
        raise InternalError(f"{scan.format} cannot pass over rows")
    options = dict(scan.options)
    add_filesystems(engine, [f.path for f in scan.files], settings.storage_options.reveal())
    rows = reached = 0
    first = ""
    writer = _Writer(policy, folder)
    try:
        for found in cast(SkippingFormat, format_).bad_rows(scan.files, options, engine):
            if not isinstance(found, BadRow):
                reached += found
                continue
            rows += 1
            first = first or f"{shown(found.path)}, line {found.line}: {found.error}"
            check_rows(policy, rows, first, ())
            writer.add(found)
    except EngineError as error:
        explained = format_.explain_failure(scan.files, options, error.message)
        if explained is None:
            raise
        raise explained from None
    done = Rejected(policy.number, rows, reached, first, (), writer.close())
    check_percent(policy, [done])
    return done


class _Writer:
    """Writes the rows as the policy's columns, if it keeps them."""

    def __init__(self, policy: ErrorPolicy, folder: str) -> None:
        self._policy = policy
        self._path = os.path.join(folder, f"rejects-{policy.number}-{os.urandom(6).hex()}.arrow")
        self._waiting: list[BadRow] = []
        self._writer: KeptWriter | None = None

    def add(self, row: BadRow) -> None:
        if self._policy.facts:
            self._waiting.append(row)
            if len(self._waiting) >= _AT_ONCE:
                self._write()

    def close(self) -> KeptFile | None:
        if self._waiting:
            self._write()
        return None if self._writer is None else self._writer.close()

    def _write(self) -> None:
        batch = _batch(self._policy, self._waiting)
        self._waiting = []
        if self._writer is None:
            self._writer = KeptWriter(self._path, batch.schema)
        self._writer.write(batch)


def _batch(policy: ErrorPolicy, rows: Sequence[BadRow]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [
        pa.array([row.text for row in rows], pa.string()),
        pa.array([row.error for row in rows], pa.string()),
        pa.array([policy.operator] * len(rows), pa.string()),
        pa.array([shown(row.path) for row in rows], pa.string()),
        pa.array([row.line for row in rows], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, [column.name for column in policy.facts])
