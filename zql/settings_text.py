"""Settings as users write them: names, and values such as `4GB`."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

from zql.errors import UsageError

SETTINGS = {
    "workers": "workers",
    "threads": "threads",
    "memory": "memory",
    "split_size": "split_size",
    "file_size": "file_size",
    "partitions": "partitions",
    "temp_dir": "temp_dir",
    "batch_rows": "batch_rows",
    "retries": "tries",
    "task_timeout": "task_timeout",
    "resume": "resume",
    "cache": "cache",
    "cache_size": "cache_size",
    "max_partitions": "max_partitions",
}
"""The setting's name in SET and on the command line, and its field in `Settings`."""

MEANINGS = {
    "cache": "the folder in which results of stages stay between runs; none when empty",
    "cache_size": "bytes that results in the cache may have; 'none' for any",
    "batch_rows": "rows that a Python function is handed at a time",
    "disabled_rules": "rules of the optimizer that are switched off",
    "file_size": "bytes that an output file has at least, where neighbours can be put together",
    "max_partitions": "folders that partition_by of WRITE may make",
    "memory": "bytes for all processes of a run together",
    "optimizer": "false switches off every rule",
    "partitions": "parts in which rows are shuffled, or grouped where that needs much memory",
    "resume": "true goes on from what runs before have finished",
    "retries": "how often a task is started whose worker dies",
    "split_size": "bytes of input for one task",
    "task_timeout": "the time that a task may take, '10m', before its worker is ended",
    "temp_dir": "the folder for what a run keeps on disk",
    "threads": "threads of DuckDB in this process",
    "workers": "processes that run Python functions",
}
"""What `SHOW SETTINGS` says of each setting that SET takes."""

AUTO = "auto"
CHOSEN = ("split_size", "file_size", "partitions")
"""What is chosen from the data when it is AUTO."""

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(I?)B?\s*\Z", re.IGNORECASE)

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""The units of a time."""
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhd]|)\s*\Z", re.IGNORECASE)

MOST_PROCESSES = 1024
"""Workers, and threads, at most: more is a slip of the keys."""
MOST_PARTITIONS = 1024
"""Of each a piece is gathered in memory while rows are dealt out."""
_MOST_OF = {"workers": MOST_PROCESSES, "threads": MOST_PROCESSES, "partitions": MOST_PARTITIONS}


def parse_bytes(value: int | str) -> int:
    """Bytes of a size: `4GB` is 4 * 10**9, `4GiB` 4 * 2**30. Raises `UsageError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        found = _SIZE.match(str(value))
        if not found:
            raise UsageError(f'"{value}" is no size', code="U607", hint="write it as 4GB or 512MiB")
        number, unit, binary = found.groups()
        power = "KMGT".find(unit.upper()) + 1 if unit else 0
        size = int(float(number) * ((1024 if binary else 1000) ** power))
    if size <= 0:
        raise UsageError(f'"{value}" is no size', code="U607", hint="write it as 4GB or 512MiB")
    return size


def parse_seconds(value: float | str) -> float:
    """Seconds of a time: a number of them, or `10s`, `2m`, `500ms`. Raises `UsageError`."""
    seconds = 0.0
    if isinstance(value, str):
        found = _TIME.match(value)
        if found:
            number, unit = found.groups()
            seconds = float(number) * SECONDS[unit.lower() or "s"]
    elif not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            seconds = float(value)
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"{value!r} is no time", code="U607", hint="write a number of seconds, '10s' or '500ms'"
        )
    return seconds


def setting_value(name: str, value: Any) -> Any:
    """The value of a setting in its own type. Raises `UsageError`."""
    if name in CHOSEN and str(value).lower() == AUTO:
        return None
    if name == "cache_size" and str(value).lower() == "none":
        return None
    if name in ("memory", "cache_size", "split_size", "file_size"):
        return parse_bytes(value)
    if name == "temp_dir":
        return str(value)
    if name == "task_timeout":
        return None if str(value).lower() == "none" else parse_seconds(value)
    if name == "cache":
        return str(value) if value else None
    if name in ("optimizer", "resume"):
        words = {"true": True, "false": False, "on": True, "off": False, "1": True, "0": False}
        if str(value).lower() in words:
            return words[str(value).lower()]
        raise UsageError(f"{name} is true or false, not {value!r}", code="U607")
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    most = _MOST_OF.get(name, number)
    if not 1 <= number <= most:
        upto = f" to {most}" if name in _MOST_OF else ""
        raise UsageError(f"{name} takes a number from 1{upto}, not {value!r}", code="U607")
    return number
