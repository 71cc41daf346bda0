"""A function of a user's format: what it takes, and the options that it is called with."""

from __future__ import annotations

import inspect
import io
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from zql.errors import UsageError
from zql.execution.frames import form_of
from zql.execution.hints import hints_of

_STREAMS = ("IO", "BinaryIO", "BufferedReader", "BufferedIOBase", "RawIOBase")
_KINDS: dict[Any, str] = {bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE", str: "VARCHAR"}


class UserMethod:
    """One of `read`, `write`, `schema`, `splits`; the first `given` arguments are ZQL's.

    So are those called in `own`, when it has them. `options` are its others, by their names in
    small letters: what kind of value each takes; `required` those that must be given.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], given: int, own: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.call = call
        self.hints = hints_of(call)
        self._names: dict[str, str] = {}
        self.options: dict[str, str] = {}
        self.required: list[str] = []
        self.stream = False
        self.own: set[str] = set()
        try:
            found = list(inspect.signature(call).parameters.values())
        except (ValueError, TypeError):  # some functions of C do not say
            found = []
            self.options["*"] = "ANY"
        for place, parameter in enumerate(found):
            self._take(parameter, place < given, own)

    def _take(self, parameter: inspect.Parameter, is_given: bool, own: tuple[str, ...]) -> None:
        name, kind = parameter.name, parameter.kind
        if is_given and kind is not inspect.Parameter.KEYWORD_ONLY:
            self.stream = self.stream or name == "file" or _is_stream(self.hints.get(name))
        elif name in own:
            self.own.add(name)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            self.options["*"] = "ANY"
        elif kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            self._names[name.lower()] = name
            self.options[name.lower()] = _KINDS.get(self.hints.get(name), "ANY")
            if parameter.default is inspect.Parameter.empty:
                self.required.append(name)

    def arguments(self, options: Mapping[str, Any], zqls: Mapping[str, str]) -> dict[str, Any]:
        """The options that are for this function, under its own names; `zqls` are not."""
        found = {}
        for name, value in options.items():
            if name in self._names or ("*" in self.options and name not in zqls):
                is_float = self.options.get(name) == "DOUBLE" and isinstance(value, Decimal | int)
                found[self._names.get(name, name)] = float(value) if is_float else value
        return found

    def require(self, options: Mapping[str, Any], what: str) -> None:
        """Raises `UsageError` for an option that is missing."""
        for name in self.required:
            if name.lower() not in options:
                raise UsageError(f'{what} needs the option "{name}"', code="U627")

    def form(self, name: str) -> str:
        """Which tables an iterator is annotated to have; empty for records."""
        args = typing.get_args(self.hints.get(name))
        return form_of(args[0]) if args else ""

    @property
    def first(self) -> str:
        """The name of the first parameter."""
        return next(iter(inspect.signature(self.call).parameters), "")


def _is_stream(annotation: Any) -> bool:
    found = typing.get_origin(annotation) or annotation
    return found in (typing.IO, typing.BinaryIO, io.BufferedReader) or (
        getattr(found, "__name__", "") in _STREAMS
    )
