r"""`match_what_changes`: regexp_replace of runs by one of their characters matches long runs only.

`regexp_replace(x, '\s+', ' ', 'g')` matches each single space and puts a space there: in prose, a
hundred matches where one changes something, and each costs more than the characters between them.
Instead every other character of the class becomes a space first (`replace_characters` makes that
cheap), and then only `  +` is left to be matched. The text is the same: a run of the class is then
a run of spaces.
"""

from __future__ import annotations

import re

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import Node, rewrite_up

_RUN = re.compile(r"(\\s|[ ]|\[(?:\\[stnrfv]|[ ])+\])\+\Z")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f", "\\v": "\v", "\\s": "\t\n\f\r "}
_WRITTEN = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\v": "\\v", " ": " "}
_CONSTANTS = 3


def match_what_changes(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with such calls replaced."""
    replaced: lp.LogicalPlan = rewrite_up(plan, _replaced)
    return replaced


def _replaced(node: Node) -> Node:
    if not isinstance(node, ex.Call) or [n.lower() for n in node.name] != ["regexp_replace"]:
        return node
    text, *constants = node.args
    values = [a.value for a in constants if isinstance(a, ex.Literal) and not a.type]
    if len(constants) != _CONSTANTS or len(values) != _CONSTANTS or values[2] != "g":
        return node
    run = _characters_of_run(values[0])
    instead = values[1]
    if instead not in run:
        return node
    others = "".join(c for c in run if c != instead)
    if others:
        instead_of_each = ex.Literal(instead * len(others))
        text = ex.Call(("translate",), (text, ex.Literal(others), instead_of_each))
    pattern = _WRITTEN[instead] * 2 + "+"
    args = (text, ex.Literal(pattern), *constants[1:])
    return ex.Call(node.name, args, span=node.span)


def _characters_of_run(pattern: object) -> tuple[str, ...]:
    """The characters of which a pattern matches runs; none when it does not."""
    found = _RUN.match(pattern) if isinstance(pattern, str) else None
    if found is None:
        return ()
    items = re.findall(r"\\.|[ ]", found[1])
    return tuple(dict.fromkeys("".join(_ESCAPES.get(item, item) for item in items)))
