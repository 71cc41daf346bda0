"""Functions of the caller's process as bytes, for the processes that call them."""

from __future__ import annotations

import io
import types
from collections import ChainMap
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar


def pickled(function: Callable[..., Any]) -> bytes:
    """A function with all that it refers to, for `pickle.loads` in another process.

    Its code keeps the name of its file, so that errors show the user's lines: cloudpickle alone
    would call it `<dynamic-code>`.
    """
    found = io.BytesIO()
    _pickler()(found).dump(function)
    return found.getvalue()


@cache
def _pickler() -> Callable[..., Any]:
    from cloudpickle import CloudPickler

    plain = CloudPickler.dispatch_table

    def reduced(code: types.CodeType) -> tuple[Any, ...]:
        return _located, (code.co_filename, *plain[types.CodeType](code))

    class Pickler(CloudPickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap({types.CodeType: reduced}, plain)

    return Pickler


def _located(filename: str, make: Callable[..., types.CodeType], args: tuple[Any, ...]) -> Any:
    return make(*args).replace(co_filename=filename)
