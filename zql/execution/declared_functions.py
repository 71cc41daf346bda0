"""CREATE TEMP FUNCTION .. LANGUAGE python: the function that its source, or its library, has."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from zql.errors import BindError, did_you_mean, nearest
from zql.execution import loader, traces
from zql.execution.classes import described_call, is_callable_class
from zql.execution.decorator import options_of, with_options
from zql.execution.introspect import check_needs, public_callables, user_module
from zql.expr.functions import PythonFunction
from zql.logical.catalog import DeclaredFunction, SourceProblem


def declared_function(wanted: DeclaredFunction, base_dir: str | None) -> PythonFunction:
    """The function with what Python says of it. Raises `BindError`, and `SourceProblem` for text.

    Only its options are those of the statement; types and names are the caller's business.
    """
    module, base = _module(wanted, base_dir)
    found = _entry(wanted, module)
    value = getattr(module, found)
    named = replace(base, name=wanted.name, qualname=found)
    told = {"returns": wanted.returns, "volatile": wanted.volatile, "init": wanted.init}
    options = with_options(options_of(value), {**told, **wanted.calls})
    described = described_call(value, named, options, wanted.shared)
    check_needs(described, "OPTIONS (init = {{{}: ..}})")
    return described


def missing_package(packages: Sequence[str]) -> str | None:
    """The first of the packages that is not installed, by the name of its modules or its own."""
    from importlib import metadata, util  # which take longer than all the rest

    for package in packages:
        with suppress(metadata.PackageNotFoundError, ValueError):
            metadata.distribution(package)
            continue
        try:
            if util.find_spec(package) is not None:
                continue
        except (ImportError, ValueError):
            pass
        return package
    return None


def _module(wanted: DeclaredFunction, base_dir: str | None) -> tuple[ModuleType, PythonFunction]:
    if wanted.library:
        is_path = wanted.library.endswith(".py") or "/" in wanted.library
        library = user_module(wanted.library, is_path, base_dir)
        return library.module, library.base
    folder = os.path.abspath(base_dir or ".")
    loader.search(folder)
    try:
        module = loader.import_source(wanted.source, wanted.source_name, wanted.source_line)
        digest = loader.source_digest(wanted.source, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the source may raise SystemExit too
        raise _problem(wanted, error) from None
    return module, PythonFunction(
        "",
        "",
        source=wanted.source,
        source_name=wanted.source_name,
        source_line=wanted.source_line,
        digest=digest,
    )


def _problem(wanted: DeclaredFunction, error: BaseException) -> SourceProblem:
    """An error of the source with its place in the script."""
    if isinstance(error, SyntaxError) and error.filename == wanted.source_name:
        what = type(error).__name__ if type(error) is not SyntaxError else "syntax error"
        return SourceProblem(
            f"{what} in the source of {wanted.name}: {error.msg}",
            "P449",
            error.lineno,
            error.offset,
        )
    lines = [
        number
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == wanted.source_name and traces.SOURCE in frame.f_globals
    ]
    return SourceProblem(
        f"the source of {wanted.name} cannot be run: {traces.told(error)}",
        "N241",
        lines[-1] if lines else None,
        notes=traces.frames(error) if len(lines) > 1 else (),
    )


def _entry(wanted: DeclaredFunction, module: ModuleType) -> str:
    """The name of the function in its module."""
    home = wanted.library or "the source"
    known = public_callables(module)
    name = wanted.entry_point or wanted.name
    value: Any = getattr(module, name, None)
    if callable(value) and (not isinstance(value, type) or is_callable_class(value)):
        return name
    if wanted.entry_point:
        raise _no_entry(home, name, value, known)
    folded = [n for n in known if n.casefold() == name.casefold()]
    if len(folded) == 1:
        return folded[0]
    if len(known) == 1:
        return next(iter(known))
    if not known:
        raise BindError(
            f"{home} of {wanted.name} has no function" if not wanted.library
            else f"{home} has no public function",
            code="N203",
            hint=f"def {name}(..): ..",
        )  # fmt: skip
    raise BindError(
        f"it is not said which function of {home} {wanted.name} is",
        code="N203",
        hint=f"OPTIONS (entry_point = '{next(iter(known))}'), or give one the name {wanted.name}",
        notes=(f"functions there: {', '.join(known)}",),
    )


def _no_entry(home: str, name: str, value: Any, known: Mapping[str, Any]) -> BindError:
    message = f'{home} has no function "{name}"'
    if isinstance(value, type):
        message = f"{name} of {home} is a class without __call__: its objects cannot be called"
    return BindError(
        message,
        code="N203",
        hint=did_you_mean(nearest(name, known)),
        notes=(f"functions there: {', '.join(known)}",) if known else (),
    )
