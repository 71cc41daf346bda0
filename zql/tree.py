"""Walking and rewriting any tree of frozen dataclasses: AST, expressions and plans alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar


class Node:
    """Marks the frozen dataclasses that form a tree; fields and tuples of nodes are children."""

    __slots__ = ()


N = TypeVar("N", bound=Node)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.compare)


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in field order, also those inside tuples."""
    for name in _names(type(node)):
        yield from _nodes_in(getattr(node, name))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, without recursion."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(reversed(list(children(current))))


def _map_value(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Node):
        return function(value)
    if isinstance(value, tuple):
        mapped = tuple(_map_value(item, function) for item in value)
        return value if all(a is b for a, b in zip(mapped, value, strict=True)) else mapped
    return value


def map_children(node: N, function: Callable[[Any], Any]) -> N:
    """The node with `function` applied to each child; the same object when none changed."""
    changes = {}
    for name in _names(type(node)):
        before = getattr(node, name)
        after = _map_value(before, function)
        if after is not before:
            changes[name] = after
    return replace(node, **changes) if changes else node  # type: ignore[type-var]


def rewrite_up(node: Any, function: Callable[[Any], Any]) -> Any:
    """Children first, then the node itself; `function` returns its argument to keep it."""
    return function(map_children(node, lambda child: rewrite_up(child, function)))


def rewrite_down(node: Any, function: Callable[[Any], Any]) -> Any:
    """The node first, then the children of what came back."""
    return map_children(function(node), lambda child: rewrite_down(child, function))
