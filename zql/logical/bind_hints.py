"""Hints: `@{name = value}` behind an operator's word, checked when it is bound.

They never change results. MAP BATCHES goes by its `batch_size`, operators that call Python by their
`timeout`, which is that of a call, and the stage that an operator ends up in by its resources; a
slip in any of them is an error, so that it is not found out by waiting. Hints of other engines
(`engine.name`) are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from zql.errors import BindError, UsageError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.context import Context
from zql.resources import Resources
from zql.settings_text import parse_bytes, parse_seconds
from zql.syntax import ast
from zql.tree import Node, map_children, walk

RESOURCES = {
    "workers": "workers",
    "threads": "threads",
    "memory": "memory",
    "gpus": "gpus",
    "split_size": "split_size",
    "shards": "tasks",
    "fuse": "fuse",
}
"""Hints that are resources of a stage, and the field of `Resources` that each is."""

STRATEGIES = ("broadcast", "hash", "merge")


def check_hints(context: Context, op: ast.PipeOperator) -> None:
    """Reports every hint that is unknown, given twice, or has a value of the wrong kind."""
    seen: set[str] = set()
    for hint in op.hints:
        if "." not in hint.name:
            context.attempt(lambda h=hint: _check(h, op, seen))  # type: ignore[misc]


def call_timeout(op: ast.PipeOperator) -> float | None:
    """The seconds that a call of Python in an operator may take; None when it does not say."""
    for hint in op.hints:
        if hint.name.lower() == "timeout" and isinstance(hint.value, ex.Literal):
            with suppress(UsageError):
                return parse_seconds(hint.value.value)
    return None


def strategy_of(op: ast.PipeOperator) -> str:
    """How a JOIN is asked to be done; empty when it does not say, or wrongly."""
    for hint in op.hints:
        with suppress(BindError):  # `check_hints` has told it
            if hint.name.lower() == "strategy" and _value(hint) in STRATEGIES:
                return str(_value(hint))
    return ""


def resources_of(op: ast.PipeOperator) -> Resources | None:
    """What an operator asks for; None when it does not say, or wrongly."""
    found: dict[str, Any] = {}
    for hint in op.hints:
        name = hint.name.lower()
        with suppress(BindError):  # `check_hints` has told it
            if name in RESOURCES and HINTS[name][0](_value(hint)):
                found[RESOURCES[name]] = _value(hint)
    if "gpus" in found:
        found["gpus"] = float(found["gpus"])
    try:
        return Resources(**found) or None
    except UsageError as error:
        raise BindError(error.message, code="T331", span=op.span, hint=error.hint) from None


def with_resources(
    plan: lp.LogicalPlan, below: lp.LogicalPlan, resources: Resources
) -> lp.LogicalPlan:
    """The plan that an operator made of the one `below`, with its resources."""
    if plan is below:
        return plan
    kept = replace(plan, resources=resources) if isinstance(plan, lp.ASKING) else plan
    return map_children(kept, lambda n: _on_the_way(n, below, resources))


def _on_the_way(node: Node, below: lp.LogicalPlan, resources: Resources) -> Node:
    on_the_way = isinstance(node, lp.LogicalPlan) and any(n is below for n in walk(node))
    return with_resources(node, below, resources) if on_the_way else node  # type: ignore[arg-type]


def _check(hint: ast.Option, op: ast.PipeOperator, seen: set[str]) -> None:
    name = hint.name.lower()
    known = [n for n in HINTS if n != "strategy" or isinstance(op, ast.Join)]
    if name not in known:
        only = "strategy is a hint of JOIN" if name == "strategy" else f'unknown hint "{hint.name}"'
        near = nearest(name, known)
        raise BindError(
            only,
            code="N219",
            span=hint.span,
            hint=did_you_mean(near),
            notes=(f"hints here: {', '.join(known)}", "those of other engines: engine.name = .."),
            candidates=near,
        )
    if name in seen:
        raise BindError(f'the hint "{name}" is given twice', code="N208", span=hint.span)
    seen.add(name)
    fits, wanted = HINTS[name]
    value = _value(hint)
    if not fits(value):
        near = nearest(str(value), sorted(STRATEGIES)) if name == "strategy" else ()
        raise BindError(
            f"{name} takes {wanted}, not {hint.value.span.text if hint.value.span else 'this'}",
            code="T331",
            span=hint.value.span or hint.span,
            hint=did_you_mean(near),
        )


def _value(hint: ast.Option) -> object:
    """The value of a hint: a literal, or a word as text."""
    value = hint.value
    if isinstance(value, ex.Name) and len(value.parts) == 1:
        return value.parts[0]
    if isinstance(value, ex.Literal) and not value.type:
        return value.value
    raise BindError(
        f"the value of the hint {hint.name} is written out: a number, a word or a text",
        code="T331",
        span=value.span or hint.span,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> bool:
    return not isinstance(value, str | bytes | bool) and value is not None and value >= 0  # type: ignore[operator]


def _is_size(value: object) -> bool:
    try:
        return isinstance(value, str | int) and parse_bytes(value) > 0
    except UsageError:
        return False


def _is_duration(value: object) -> bool:
    try:
        return isinstance(value, str | int | float | Decimal) and parse_seconds(value) > 0  # type: ignore[arg-type]
    except UsageError:
        return False


HINTS: dict[str, tuple[Callable[[object], bool], str]] = {
    "workers": (_is_count, "a number from 1"),
    "threads": (_is_count, "a number from 1"),
    "memory": (_is_size, "a size ('8GB')"),
    "split_size": (_is_size, "a size ('64MB')"),
    "gpus": (_is_number, "a number"),
    "batch_size": (_is_count, "a number from 1"),
    "shards": (_is_count, "a number from 1"),
    "strategy": (lambda v: v in STRATEGIES, "broadcast, hash or merge"),
    "retries": (lambda v: v == 0 or _is_count(v), "a number"),
    "timeout": (_is_duration, "a time ('10m', or a number of seconds)"),
    "fuse": (lambda v: isinstance(v, bool), "true or false"),
}
"""Each hint: whether a value fits, and what does."""
