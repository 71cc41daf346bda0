"""Exceptions of user code as text: type, message, and the user's own frames."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType, TracebackType
from typing import Any

from zql.execution.misfit import safe_text

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SOURCE = "__zql_source__"
"""The variable of a module that has its text, when that is part of a script."""
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
    return _users_own(traceback.walk_tb(error.__traceback__))


def stack_frames(frame: FrameType) -> tuple[str, ...]:
    """The user's own frames of a call that is under way, as `frames`."""
    return _users_own(reversed(list(traceback.walk_stack(frame))))


def _users_own(found: Iterable[tuple[FrameType, int]]) -> tuple[str, ...]:
    """Only the last are written out: a recursion has thousands, and each record may fail."""
    ours = _not_the_users()
    last: deque[list[Any]] = deque(maxlen=_MOST_FRAMES)
    for frame, number in found:
        code = frame.f_code
        if code.co_filename.startswith(ours):
            continue
        if last and last[-1][0] is code and last[-1][1] == number:
            last[-1][3] += 1
        else:
            last.append([code, number, frame.f_globals, 0])
    return tuple(_told_frame(*each) for each in last)


def _told_frame(code: CodeType, number: int, variables: Mapping[str, Any], again: int) -> str:
    text = f'File "{_shown(code.co_filename)}", line {number}, in {code.co_name}'
    source = _line(code.co_filename, number, variables)
    repeated = f" (and {again} more time{'s' * (again > 1)})" if again else ""
    return safe_text((f"{text}: {source}" if source else text) + repeated)


def source_lines(variables: Mapping[str, Any]) -> list[str] | None:
    """The lines of a module of these global variables, when its text is part of a script.

    Those before it are empty, so that lines have the script's numbers.
    """
    source = variables.get(SOURCE)
    return source.splitlines(keepends=True) if isinstance(source, str) else None


def _line(filename: str, number: int, variables: Mapping[str, Any]) -> str:
    try:
        lines = source_lines(variables)
        if lines is None:
            return linecache.getline(filename, number).strip()
        return lines[number - 1].strip() if number <= len(lines) else ""
    except Exception:  # noqa: BLE001 - a broken source file may not hide the error
        return ""


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
    return not filename.startswith(_not_the_users())


def _not_the_users() -> tuple[str, ...]:
    return (_OURS, "<frozen", "<string>", *_libraries())


def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    roots |= {p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}
    return tuple(root + os.sep for root in roots)


def _shown(filename: str) -> str:
    """Relative to where the user is, when it is below there."""
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative
