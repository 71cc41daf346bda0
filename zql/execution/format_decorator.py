"""`@zql.format`: a function that reads files, or a class that reads and writes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from zql.errors import UsageError
from zql.execution import loader
from zql.storage import compression, registry
from zql.tree import node

T = TypeVar("T")

MARK = "__zql_format__"

decorated: dict[str, Any] = {}
"""What was decorated in this process, by the format's name: every session knows it.

Not that of files of `IMPORT PYTHON`, which the scripts know that import them.
"""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DUCKDBS = ("blob", "json", "ndjson", "text")
"""What DuckDB reads under these names is no format here, but `read_text` is taken."""


@node
class FormatOptions:
    """What the decorator was told."""

    name: str
    suffixes: tuple[str, ...]


def format(name: str, *, suffixes: str | Sequence[str] | None = None) -> Callable[[T], T]:  # noqa: A001
    """Makes a file format of a function or a class, which stays what it was for everyone else.

    A function reads: `read(path)` gives rows as dicts, or tables of Arrow, pandas or polars. A
    class has `read`, `write` or both, and may have `schema` and `splits`. `suffixes` tell the
    format of a file; without any it is the name, as `.name`. Raises `UsageError`.
    """
    options = format_options(name, suffixes)

    def mark(target: T) -> T:
        check_target(target, options.name)
        setattr(target, MARK, options)
        if not loader.is_private(str(getattr(target, "__module__", ""))):
            _announce(target, options)
        return target

    return mark


def _announce(target: Any, options: FormatOptions) -> None:
    """Lets every session of this process know a format; one that is defined anew is replaced."""
    for other in decorated.values():
        found = options_of(other)
        if found is not None and not is_same(other, target):
            check_apart(options, found)
    decorated[options.name.lower()] = target


def is_same(one: Any, other: Any) -> bool:
    """Whether two functions or classes stand for the same piece of text."""
    a, b = ((getattr(t, "__module__", ""), getattr(t, "__qualname__", t)) for t in (one, other))
    return a == b


def options_of(target: Any) -> FormatOptions | None:
    """What the decorator said of a function or of a class itself; None when it has none."""
    found = getattr(target, "__dict__", {}).get(MARK)
    return found if isinstance(found, FormatOptions) else None


def format_options(name: Any, suffixes: Any) -> FormatOptions:
    """A name and suffixes that a format may have. Raises `UsageError` for others."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(
            f"a format cannot be called {name!r}",
            code="U624",
            hint="letters, digits and _: @zql.format('warc', suffixes=['.warc'])",
        )
    if registry.is_built_in(name) or name.lower() in _DUCKDBS:
        raise UsageError(
            f'"{name}" is a format of ZQL\'s own', code="U624", hint="take another name"
        )
    given = (f".{name}",) if suffixes is None else suffixes
    given = (given,) if isinstance(given, str) else tuple(given)
    packed = {s for c in compression.COMPRESSIONS for s in c.suffixes}
    for suffix in given:
        if not isinstance(suffix, str) or not re.match(r"\.[^/]*[^/.]\Z", suffix):
            raise UsageError(
                f'the format "{name}" cannot have the suffix {suffix!r}',
                code="U624",
                hint="suffixes begin with a dot: ['.warc', '.warc.gz']",
            )
        if suffix.lower() in packed or suffix.lower() in registry.suffixes():
            raise UsageError(
                f'the format "{name}" cannot have the suffix "{suffix}", which is ZQL\'s own',
                code="U624",
                hint=f"read_{name}('..') reads files of any name",
            )
    return FormatOptions(name, tuple(suffix.lower() for suffix in given))


def check_apart(one: FormatOptions, other: FormatOptions) -> None:
    """Raises `UsageError` for two formats of one name, or with one suffix."""
    if one.name.lower() == other.name.lower():
        raise UsageError(
            f'there are two formats called "{one.name}"', code="U624", hint="take another name"
        )
    both = [suffix for suffix in one.suffixes if suffix in other.suffixes]
    if both:
        raise UsageError(
            f'the formats "{other.name}" and "{one.name}" have the suffix "{both[0]}" both',
            code="U624",
            hint=f"leave it out of one; read_{one.name}('..') reads files of any name",
        )


def check_target(target: Any, name: str) -> None:
    """Raises `UsageError` for what can neither read nor write."""
    methods = [m for m in ("read", "write") if callable(getattr(target, m, None))]
    if not methods and not (callable(target) and not inspect.isclass(target)):
        raise UsageError(
            f'the format "{name}" can neither read nor write',
            code="U624",
            hint="a function that reads, or a class with the method read, write or both",
        )
