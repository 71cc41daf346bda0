"""Annotations of users' functions and classes."""

from __future__ import annotations

import inspect
import typing
from typing import Any


def hints_of(target: Any) -> dict[str, Any]:
    """Annotations with their strings evaluated; one that cannot be stays a string."""
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001 - evaluating annotations runs code of the user
        found = inspect.get_annotations(target) if _may_have_annotations(target) else {}
        return {name: _evaluated(hint, target) for name, hint in found.items()}


def stripped(annotation: Any) -> Any:
    """Without Annotated, Required, Final and their like."""
    while typing.get_origin(annotation) in (
        typing.Annotated,
        typing.Required,
        typing.NotRequired,
        typing.Final,
        typing.ClassVar,
    ):
        annotation = typing.get_args(annotation)[0]
    return annotation


def _may_have_annotations(target: Any) -> bool:
    return inspect.isfunction(target) or inspect.isclass(target)


def _evaluated(hint: Any, target: Any) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, getattr(target, "__globals__", {}))  # noqa: S307 - the user's own code
    except Exception:  # noqa: BLE001
        return hint
