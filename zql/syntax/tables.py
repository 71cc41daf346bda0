"""The grammar as parse tables: built once by Lark, then kept as plain JSON.

The only module that knows Lark, and it imports Lark only when no built tables are found. They are
looked for beside the grammar (a wheel ships them) and in the user's cache folder; a file whose key
is not the hash of the grammar in use is passed over. The tables are numbers and words, never
code, and still a file that another user could have written is not read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

STARTS = ("statement", "expression")
ACCEPT = 0

Rule = tuple[int, int, str, tuple[tuple[int, int], ...]]
"""Left side, length, action, and (place, `VALUE` | `TOKEN` | `SPLICE`) of each kept symbol."""

VALUE, TOKEN, SPLICE = 0, 1, 2
PASS, LIST, WORDS = "=", "*", "!"
"""Actions that need no method: hand on the only value; collect the values for the rule above; and,
before the rule's name, join the words unless there is a method of that name."""


class Tables:
    """LALR tables. A state's row maps a terminal to `ACCEPT`, to a shift (`state + 1`) or to a
    reduction (`-rule - 1`); rows are unpacked when first used, as a script visits few states.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.terminals: list[str] = data["terminals"]
        self.number: dict[str, int] = {name: i for i, name in enumerate(self.terminals)}
        self.patterns: list[tuple[str, str]] = [tuple(p) for p in data["patterns"]]
        self.signs: dict[str, str] = data["signs"]
        self.ignored: frozenset[str] = frozenset(data["ignored"])
        self.starts: dict[str, int] = data["starts"]
        self.first: dict[str, list[int]] = data["first"]
        self.origins: list[str] = data["origins"]
        self.rules: list[Rule] = [
            (lhs, size, action, tuple((at, kind) for at, kind in kept))
            for lhs, size, action, kept in data["rules"]
        ]
        self._packed_rows: list[str] = data["rows"]
        self._packed_gotos: list[str] = data["gotos"]
        self._rows: dict[int, dict[int, int]] = {}
        self._gotos: dict[int, dict[int, int]] = {}
        self._shortcuts: dict[tuple[int, int, int], int] = {}

    def row(self, state: int) -> dict[int, int]:
        """Actions of a state by terminal."""
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = _unpack(self._packed_rows[state])
        return row

    def goto(self, state: int) -> dict[int, int]:
        """The next state by the left side of the rule just reduced."""
        row = self._gotos.get(state)
        if row is None:
            row = self._gotos[state] = _unpack(self._packed_gotos[state])
        return row

    def climb(self, below: int, state: int, terminal: int) -> int:
        """The state that a chain of reductions by rules that only pass a value on ends in.

        An operand climbs through every level of the expression grammar: walked once, then known.
        """
        known = self._shortcuts.get((below, state, terminal))
        if known is not None:
            return known
        top = state
        while True:
            action = self.row(top).get(terminal)
            if action is None or action >= 0:
                break
            lhs, size, name, _ = self.rules[-action - 1]
            if size != 1 or name != PASS:
                break
            top = self.goto(below)[lhs]
        self._shortcuts[below, state, terminal] = top
        return top


def _unpack(packed: str) -> dict[int, int]:
    numbers = [int(number) for number in packed.split()]
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def _pack(row: dict[int, int]) -> str:
    return " ".join(f"{key} {value}" for key, value in sorted(row.items()))


# ---- finding them ------------------------------------------------------------------------------


def grammar_path() -> Path:
    """`zql.lark`: inside the package in a wheel, beside it in a checkout or editable install."""
    inside = Path(__file__).parents[1] / "grammar" / "zql.lark"
    return inside if inside.exists() else Path(__file__).parents[2] / "grammar" / "zql.lark"


@cache
def load() -> Tables:
    """The tables of the grammar, from a file where one fits, else built and kept for next time."""
    path = grammar_path()
    text = path.read_bytes()
    key = _key(text)
    shipped = _read_shipped(key)
    if shipped is not None:
        return Tables(shipped)
    # Here and not above: the build of a wheel runs this file without the package around it.
    from zql.user_cache import read_cached, write_cached

    name = f"grammar-{key[:16]}.json"
    found = _checked(read_cached(name), key)
    if found is None:
        found = build(text.decode())
        write_cached(
            name, json.dumps(found, separators=(",", ":")).encode(), instead_of="grammar-*.json"
        )
    return Tables(found)


def _key(grammar: bytes) -> str:
    """What tables depend on: the grammar, and how this module makes tables of one."""
    return hashlib.sha256(Path(__file__).read_bytes() + grammar).hexdigest()


def _read_shipped(key: str) -> dict[str, Any] | None:
    path = grammar_path().with_suffix(".json")
    return _checked(path.read_bytes(), key) if path.exists() else None


def _checked(text: bytes | None, key: str) -> dict[str, Any] | None:
    """Stored tables, when they can be read and are those of the grammar in use."""
    try:
        data = json.loads(text or b"")
    except ValueError:
        return None
    return data if isinstance(data, dict) and data.get("key") == key else None


# ---- building them -----------------------------------------------------------------------------


def build(grammar: str) -> dict[str, Any]:
    """Lark's tables for a grammar, as JSON data; takes a second or two."""
    from lark import Lark

    lark = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS), maybe_placeholders=False)
    table = lark.parser.parser._parse_table  # noqa: SLF001
    with_text = {t.name for t in lark.terminals if type(t.pattern).__name__ == "PatternRE"}
    rules = list(lark.rules)
    places = {rule: at for at, rule in enumerate(rules)}
    used = {key for row in table.states.values() for key in row}
    nonterminals = {str(rule.origin.name): at for at, rule in enumerate(rules)}
    terminals = ["$END", *sorted(str(k) for k in used if k not in nonterminals and k != "$END")]
    number = {name: at for at, name in enumerate(terminals)}
    lhs = {name: at for at, name in enumerate(dict.fromkeys(str(r.origin.name) for r in rules))}
    rows, gotos = [], []
    for state in range(len(table.states)):
        row, goto = {}, {}
        for name, (action, target) in table.states[state].items():
            if str(name) in lhs:
                goto[lhs[str(name)]] = target
            elif action.name == "Shift":
                row[number[str(name)]] = target + 1
            elif target in places:
                row[number[str(name)]] = -places[target] - 1
        rows.append(row)
        gotos.append(goto)
    for state in table.end_states.values():
        rows[state] = {number["$END"]: ACCEPT}
    return {
        "key": _key(grammar.encode()),
        "terminals": terminals,
        "patterns": _patterns(lark.terminals),
        "signs": {str(t.name): t.pattern.value for t in lark.terminals if t.name not in with_text},
        "ignored": [str(name) for name in lark.ignore_tokens],
        "starts": {str(start): state for start, state in table.start_states.items()},
        "first": {
            name: sorted(number[t] for t in found) for name, found in _first_sets(rules).items()
        },
        "origins": [str(rule.origin.name) for rule in rules],
        "rules": [_rule(rule, lhs, with_text) for rule in rules],
        "rows": [_pack(row) for row in rows],
        "gotos": [_pack(goto) for goto in gotos],
    }


