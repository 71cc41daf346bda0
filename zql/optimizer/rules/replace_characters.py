"""`replace_characters`: translate() of a few constant characters becomes replace() of each.

DuckDB's translate looks every character of a text up in a table; its replace searches for bytes,
which takes a tenth of the time. One character after the other gives the same text when none becomes
one that is replaced later. Many characters are left alone: each is a pass over the text.
"""

from __future__ import annotations

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import Node, rewrite_up

_MOST = 6
_ARGUMENTS = 3


def replace_characters(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with such calls replaced."""
    replaced: lp.LogicalPlan = rewrite_up(plan, _replaced)
    return replaced


def _replaced(node: Node) -> Node:
    if not isinstance(node, ex.Call) or [n.lower() for n in node.name] != ["translate"]:
        return node
    pairs = _pairs(node.args[1:]) if len(node.args) == _ARGUMENTS else None
    if not pairs or not isinstance(node.args[0], ex.Expr):
        return node
    text = node.args[0]
    for before, after in pairs:
        args = (text, _character(before), _character(after))
        text = ex.Call(("replace",), args, span=node.span)
    return text


def _character(text: str) -> ex.Expr:
    """A character, or none, such that those who read the SQL can see it."""
    shown = text.isprintable() or not text
    return ex.Literal(text) if shown else ex.Call(("chr",), (ex.Literal(ord(text)),))


def _pairs(args: tuple[Node, ...]) -> list[tuple[str, str]] | None:
    """What each character becomes, in an order in which one after the other will do."""
    texts = [a.value for a in args if isinstance(a, ex.Literal) and isinstance(a.value, str)]
    if len(texts) != len(args):
        return None
    before, after = texts
    wanted: dict[str, str] = {}
    for i, character in enumerate(before):
        wanted.setdefault(character, after[i : i + 1])
    pairs = [(b, a) for b, a in wanted.items() if a != b]
    made = {a for _, a in pairs}
    if len(pairs) > _MOST or made & {b for b, _ in pairs}:
        return None
    return pairs
