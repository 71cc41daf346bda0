"""ZQL: a declarative, SQL-like dataflow language over files, DuckDB and Python functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zql.version import VERSION

if TYPE_CHECKING:
    from zql.execution.report import RunReport
    from zql.queries import Query, Result
    from zql.resources import Resources
    from zql.session import Session

__version__ = VERSION

__all__ = [
    "BindError",
    "Context",
    "ErrorList",
    "Interrupted",
    "ParameterError",
    "ParseError",
    "Query",
    "Resources",
    "Result",
    "RunError",
    "RunReport",
    "Session",
    "Shard",
    "StorageError",
    "UdfError",
    "UsageError",
    "ZqlError",
    "default_session",
    "format",
    "format_script",
    "query",
    "run",
    "udf",
]

_HOMES = {
    "Context": "zql.execution.context",
    "Query": "zql.queries",
    "Resources": "zql.resources",
    "Result": "zql.queries",
    "RunReport": "zql.execution.report",
    "Session": "zql.session",
    "Shard": "zql.execution.shard",
    "default_session": "zql.session",
    "format": "zql.execution.format_decorator",
    "udf": "zql.execution.decorator",
}


def query(
    text: str,
    params: Mapping[str, Any] | None = None,
    *,
    tables: Mapping[str, object] | None = None,
    scan_locals: bool = True,
    session: Session | None = None,
) -> Query:
    """A query, bound now and run when its rows are asked for; see `Session.query`."""
    from zql.session import default_session

    owner = session or default_session()
    return owner.query(text, params, tables=tables, scan_locals=scan_locals, _depth=2)


def run(
    script_or_path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    *,
    tables: Mapping[str, object] | None = None,
    session: Session | None = None,
    stage_resources: Mapping[int, Resources] | None = None,
    **settings: Any,
) -> RunReport:
    """Runs a script, WRITEs included; see `Session.run`.

    Without a session one is made with `settings` (`workers=`, `memory_limit=`, ...) and closed.
    """
    if session is not None:
        return session.run(script_or_path, params, tables=tables, stage_resources=stage_resources)
    from zql.session import Session

    with Session(**settings) as own:
        return own.run(script_or_path, params, tables=tables, stage_resources=stage_resources)


def format_script(text: str) -> str:
    """A script in the one style of `zql fmt`: the same meaning, the same comments.

    Raises ParseError, or ErrorList when several statements are wrong.
    """
    from zql.source import Source
    from zql.syntax import formatter

    return formatter.format_script(Source("<script>", text))


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used: `import zql` stays cheap."""
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None and name in __all__:
        home = "zql.errors"
    if home is None:
        raise AttributeError(f"module 'zql' has no attribute {name!r}")
    return getattr(import_module(home), name)
