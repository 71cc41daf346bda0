"""What outputs depend on, as one text: the plan, the functions' sources, the inputs' versions."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from zql.execution.own_formats import format_of
from zql.expr.functions import PythonFunction
from zql.logical.plan import DuckdbQuery, MemoryScan, Scan, StageResult
from zql.physical.plan import Spread, WriteFiles
from zql.schema import InputFile
from zql.storage.remote import protocol
from zql.tree import Node, walk
from zql.version import VERSION

_DIGITS = 32


def versions(engine: str) -> tuple[str, ...]:
    """What every result depends on: the versions of ZQL, of Python, and DuckDB's (`engine`)."""
    return (VERSION, platform.python_version(), engine)


def fingerprint(plan: Node, version: str) -> str:
    """A hash that is equal for plans that write the same; `version` is DuckDB's.

    Places in the script do not count, and neither do names of folders of this run.
    """
    return Fingerprint().of(versions(version), plan)


def made_of(plan: Node, version: str) -> dict[str, Any]:
    """What outputs of a plan depend on: `plan` stands for all of it, the rest is for people."""
    nodes = list(walk(plan))
    files = dict.fromkeys(file for node in nodes if isinstance(node, Scan) for file in node.files)
    functions = {n.name: n.digest for n in nodes if isinstance(n, PythonFunction)}
    zql, python, engine = versions(version)
    return {
        "plan": fingerprint(plan, version),
        "functions": functions,
        "inputs": {
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "versions": Fingerprint().of(*files),
        },
        "versions": {"zql": zql, "python": python, "duckdb": engine},
    }


class Fingerprint:
    """Hashes of values of plans.

    Of a result that a stage has left only what `results` say of it counts, by the stage's number,
    of a table of the session what `memory` says, by its key; of the scan that is `cut` into tasks,
    not which files there are.
    """

    def __init__(
        self,
        results: Mapping[int, str] | None = None,
        cut: Scan | None = None,
        memory: Mapping[str, str] | None = None,
    ) -> None:
        self._results = results
        self._cut = cut
        self._memory = memory or {}

    def of(self, *values: Any) -> str:
        """One hash of several values."""
        found = hashlib.sha256()
        for value in values:
            self._add(value, found)
        return found.hexdigest()[:_DIGITS]

    def _add(self, value: Any, found: Any) -> None:
        value = self._told(value)
        if isinstance(value, DuckdbQuery):
            found.update(os.urandom(16))  # what it reads is known to DuckDB only: never the same
        if isinstance(value, tuple):
            found.update(b"(%d" % len(value))
            for item in value:
                self._add(item, found)
        elif is_dataclass(value):
            found.update(type(value).__name__.encode())
            for field in fields(value):
                if field.compare:
                    self._add(getattr(value, field.name), found)
        else:
            found.update(f"{type(value).__name__}:{value!r};".encode())

    def _told(self, value: Any) -> Any:
        """What counts of a value."""
        if isinstance(value, PythonFunction) and value.digest:
            # Where the source lies does not matter, and a pickle differs in each process.
            made = (value.init, value.init_shared) if value.built else ()
            told = (value.batch_size, value.timeout, *made)
            named = (value.qualname, value.digest, value.returns, value.fields, value.volatile)
            return (*named, told)
        if isinstance(value, WriteFiles):
            # The folder, and how to treat what is there already, are no part of what is written.
            name = value.uri.rpartition("/")[2]
            return (name, value.format, value.names, value.options, value.own)
        if isinstance(value, Spread):
            return (value.ticket, value.place, value.keys, value.hash)  # parts change no row
        if isinstance(value, Scan):
            files = () if value is self._cut else value.files
            asked = (value.columns_read, _asked(value), value.on_error)
            return (value.format, value.own, files, *asked)
        if isinstance(value, InputFile):
            return (absolute(value.path), value.size, value.version)
        if isinstance(value, MemoryScan) and value.key in self._memory:
            return (self._memory[value.key], value.columns, value.sources)
        if isinstance(value, StageResult) and self._results is not None:
            return (self._results[value.stage], value.columns)
        return value


def absolute(path: str) -> str:
    """A path that means the same in any folder."""
    return path if protocol(path) else os.path.abspath(path)


def _asked(scan: Scan) -> tuple[tuple[str, object], ...]:
    """The reader's options that the script gave; others tell what earlier runs have learned."""
    known = set(format_of(scan.format, scan.own).read_options) - {"max_line_bytes"}
    return tuple((name, value) for name, value in scan.options if name in known)
