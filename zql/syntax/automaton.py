"""The machine that runs LALR tables over tokens. Knows no grammar and no AST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zql.source import Source, Span
from zql.syntax.tables import ACCEPT, LIST, PASS, SPLICE, TOKEN, WORDS, Tables

Actions = Sequence[Callable[..., Any] | None]
"""By rule: what makes the value of its left side from a span and the values of its kept symbols."""


WORDS_METHOD = "words"
"""The action of rules that are fixed phrases."""


class Token(NamedTuple):
    """A token as the actions see it."""

    text: str
    span: Span


class Rejected(Exception):  # noqa: N818 - never leaves this package
    """No rule fits: the states on the stack, and the place of the token in the list."""

    def __init__(self, states: list[int], at: int) -> None:
        super().__init__(at)
        self.states = states
        self.at = at


def bind_actions(tables: Tables, builder: object) -> Actions:
    """The method of `builder` for each rule; None where the machine needs none.

    Raises AttributeError for a rule without a method: a mistake in the grammar.
    """
    actions: list[Callable[..., Any] | None] = []
    words = getattr(builder, WORDS_METHOD)
    for _, _, action, _ in tables.rules:
        if action in (PASS, LIST):
            actions.append(None)
        elif action[0] == WORDS:
            actions.append(getattr(builder, action[1:], words))
        else:
            actions.append(getattr(builder, action))
    return actions


def run(  # noqa: PLR0915 - one loop, which all parsing runs through
    tables: Tables,
    actions: Actions,
    source: Source,
    tokens: tuple[Sequence[int], Sequence[int], Sequence[int]],
    start: str,
) -> Any:
    """The value of the start rule over tokens (kinds, starts, ends; the last one is the end mark).

    Raises Rejected at the first token that cannot stand where it stands. Never recurses.
    """
    kinds, starts, ends = tokens
    text = source.text
    rules, row_of, goto_of = tables.rules, tables.row, tables.goto
    states: list[int] = [tables.starts[start]]
    values: list[Any] = []
    froms: list[int] = []
    tos: list[int] = []
    at = 0
    while True:
        action = row_of(states[-1]).get(kinds[at])
        if action is None:
            raise Rejected(states, at)
        if action > 0:
            states.append(action - 1)
            values.append(at)
            froms.append(starts[at])
            tos.append(ends[at])
            at += 1
            continue
        if action == ACCEPT:
            return values[-1]
        lhs, size, name, kept = rules[-action - 1]
        if size == 0:
            # Nothing was written: it begins at the next token and ends with the last one.
            froms.append(starts[at])
            tos.append(tos[-1] if tos else starts[at])
            args: list[Any] = []
        elif size == 1 and name == PASS:
            states[-1] = tables.climb(states[-2], states[-1], kinds[at])
            continue
        else:
            base = len(values) - size
            args = []
            for place, kind in kept:
                value = values[base + place]
                if kind == TOKEN:
                    token = Span(source, starts[value], ends[value])
                    args.append(Token(text[token.start : token.end], token))
                elif kind == SPLICE:
                    # Left-recursive lists grow in place, or a long one would cost its square.
                    if args:
                        args += value
                    else:
                        args = value
                else:
                    args.append(value)
            tos[base] = tos[-1]
            if size > 1:
                del froms[base + 1 :], tos[base + 1 :]
            del values[base:], states[base + 1 :]
        if name == LIST:
            values.append(args)
        elif name == PASS:
            values.append(args[0])
        else:
            make = actions[-action - 1]
            values.append(make(Span(source, froms[-1], tos[-1]), *args))  # type: ignore[misc]
        states.append(goto_of(states[-1])[lhs])


def accepts(tables: Tables, states: Sequence[int]) -> dict[int, int]:
    """The terminals that can come next, exactly, each with the state that it leads to.

    A row alone says too much: it reduces on tokens that fail later. For the end mark the state
    is -1.
    """
    found = {}
    for terminal in tables.row(states[-1]):
        stack = list(states)
        while True:
            action = tables.row(stack[-1]).get(terminal)
            if action is None:
                break
            if action >= 0:
                found[terminal] = action - 1
                break
            lhs, size, _, _ = tables.rules[-action - 1]
            if size:
                del stack[-size:]
            stack.append(tables.goto(stack[-1])[lhs])
    return found


def states_after(tables: Tables, kinds: Sequence[int], start: str) -> list[int]:
    """The stack of states behind a list of tokens; raises Rejected."""
    states = [tables.starts[start]]
    for at, kind in enumerate(kinds):
        while True:
            action = tables.row(states[-1]).get(kind)
            if action is None or action == ACCEPT:
                raise Rejected(states, at)
            if action > 0:
                states.append(action - 1)
                break
            lhs, size, _, _ = tables.rules[-action - 1]
            if size:
                del states[-size:]
            states.append(tables.goto(states[-1])[lhs])
    return states
