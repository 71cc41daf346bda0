"""Exceptions of user code as text: type, message, and the user's own frames."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from types import TracebackType

from zql.execution.misfit import safe_text

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_FRAMES = 12
_MOST_TEXT = 2000


def told(error: BaseException) -> str:
    """`ValueError: bad` on one or more lines; never raises, whatever the exception is."""
    name = type(error).__name__
    try:
        if isinstance(error, SyntaxError):
            text = "".join(traceback.format_exception_only(error)).rstrip()
        else:
            message = str(error)
            text = f"{name}: {message}" if message else name
    except Exception as inner:  # noqa: BLE001 - the user's __str__ may do anything
        text = f"{name} (its text cannot be made: {type(inner).__name__})"
    return safe_text(text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "...")


def frames(error: BaseException) -> tuple[str, ...]:
    """The user's own frames, outermost first, as Python prints them; libraries are left out."""
    return shown_frames(_summaries(error.__traceback__))


def shown_frames(summaries: Iterable[traceback.FrameSummary]) -> tuple[str, ...]:
    """The user's own among frames, as text."""
    found = [f for f in summaries if is_users(f.filename)]
    lines = []
    for frame in found[-_MOST_FRAMES:]:
        text = f'File "{_shown(frame.filename)}", line {frame.lineno}, in {frame.name}'
        source = linecache.getline(frame.filename, frame.lineno or 0).strip()
        lines.append(safe_text(f"{text}: {source}" if source else text))
    return tuple(lines)


def all_frames(error: BaseException) -> tuple[str, ...]:
    """The last frames of all code, for what should not have happened."""
    found = _summaries(error.__traceback__)[-_MOST_FRAMES:]
    return tuple(f'File "{f.filename}", line {f.lineno}, in {f.name}' for f in found)


def _summaries(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    try:
        return list(traceback.extract_tb(trace))
    except Exception:  # noqa: BLE001 - a broken source file may not hide the error
        return []


def is_users(filename: str) -> bool:
    """Whether a file is neither of this package nor of a library."""
    return not filename.startswith((_OURS, "<frozen", *_libraries()))


def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    roots |= {p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}
    return tuple(root + os.sep for root in roots)


def _shown(filename: str) -> str:
    """Relative to where the user is, when it is below there."""
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative
