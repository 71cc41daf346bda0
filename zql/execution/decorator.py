"""`@zql.udf`: what a function's annotations cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__zql_udf__"


@dataclass(frozen=True, slots=True)
class UdfOptions:
    """What the decorator was told; `returns` is a DuckDB type or a Python annotation."""

    returns: Any = None
    volatile: bool = False


@overload
def udf(function: F, /) -> F: ...


@overload
def udf(*, returns: Any = None, volatile: bool = False) -> Callable[[F], F]: ...


def udf(function: Any = None, /, *, returns: Any = None, volatile: bool = False) -> Any:
    """Marks a function for ZQL, which stays what it was for everyone else.

    `returns` is the type of its result, as DuckDB writes it (`"DECIMAL(10, 2)"`) or as a Python
    annotation. A `volatile` function may give another result for the same arguments: its calls are
    never shared, moved or dropped.
    """

    def mark(target: F) -> F:
        setattr(target, MARK, UdfOptions(returns, volatile))
        return target

    return mark if function is None else mark(function)


def options_of(function: Any) -> UdfOptions:
    """What the decorator said of a function; the defaults when it has none."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, UdfOptions) else UdfOptions()
