"""Lets DuckDB open files that are elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zql.execution.engine import Engine
from zql.storage import remote


def add_filesystems(
    engine: Engine, paths: Iterable[str], storage_options: Mapping[str, Any]
) -> None:
    """Registers the file systems of the remote ones among paths; the others cost nothing."""
    protocols = {name: path for path in paths if (name := remote.protocol(path))}
    for path in protocols.values():
        engine.add_filesystem(remote.thread_safe(remote.filesystem(path, storage_options)))
