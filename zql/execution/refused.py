"""Failures of calls that are no exceptions of the function itself, as exceptions."""

from __future__ import annotations


class RefusedCallError(Exception):
    """What a function did not raise, and is told in the same place: with its own code and hint.

    `message` goes on after the function's name, as that of a `CallError`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        frames: tuple[str, ...] = (),
        *,
        fatal: bool = False,
    ) -> None:
        """`frames` are the user's, when they are no longer in a traceback; a `fatal` one is of all
        calls, and ends the run whatever ON ERROR says.
        """
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.frames = frames
        self.fatal = fatal


def took_too_long(seconds: float, frames: tuple[str, ...] = ()) -> RefusedCallError:
    """A call that was ended at its limit."""
    return RefusedCallError(
        "R729",
        f"raised TimeoutError: no result after {shown_seconds(seconds)}",
        "raise the limit (timeout), or let such rows go: ON ERROR SKIP",
        frames,
    )


def shown_seconds(seconds: float) -> str:
    """A time for people: `10 s`, `250 ms`."""
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
