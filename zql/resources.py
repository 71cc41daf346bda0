"""What a stage may use of the machine, as a hint, or the program that runs it, says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from zql.errors import UsageError
from zql.settings_text import parse_bytes, setting_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a stage may use; None leaves it to the settings of the run.

    `cpu` processors: so many workers of a stage with Python, so many threads of one of SQL.
    `workers` are tasks at a time, `threads` those of DuckDB in each process, `memory` is for all
    processes of the stage together, in bytes or as `'8GB'`. A task needs `gpus`, or a part of one.
    `split_size` is the input of a task, in bytes or as text; `tasks` is how many there should be.
    With `fuse` false the stage holds the one operator alone. Raises `UsageError`.
    """

    cpu: int | None = None
    memory: int | str | None = None
    workers: int | None = None
    threads: int | None = None
    gpus: float | None = None
    split_size: int | str | None = None
    tasks: int | None = None
    fuse: bool = True

    def __post_init__(self) -> None:
        for name in ("memory", "split_size"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, parse_bytes(value))
        for name, like in (("cpu", "workers"), ("workers", "workers"), ("threads", "threads")):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, setting_value(like, value))
        if self.gpus is not None and self.gpus < 0:
            raise UsageError(f"gpus takes a number, not {self.gpus!r}", code="U607")

    def __bool__(self) -> bool:
        return self != Resources()

    @property
    def budget(self) -> int | None:
        """The memory in bytes."""
        return self.memory if isinstance(self.memory, int) else None

    @property
    def split_bytes(self) -> int | None:
        """The input of a task in bytes."""
        return self.split_size if isinstance(self.split_size, int) else None

    @property
    def said(self) -> dict[str, Any]:
        """What is said, by the names of the fields, but for `fuse`."""
        return {n: v for n in _NAMES if (v := getattr(self, n)) is not None}

    def over(self, other: Resources) -> Resources:
        """These, and what only the other ones say."""
        said: dict[str, Any] = {**self.said, "fuse": self.fuse and other.fuse}
        return replace(other, **said)

    def with_most(self, other: Resources) -> Resources:
        """The larger of what both say, for operators that are run together."""
        theirs = other.said
        more: dict[str, Any] = {n: max(v, theirs[n]) for n, v in self.said.items() if n in theirs}
        return replace(self.over(other), **more)

    def clashes(self, other: Resources) -> bool:
        """Whether both say something, and not the same."""
        theirs = other.said
        return any(theirs.get(name, value) != value for name, value in self.said.items())


_NAMES = tuple(field.name for field in fields(Resources) if field.name != "fuse")


def most(found: Iterable[Resources]) -> Resources | None:
    """What operators of one stage need together; None when they say nothing."""
    result: Resources | None = None
    for each in found:
        result = each if result is None else result.with_most(each)
    return result
