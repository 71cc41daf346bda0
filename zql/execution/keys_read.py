"""What a function looks at, as far as its source shows it all: keys of a record, shared objects."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from zql.execution.traces import source_lines

Definition = ast.FunctionDef


def keys_of_record(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The keys that a function of a record looks at, when it does nothing else with the record.

    That is when each use of its first parameter is `r["key"]` or `r.get("key", ..)`.
    """
    definition = _definition(function)
    name = _parameter(definition, inspect.ismethod(function))
    if definition is None or name is None or _is_shadowed(definition, name):
        return None
    return _keys_of(definition, name, _uses(definition, name))


def keys_of_rows(function: Callable[..., Any], position: int) -> tuple[str, ...] | None:
    """The keys that a function looks at in the records of a parameter that it goes through.

    That is when each use of the parameter is `for r in rows`, in a loop or a comprehension, and
    each use of such an `r` is `r["key"]` or `r.get("key", ..)`.
    """
    definition = _definition(function)
    name = _parameter(definition, position + inspect.ismethod(function))
    if definition is None or name is None or _is_shadowed(definition, name):
        return None
    loops = [
        n
        for n in ast.walk(definition)
        if isinstance(n, ast.For | ast.comprehension)
        and isinstance(n.iter, ast.Name)
        and n.iter.id == name
    ]
    if not loops or len(loops) != _uses(definition, name):
        return None
    keys: dict[str, None] = {}
    targets = [loop.target for loop in loops]
    for target in {t.id: t for t in targets if isinstance(t, ast.Name)}.values():
        made = sum(isinstance(t, ast.Name) and t.id == target.id for t in targets)
        found = _keys_of(definition, target.id, _uses(definition, target.id) - made)
        if found is None or _is_argument(definition, target.id):
            return None
        keys.update(dict.fromkeys(found))
    return tuple(keys) if all(isinstance(t, ast.Name) for t in targets) else None


def names_asked(function: Callable[..., Any], name: str) -> tuple[str, ...] | None:
    """The shared objects that a function asks its parameter `name` for; None when any may be.

    That is when each use of the parameter is `ctx.shared("name")` or another attribute.
    """
    definition = _definition(function)
    if definition is None or _is_shadowed(definition, name):
        return None
    nodes = list(ast.walk(definition))
    asked = [found for n in nodes if (found := _asked_of(n, name)) is not None]
    attributes = [
        n.attr
        for n in nodes
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == name
    ]
    if len(attributes) != _uses(definition, name) or attributes.count("shared") != len(asked):
        return None
    return tuple(dict.fromkeys(asked))


def _asked_of(node: ast.AST, name: str) -> str | None:
    """The object in `name.shared("object")`; None when the node is no such call."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=found), attr="shared"),
            args=[ast.Constant(value=str(asked))],
            keywords=[],
        ) if found == name:
            return asked
        case _:
            return None


def _definition(function: Callable[..., Any]) -> Definition | None:
    try:
        (definition,) = ast.parse(textwrap.dedent(_text(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return None
    if not isinstance(definition, ast.FunctionDef) or inspect.unwrap(function) is not function:
        return None
    return definition


def _text(function: Callable[..., Any]) -> str:
    """The function's source. Raises `OSError` or `TypeError` when there is none."""
    lines = source_lines(getattr(function, "__globals__", {}))
    if lines is None:
        return inspect.getsource(function)
    first: int = inspect.unwrap(function).__code__.co_firstlineno
    return "".join(inspect.getblock(lines[first - 1 :]))


def _parameter(definition: Definition | None, position: int) -> str | None:
    if definition is None:
        return None
    arguments = definition.args.posonlyargs + definition.args.args
    return arguments[position].arg if position < len(arguments) else None


def _uses(definition: Definition, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(definition))


def _is_shadowed(definition: Definition, name: str) -> bool:
    return sum(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(definition)) > 1


def _is_argument(definition: Definition, name: str) -> bool:
    return any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(definition))


def _keys_of(definition: Definition, name: str, uses: int) -> tuple[str, ...] | None:
    """The keys read from a name; None when there are other uses of it than these."""
    keys = [key for n in ast.walk(definition) if (key := _key_of(n, name)) is not None]
    return tuple(dict.fromkeys(keys)) if len(keys) == uses else None


def _key_of(node: ast.AST, name: str) -> str | None:
    """The key in `name["key"]` or `name.get("key")`; None when the node is neither."""
    match node:
        case ast.Subscript(
            value=ast.Name(id=found), slice=ast.Constant(value=str(key)), ctx=ast.Load()
        ) if found == name:
            return key
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=found), attr="get"),
            args=[ast.Constant(value=str(key)), *_],
        ) if found == name:
            return key
        case _:
            return None
