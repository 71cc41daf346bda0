"""What the printers of nodes share: names as text, levels of binding, documents printed so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.layout import LINE, Doc, block, fill, group, indent, items_of, join
from zql.syntax.names import identifier_text
from zql.tree import Node

N = TypeVar("N", bound=Node)

# Levels of binding, tightest first; they are the numbers of the grammar's layers.
# (`x::type` is a postfix, but nothing like `[1]` may follow its type.)
POSTFIX, CAST_SIGN, ZONE, UNARY, POWER, PRODUCT, SUM = range(1, 8)
SYMBOL, RANGE, COMPARISON, IS, NOT, AND, OR = range(8, 15)

_BINARY = {
    **dict.fromkeys(("**", "^"), POWER),
    **dict.fromkeys(("*", "/", "//", "%"), PRODUCT),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), COMPARISON),
}


def string_text(value: str) -> str:
    """A string as ZQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def source_text(source: str) -> str:
    """Source of another language in dollars, as it stands; their tag is one that it lacks."""
    for number in count():
        mark = f"$source{number}$" if number else "$$"
        if (source + mark).index(mark) == len(source):
            return f"{mark}{source}{mark}"
    raise AssertionError  # pragma: no cover - numbers do not end


def path_text(parts: tuple[str, ...]) -> str:
    """A dotted name; behind the first dot every word is a name."""
    first, *rest = parts
    return ".".join([identifier_text(first), *(identifier_text(r, any_word=True) for r in rest)])


def column_text(name: ex.Name) -> str:
    """A column where every word is one: in SET, DROP, RENAME and the lists behind a star."""
    return ".".join([identifier_text(part, any_word=True) for part in name.parts])


def any_name(name: ast.Identifier) -> str:
    """A name where every word is one."""
    return identifier_text(name.text, any_word=True)


def as_alias(alias: ast.Identifier | None) -> str:
    """` AS name`, or nothing."""
    return f" AS {any_name(alias)}" if alias else ""


def nulls_text(nulls_first: bool | None) -> str:
    """The words for where NULLs go; none when nothing was written."""
    if nulls_first is None:
        return ""
    return " NULLS FIRST" if nulls_first else " NULLS LAST"


def names(names: tuple[ast.Identifier, ...]) -> Doc:
    """`(a, b)`, or nothing when there are none."""
    return names_in_brackets([any_name(name) for name in names]) if names else ""


def names_in_brackets(texts: Iterable[str]) -> Doc:
    """`(a, b)`, broken between the names when it does not fit."""
    return block("(", join((",", LINE), texts), ")")


def level(node: Node) -> int:
    """How tightly the outermost operator of an expression binds."""
    match node:
        case ex.Logical(op):
            return OR if op == "OR" else AND
        case ex.Unary(op):
            return NOT if op == "NOT" else UNARY
        case ex.Binary(op):
            return _BINARY.get(op, SYMBOL)
        case ex.Is():
            return IS
        case ex.Like() | ex.Between() | ex.In() | ex.Subquery(kind="IN"):
            return RANGE
        case ex.Collate() | ex.AtTimeZone():
            return ZONE
        case ex.Literal(value=int() | Decimal() as number) if number < 0:
            return UNARY
    return POSTFIX


class Texts:
    """The documents of the nodes printed so far.

    `as_written` keeps what the tree knows of the author's spelling: parentheses around operands,
    `::`, the case of functions. Without it the text is canonical.
    """

    def __init__(self, *, as_written: bool = False) -> None:
        self.as_written = as_written
        self._by_node: dict[int, Doc] = {}
        self._chains: dict[int, tuple[Doc, Doc]] = {}

    def add(self, node: Node) -> None:
        """Print a node whose children have been printed."""
        self._by_node[id(node)] = RENDERERS[type(node)](node, self)

    def __call__(self, node: Node, loosest: int = OR) -> Doc:
        """The document of a node, in parentheses when it binds more loosely than asked."""
        doc = self._by_node[id(node)]
        if not self._is_wrapped(node, loosest):
            return doc
        first, rest = self._chains.get(id(node), (doc, ""))
        return block("(", (first, rest), ")")

    def _is_wrapped(self, node: Node, loosest: int) -> bool:
        own = level(node)
        if self.as_written and isinstance(node, ex.Expr):
            if isinstance(node, ex.Cast) and node.sign:
                own = CAST_SIGN
            if node.parenthesized and own > POSTFIX and loosest < OR:
                return True
        return own > loosest

    def chain(self, node: Node, first: Doc, rest: Doc) -> Doc:
        """Operands behind each other; what a longer chain makes of them is up to that one."""
        self._chains[id(node)] = first, rest
        return group(first, indent(rest))

    def links(self, node: Node, loosest: int = OR) -> tuple[Doc, Doc]:
        """The first link of a chain and the others, or all of what is no chain and nothing."""
        if id(node) in self._chains and not self._is_wrapped(node, loosest):
            return self._chains[id(node)]
        return self(node, loosest), ""

    def list(self, nodes: Iterable[Node]) -> Doc:
        """Documents with commas between."""
        return join((",", LINE), [self(node) for node in nodes])

    def values(self, nodes: tuple[Node, ...]) -> Doc:
        """As `list`, but constants share lines."""
        if nodes and all(isinstance(node, ex.Literal) for node in nodes):
            return fill([self(node) for node in nodes])
        return self.list(nodes)


Renderer = Callable[[Any, Texts], Doc]
RENDERERS: dict[type[Node], Renderer] = {}


def renders(kind: type[N]) -> Callable[[Callable[[N, Texts], Doc]], Callable[[N, Texts], Doc]]:
    """Register what prints the nodes of a class."""

    def register(function: Callable[[N, Texts], Doc]) -> Callable[[N, Texts], Doc]:
        RENDERERS[kind] = function
        return function

    return register


def brackets(opening: str, content: Doc, closing: str) -> Doc:
    """As `block`; nothing between them stays nothing."""
    return block(opening, content, closing) if content else opening + closing


def clause(words: Doc, content: Doc) -> Doc:
    """A keyword and its list, which stands below when it does not fit."""
    return group(words, indent(LINE, content))


def first_character(doc: Doc) -> str:
    """What the text of a document begins with."""
    return next(item[0] for item in items_of(doc) if isinstance(item, str))
