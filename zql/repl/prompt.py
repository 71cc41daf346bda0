"""Reading one input from a terminal: lines, colours, history, Tab, and when Enter means run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zql.repl.commands import is_command
from zql.repl.scan import place_at_end

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT = "zql> "
MORE = "...> "


def is_finished(text: str, is_complete: Callable[[str], bool]) -> bool:
    """Whether Enter behind the text runs it.

    A dot command is one line; the parser's `is_complete` knows `;` and the empty line. A second
    empty line ends anything but an open quote or comment: an error then tells what is missing.
    """
    stripped = text.strip()
    if not stripped or is_command(stripped):
        return True
    if is_complete(text + "\n"):
        return True
    return text.endswith("\n\n") and not place_at_end(text).inside


def open_history() -> History:
    """The history of former sessions, for this user only; in memory when there is no place."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = os.environ.get("ZQL_HISTORY")
    if path is None:
        from platformdirs import user_state_dir

        path = os.path.join(user_state_dir("zql", appauthor=False), "history")
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _bindings(is_complete: Callable[[str], bool]) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        behind = buffer.document.text_after_cursor.strip()
        if chosen:
            buffer.apply_completion(chosen)
        elif not behind and is_finished(buffer.document.text_before_cursor, is_complete):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _alt_enter(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def open_prompt(
    completer: Completer, is_complete: Callable[[str], bool], *, color: bool
) -> PromptSession[str]:
    """The prompt; `prompt()` gives a text, raises KeyboardInterrupt (Ctrl-C), EOFError (Ctrl-D)."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.lexers import PygmentsLexer
    from prompt_toolkit.output import ColorDepth

    from zql.syntax.lexer import ZqlLexer

    more: dict[str, Any] = {} if color else {"color_depth": ColorDepth.DEPTH_1_BIT}
    return PromptSession(
        PROMPT,
        multiline=True,
        # A line that is only too long for the terminal is no line of its own.
        prompt_continuation=lambda width, _, wrapped: " " * width if wrapped else MORE,
        lexer=PygmentsLexer(ZqlLexer) if color else None,
        completer=completer,
        complete_while_typing=False,
        history=open_history(),
        key_bindings=_bindings(is_complete),
        **more,
    )
