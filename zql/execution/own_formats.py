"""The formats of the user's own that a session knows, and where it finds them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zql.errors import UsageError
from zql.execution import loader, traces
from zql.execution.format_decorator import (
    FormatOptions,
    check_apart,
    check_target,
    decorated,
    format_options,
    options_of,
)
from zql.expr.functions import PythonFormat, PythonFunction
from zql.storage import registry
from zql.storage.format import Format

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from zql.execution.introspect import UserModule

GROUP = "zql.formats"
"""The entry points of packages that bring formats: the name is the format's."""


class OwnFormats:
    """See `registry.OwnFormats`. A name means what the session was told, by a script or by
    `Session.format`; else what was decorated in this process; else what an installed package has.
    Packages are asked only for what nobody else knows.
    """

    def __init__(self) -> None:
        self._declared: dict[str, PythonFormat] = {}
        self._decorated: dict[str, tuple[Any, PythonFormat]] = {}
        self._installed: dict[str, PythonFormat] = {}
        self._not_loaded: dict[str, UsageError] = {}

    def add(self, found: PythonFormat) -> None:
        """Takes in a format; one of the same code is replaced. Raises `UsageError`."""
        for other in self._declared.values():
            if not _is_same(found, other):
                check_apart(_options(found), _options(other))
        self._declared = {
            name: other for name, other in self._declared.items() if not _is_same(found, other)
        }
        self._declared[found.name.lower()] = found

    def add_module(self, module: UserModule) -> None:
        """Takes in the formats that a file or a module shows. Raises `UsageError`."""
        from zql.execution.introspect import public

        for name, target in public(module.module).items():
            options = options_of(target)
            if options is not None:
                self.add(described(target, options, module.named(name)))

    def named(self, name: str) -> Format | None:
        """See `registry.OwnFormats`. Raises `UsageError` for a package's that cannot be loaded."""
        wanted = name.lower()
        found = self._declared.get(wanted) or self._in_process().get(wanted)
        if found is None and wanted in self._entry_points:
            found = self._load(wanted)
        return None if found is None else _user_format(found)

    def of_path(self, path: str, *, known: bool) -> Format | None:
        """See `registry.OwnFormats`. A package that cannot be loaded is passed over."""
        for among in (self._declared.values(), self._in_process().values()):
            if (found := _longest(path, among)) is not None:
                return _user_format(found)
        if known:
            return None
        for name in self._entry_points:
            try:
                self._load(name)
            except UsageError as error:
                self._not_loaded[name] = error
        found = _longest(path, self._installed.values())
        return None if found is None else _user_format(found)

    def name_of(self, code: PythonFunction) -> str | None:
        """The name of the format that scripts have of this code."""
        place = (code.path, code.module, code.qualname, code.digest)
        for one in self._declared.values():
            if place == (one.code.path, one.code.module, one.code.qualname, one.code.digest):
                return one.name
        return None

    def names(self) -> Sequence[str]:
        """See `registry.OwnFormats`."""
        return list(dict.fromkeys([*self._declared, *self._in_process(), *self._entry_points]))

    def listed(self) -> Sequence[Format]:
        """See `registry.OwnFormats`: those of packages are not among them."""
        found = {**self._in_process(), **self._declared}
        return [_user_format(one) for one in found.values()]

    def notes(self) -> tuple[str, ...]:
        """See `registry.OwnFormats`."""
        return tuple(error.message for error in self._not_loaded.values())

    def _in_process(self) -> dict[str, PythonFormat]:
        if not decorated:
            return {}
        from zql.execution.introspect import sent

        for name, target in decorated.items():
            options = options_of(target)
            if options is not None and self._decorated.get(name, (None,))[0] is not target:
                self._decorated[name] = (target, described(target, options, sent(target)))
        return {name: self._decorated[name][1] for name in decorated if name in self._decorated}

    # ---- packages ------------------------------------------------------------------------------

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=GROUP):
            other = found.setdefault(point.name.lower(), point)
            if other.value != point.value:
                raise UsageError(
                    f'two packages have a format called "{point.name}": {_package(other)} and '
                    f"{_package(point)}",
                    code="U624",
                    hint="uninstall one of them",
                )
        return found

    def _load(self, name: str) -> PythonFormat:
        if name not in self._installed:
            found = _installed(self._entry_points[name])
            for other in self._installed.values():
                check_apart(_options(found), _options(other))
            self._installed[name] = found
        return self._installed[name]


def declared(
    target: Any, name: str | None = None, suffixes: str | Sequence[str] | None = None
) -> PythonFormat:
    """The format of an object of the caller's process; what is not said the decorator says.

    Raises `UsageError`, and `BindError` for what cannot be sent to workers.
    """
    from zql.execution.introspect import sent

    options = options_of(target)
    if name is not None or options is None:
        shown = name or str(getattr(target, "__name__", type(target).__name__)).lower()
        given = options.suffixes if options is not None and suffixes is None else suffixes
        options = format_options(shown, given)
    elif suffixes is not None:
        options = format_options(options.name, suffixes)
    return described(target, options, sent(target))


def described(target: Any, options: FormatOptions, code: PythonFunction) -> PythonFormat:
    """What is known of a format by its object; `code` says where it is. Raises `UsageError`."""
    check_target(target, options.name)
    writes, cuts = (callable(getattr(target, method, None)) for method in ("write", "splits"))
    reads = callable(getattr(target, "read", None)) or not writes
    return PythonFormat(options.name, options.suffixes, code, reads, writes, cuts)


def _installed(point: EntryPoint) -> PythonFormat:
    folder = str(point.dist.locate_file("")) if point.dist is not None else ""
    try:
        with loader.no_bytecode():
            target = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise SystemExit too
        raise UsageError(
            f'the format "{point.name}" of {_package(point)} cannot be loaded: '
            f"{traces.told(error)}",
            code="U626",
            notes=traces.frames(error),
        ) from None
    if folder:
        loader.search(folder)  # for the workers
    found = options_of(target)
    options = format_options(point.name, None if found is None else found.suffixes)
    file = getattr(sys.modules.get(point.module), "__file__", None)
    digest = loader.digest(file) if file and file.endswith(".py") else ""
    name = f"{point.module}.{point.attr}"
    return described(
        target, options, PythonFunction(name, point.attr, module=point.module, digest=digest)
    )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _longest(path: str, among: Iterable[PythonFormat]) -> PythonFormat | None:
    """The format with the longest suffix of a path, also behind none or one of a compression."""
    lower = path.lower()
    fitting = [
        (len(suffix), found)
        for found in among
        for suffix in found.suffixes
        if lower.endswith(registry.with_packed((suffix,)))
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _is_same(one: PythonFormat, other: PythonFormat) -> bool:
    """Whether the code of two formats stands at one place, though its text may have changed."""
    a, b = one.code, other.code
    if (a.path, a.module, a.qualname) != (b.path, b.module, b.qualname):
        return False
    return a.qualname != "<lambda>" or one.name.lower() == other.name.lower()


def _options(found: PythonFormat) -> FormatOptions:
    return FormatOptions(found.name, found.suffixes)


def format_of(name: str, own: PythonFormat | None) -> Format:
    """The format of a plan's scan or output."""
    return registry.by_name(name) if own is None else _user_format(own)


def _user_format(own: PythonFormat) -> Format:
    from zql.execution.user_format import UserFormat

    return UserFormat(own)
