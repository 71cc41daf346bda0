"""What outputs depend on, as one text: the plan, the functions' sources, the inputs' versions."""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields, is_dataclass
from typing import Any

from zql.execution.own_formats import format_of
from zql.expr.functions import PythonFunction
from zql.logical.plan import DuckdbQuery, Scan
from zql.physical.plan import WriteFiles
from zql.tree import Node


def fingerprint(plan: Node, version: str) -> str:
    """A hash that is equal for plans that write the same; `version` is DuckDB's.

    Places in the script do not count, and neither do names of folders of this run.
    """
    found = hashlib.sha256(version.encode())
    _add(plan, found)
    return found.hexdigest()[:32]


def _add(value: Any, found: Any) -> None:
    if isinstance(value, PythonFunction) and value.digest:
        # Where the source lies does not matter, and a pickle differs from process to process.
        made = (value.init, value.init_shared) if value.built else ()
        told = (value.batch_size, value.timeout, *made)
        value = (value.qualname, value.digest, value.returns, value.fields, value.volatile, told)
    if isinstance(value, WriteFiles):
        # The folder, and how to treat what is there already, are no part of what is written.
        name = value.uri.rpartition("/")[2]
        value = (name, value.format, value.names, value.options, value.own)
    if isinstance(value, DuckdbQuery):
        found.update(os.urandom(16))  # what it reads is known to DuckDB only: it is never the same
    if isinstance(value, Scan):
        value = (value.format, value.own, value.files, value.columns_read, _asked(value))
    if isinstance(value, tuple):
        found.update(b"(%d" % len(value))
        for item in value:
            _add(item, found)
    elif is_dataclass(value):
        found.update(type(value).__name__.encode())
        for field in fields(value):
            if field.compare:
                _add(getattr(value, field.name), found)
    else:
        found.update(f"{type(value).__name__}:{value!r};".encode())


def _asked(scan: Scan) -> tuple[tuple[str, object], ...]:
    """The reader's options that the script gave; others tell what earlier runs have learned."""
    known = set(format_of(scan.format, scan.own).read_options) - {"max_line_bytes"}
    return tuple((name, value) for name, value in scan.options if name in known)