def _patterns(terminals: Collection[Any]) -> list[tuple[str, str]]:
    """Name and regular expression of each matched terminal in the order to try them."""
    matched = sorted(
        terminals,
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
    )
    return [(str(t.name), t.pattern.to_regexp()) for t in matched]


def _rule(rule: Any, lhs: dict[str, int], with_text: set[str]) -> list[Any]:
    name = str(rule.origin.name)
    kept: list[tuple[int, int]] = []
    for at, symbol in enumerate(rule.expansion):
        if not symbol.is_term:
            kept.append((at, SPLICE if symbol.name.startswith("_") else VALUE))
        elif rule.options.keep_all_tokens or symbol.name in with_text:
            kept.append((at, TOKEN))
    only = len(kept) == 1 and kept[0][1] == VALUE
    if name.startswith("_"):
        action = LIST
    elif rule.alias is None and rule.options.expand1 and only:
        action = PASS
    elif rule.alias is None and rule.options.keep_all_tokens:
        action = WORDS + name
    else:
        action = str(rule.alias or name)
    return [lhs[name], len(rule.expansion), action, kept]


def _first_sets(rules: list[Any]) -> dict[str, set[str]]:
    """The terminals that can begin each rule; none of the rules asked for is empty."""
    first: dict[str, set[str]] = {str(rule.origin.name): set() for rule in rules}
    empty = {str(rule.origin.name) for rule in rules if not rule.expansion}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            name = str(rule.origin.name)
            before = len(first[name])
            for symbol in rule.expansion:
                first[name] |= {str(symbol.name)} if symbol.is_term else first[str(symbol.name)]
                if symbol.is_term or symbol.name not in empty:
                    break
            else:
                changed = changed or name not in empty
                empty.add(name)
            changed = changed or len(first[name]) != before
    return first
