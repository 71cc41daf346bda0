"""Trees of frozen records: how one is declared, walked and rewritten; AST, expressions, plans."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeVar, cast, dataclass_transform


class Node:
    """Marks the frozen dataclasses that form a tree; fields and tuples of nodes are children."""

    __slots__ = ()


N = TypeVar("N", bound=Node)
T = TypeVar("T")


_PLAIN = frozenset({"str", "int", "float", "bool", "bytes", "DataType", "None", "tuple"})
"""Words of annotations that say of a field that no node is in it."""


def _names_of(kind: Any) -> tuple[str, ...]:
    """The fields that may hold nodes."""
    plain = (_PLAIN.issuperset(re.findall(r"\w+", str(f.type))) for f in fields(kind))
    return tuple(f.name for f, p in zip(fields(kind), plain, strict=True) if f.compare and not p)


_names: Callable[[Any], tuple[str, ...]] = cache(_names_of)


def _compared_of(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.compare)


_compared_names: Callable[[Any], tuple[str, ...]] = cache(_compared_of)


def _all_names_of(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.init)


_all_names: Callable[[Any], tuple[str, ...]] = cache(_all_names_of)


def children(node: Node) -> list[Node]:
    """The nodes directly below, in field order, also those inside tuples."""
    found: list[Node] = []
    for name in _names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif value and isinstance(value, tuple):
            _collect(value, found)
    return found


def _collect(values: tuple[Any, ...], found: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            _collect(value, found)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, without recursion."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        if _names(type(current)):  # most nodes are leaves
            below = children(current)
            below.reverse()
            todo += below


def same_tree(one: Any, other: Any) -> bool:
    """Whether two trees are equal, however deep: `==` recurses, and takes `1` for `True`."""
    todo = [(one, other)]
    while todo:
        a, b = todo.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, Node):
            todo += [(getattr(a, n), getattr(b, n)) for n in _compared_names(type(a))]
        elif isinstance(a, tuple):
            if len(a) != len(b):
                return False
            todo += zip(a, b, strict=True)
        elif a != b:
            return False
    return True


def _map_tuple(values: tuple[Any, ...], function: Callable[[Any], Any]) -> tuple[Any, ...]:
    mapped: list[Any] = []
    changed = False
    for value in values:
        after = value
        if isinstance(value, Node):
            after = function(value)
        elif isinstance(value, tuple):
            after = _map_tuple(value, function)
        changed = changed or after is not value
        mapped.append(after)
    return tuple(mapped) if changed else values


def map_children(node: N, function: Callable[[Any], Any]) -> N:
    """The node with `function` applied to each child; the same object when none changed."""
    changes = {}
    for name in _names(type(node)):
        before = getattr(node, name)
        if isinstance(before, Node):
            after = function(before)
        elif before and isinstance(before, tuple):
            after = _map_tuple(before, function)
        else:
            continue
        if after is not before:
            changes[name] = after
    if not changes:
        return node
    # As `dataclasses.replace` does it, which looks at each field anew each time.
    kind = type(node)
    return kind(**{name: getattr(node, name) for name in _all_names(kind)} | changes)


def rewrite_up(node: Any, function: Callable[[Any], Any]) -> Any:
    """Children first, then the node itself; `function` returns its argument to keep it."""

    def visit(part: Any) -> Any:
        return function(map_children(part, visit))

    return visit(node)


def rewrite_down(node: Any, function: Callable[[Any], Any]) -> Any:
    """The node first, then the children of what came back."""

    def visit(part: Any) -> Any:
        return map_children(function(part), visit)

    return visit(node)


# ---- declaring ---------------------------------------------------------------------------------

_ORDINARY: Any = dataclasses._FIELD  # type: ignore[attr-defined]  # noqa: SLF001


def _parameters(*, frozen: bool) -> SimpleNamespace:
    return SimpleNamespace(
        init=True,
        repr=True,
        eq=True,
        order=False,
        unsafe_hash=False,
        frozen=frozen,
        match_args=True,
        kw_only=False,
        slots=True,
        weakref_slot=False,
    )


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[T]) -> type[T]:
    """Make a class what `dataclass(frozen=True, slots=True)` makes it, at a tenth of the time.

    Everything of `dataclasses` works on the result. A program that starts in a fraction of a
    second cannot pay a millisecond for each of a hundred classes, so `__init__` is compiled when
    the first object is made, and the other methods are shared.
    """
    return _declared(cls, _FROZEN, frozen=True)


@dataclass_transform(field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class what `dataclass(slots=True)` makes it, in the same way: it can be changed."""
    return _declared(cls, _SHARED, frozen=False)


