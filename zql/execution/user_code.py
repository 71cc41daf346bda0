"""The code of a user's format: its methods, loaded once in a process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from zql.errors import UdfError, UsageError
from zql.execution import loader, traces
from zql.execution.user_method import UserMethod
from zql.expr.functions import PythonFormat
from zql.storage.options import FOR_ALL_READERS

READ_OPTIONS = {**FOR_ALL_READERS, "columns": "STRUCT", "compression": "VARCHAR"}
"""The options that every such reader has: they are ZQL's business."""

WRITE_OPTIONS = {"compression": "VARCHAR", "compression_level": "BIGINT"}
"""The options that every such writer has."""

_objects: dict[tuple[str, ...], Any] = {}


class UserCode:
    """What a format of the user's can do. Raises `UdfError` when its code cannot be loaded."""

    def __init__(self, own: PythonFormat) -> None:
        self.own = own
        self.name = own.code.name

    @cached_property
    def read(self) -> UserMethod:
        """The reader. Raises `UsageError` when there is none."""
        return self._needed("read", 1, "part", "columns")

    @cached_property
    def reading_options(self) -> Mapping[str, str]:
        """The options of all that has to do with reading. Raises `UsageError` as `read`."""
        reader = self.read
        others = [self.method("schema", 1), self.method("splits", 1)]
        found = {k: v for m in others if m is not None for k, v in m.options.items()}
        return {**found, **reader.options}

    @cached_property
    def write(self) -> UserMethod:
        """The writer. Raises `UsageError` when there is none."""
        return self._needed("write", 2, "schema")

    def method(self, name: str, given: int, *zqls: str) -> UserMethod | None:
        """A method; a plain function is `read`. None when there is none of that name."""
        target = _loaded(self.own)
        found = getattr(target, name, None)
        if found is None and name == "read" and not hasattr(target, "write"):
            found = target
        return UserMethod(name, found, given, zqls) if callable(found) else None

    def _needed(self, name: str, given: int, *zqls: str) -> UserMethod:
        found = self.method(name, given, *zqls)
        if found is None:
            raise UsageError(
                f'the format "{self.own.name}" cannot {name}',
                code="U625",
                hint=f"{self.name} has no method {name}",
            )
        taken = set(found.options) & set(READ_OPTIONS if name == "read" else WRITE_OPTIONS)
        if taken:
            raise UsageError(
                f'{self.name}: "{min(taken)}" is an option of ZQL\'s, and no parameter',
                code="U624",
                hint="call it something else",
            )
        return found


def _loaded(own: PythonFormat) -> Any:
    """The function, or an object of the class: one in each process."""
    code = own.code
    key = (code.path, code.module, code.qualname, code.digest)
    if key not in _objects:
        try:
            target = loader.load_object(code)
            _objects[key] = target() if inspect.isclass(target) else target
        except Exception as error:  # noqa: BLE001 - user code
            raise UdfError(
                f"{code.name} cannot be loaded: {traces.told(error)}",
                code="R713",
                notes=traces.frames(error),
            ) from None
    return _objects[key]
