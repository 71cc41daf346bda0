"""`@zql.udf`: what a function's annotations cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, overload

from zql.errors import UsageError, did_you_mean, nearest
from zql.settings_text import parse_seconds

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__zql_udf__"
MOST_CONCURRENT = 10_000
"""Calls under way at a time in one process, at most: more is a slip of the keys."""


@dataclass(frozen=True, slots=True)
class UdfOptions:
    """What the decorator was told; `returns` is a DuckDB type or a Python annotation.

    `timeout` is in seconds, or a text such as `10s`; `init` are the arguments that an object of a
    class is made with. Raises `UsageError` for values that cannot be.
    """

    returns: Any = None
    volatile: bool = False
    batch_size: int | None = None
    concurrency: int | None = None
    timeout: float | str | None = None
    init: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "concurrency"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} is a whole number from 1, not {value!r}", code="U607")
        if self.concurrency is not None and self.concurrency > MOST_CONCURRENT:
            raise UsageError(f"concurrency is at most {MOST_CONCURRENT}", code="U607")
        if self.timeout is not None:
            object.__setattr__(self, "timeout", parse_seconds(self.timeout))

    @property
    def seconds(self) -> float | None:
        """The timeout as a number."""
        return None if self.timeout is None else float(self.timeout)


@overload
def udf(function: F, /) -> F: ...


@overload
def udf(
    *,
    returns: Any = None,
    volatile: bool = False,
    batch_size: int | None = None,
    concurrency: int | None = None,
    timeout: float | str | None = None,
    init: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...


def udf(function: Any = None, /, **options: Any) -> Any:
    """Marks a function for ZQL, which stays what it was for everyone else.

    `returns` is the type of its result, as DuckDB writes it (`"DECIMAL(10, 2)"`) or as a Python
    annotation. A `volatile` function may give another result for the same arguments: its calls are
    never shared, moved or dropped. With `batch_size` a scalar function takes and gives lists of at
    most so many values. `concurrency` is how many calls may be under way at a time in a process,
    `timeout` how long one may take: seconds, or a text such as `10s`, `2m`, `500ms`. A class with
    `__call__` is made once in each process, of the arguments `init`. Raises `UsageError` for values
    that cannot be.
    """
    told = with_options(UdfOptions(), options)

    def mark(target: F) -> F:
        setattr(target, MARK, told)
        return target

    return mark if function is None else mark(function)


def options_of(function: Any) -> UdfOptions:
    """What the decorator said of a function; the defaults when it has none.

    What it said of a class is not meant for those derived from it.
    """
    found = (
        vars(function).get(MARK) if isinstance(function, type) else getattr(function, MARK, None)
    )
    return found if isinstance(found, UdfOptions) else UdfOptions()


def with_options(given: UdfOptions, options: Mapping[str, Any]) -> UdfOptions:
    """Options with others put over them; None changes nothing. Raises `UsageError`."""
    known = [field.name for field in fields(UdfOptions)]
    for name in options:
        if name not in known:
            near = did_you_mean(nearest(name, known))
            hint = near or f"options: {', '.join(known)}"
            raise UsageError(f'unknown option "{name}" of a function', code="U607", hint=hint)
    return replace(given, **{name: v for name, v in options.items() if v is not None})