def _declared(cls: type[T], methods: dict[str, Any], *, frozen: bool) -> type[T]:
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: nothing would call __post_init__")
    known: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known.update(base.__dict__.get("__dataclass_fields__", {}))
    body = dict(cls.__dict__)
    inherited = set(known)
    for name, annotation in body.get("__annotations__", {}).items():
        default = body.pop(name, MISSING)
        item: Any = default if isinstance(default, Field) else field(default=default)
        item.name, item.type, item._field_type = name, annotation, _ORDINARY  # noqa: SLF001
        item.kw_only = item.kw_only is True
        known[name] = item
    compared = tuple(name for name, item in known.items() if item.compare)
    hashed = tuple(name for name in compared if known[name].hash is not False)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = tuple(name for name in known if name not in inherited)
    body["__dataclass_fields__"] = known
    body["__dataclass_params__"] = _parameters(frozen=frozen)
    body["__match_args__"] = tuple(name for name, item in known.items() if not item.kw_only)
    body["_compared"] = attrgetter(*compared) if compared else _nothing
    body["_hashed"] = attrgetter(*hashed) if hashed else _nothing
    for name, method in methods.items():
        body.setdefault(name, method)
    made: Any = cast("Any", type(cls))(cls.__name__, cls.__bases__, body)
    if "__init__" not in cls.__dict__:
        made.__init__ = _initializer(made)
    return cast("type[T]", made)


def _nothing(_: object) -> tuple[()]:
    return ()


def _initializer(kind: Any) -> Callable[..., None]:
    """An `__init__` that writes the real one when it is first called."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        kind.__init__ = _compile_initializer(kind)
        kind.__init__(self, *args, **kwargs)

    return __init__


def _compile_initializer(kind: Any) -> Any:
    """Slots are filled through their descriptors, the fastest way past a frozen class."""
    places: dict[str, Any] = {"_missing": MISSING}
    plain: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for name, item in kind.__dataclass_fields__.items():
        places[f"_set_{name}"] = getattr(kind, name).__set__
        value, parameter = name, name
        if item.default is not MISSING:
            places[f"_default_{name}"] = item.default
            parameter = f"{name}=_default_{name}"
        elif item.default_factory is not MISSING:
            places[f"_make_{name}"] = item.default_factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        (keywords if item.kw_only else plain).append(parameter)
        lines.append(f"    _set_{name}(self, {value})\n")
    star = ["*"] if keywords else []
    head = f"def __init__({', '.join(['self', *plain, *star, *keywords])}):\n"
    exec(head + ("".join(lines) or "    pass\n"), places)  # noqa: S102 - names of our own fields
    return places["__init__"]


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__class__._compared(self) == self.__class__._compared(other)  # noqa: SLF001


def _hash(self: Any) -> int:
    return hash(self.__class__._hashed(self))  # noqa: SLF001


def _represent(self: Any) -> str:
    shown = (
        f"{name}={getattr(self, name)!r}"
        for name, item in self.__dataclass_fields__.items()
        if item.repr
    )
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise FrozenInstanceError(f"cannot change {name!r} of {self.__class__.__name__}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: dict[str, Any] = {
    "__eq__": _equal,
    "__hash__": None,
    "__repr__": _represent,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
_FROZEN = {**_SHARED, "__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
