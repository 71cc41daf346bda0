"""Hints `@{name = value}` behind an operator's word: which there are."""

from __future__ import annotations

from zql.logical.context import Context, unknown
from zql.syntax import ast

HINTS = ("batch_size", "gpus", "memory", "shards", "strategy", "threads", "workers")
"""Every name that a hint can have, whatever the operator makes of it."""


def check_hints(context: Context, op: ast.PipeOperator) -> None:
    """Reports the hints that no operator knows: a misspelt one would do nothing in silence."""
    for hint in op.hints:
        if hint.name.lower() not in HINTS:
            context.errors.append(unknown("hint", hint.name, HINTS, hint.span, "N219"))
