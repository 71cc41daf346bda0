"""Expressions as documents: the fewest parentheses, keywords in capitals.

Nodes are printed from the leaves up, each from the documents of its children: no recursion, so
depth does not matter. `parse(print(x)) == x` for whatever the parser can make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.keywords import is_keyword
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

_FORMS = frozenset({"try", "try_cast", "extract", "columns", "values"})
"""Names of functions that mean something else when they are not quoted."""

_LITERAL_TYPES = {
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
}


def string_text(value: str) -> str:
    """A string as ZQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def function_text(parts: tuple[str, ...], *, as_written: bool = False) -> str:
    """The name of a called function; a shouted one in lower case, as case means nothing there."""
    if len(parts) > 1:
        return path_text(parts)
    (name,) = parts
    if name.lower() in ("left", "right"):
        return name.lower()
    if name.lower() in _FORMS:
        return f'"{name}"'
    text = identifier_text(name)
    return text.lower() if text == name and name.isupper() and not as_written else text


def path_text(parts: tuple[str, ...]) -> str:
    """A dotted name; behind the first dot every word is a name."""
    first, *rest = parts
    return ".".join([identifier_text(first), *(identifier_text(r, any_word=True) for r in rest)])


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


# ---- names and literals ------------------------------------------------------------------------


@renders(ex.Name)
def _name(node: ex.Name, _: Texts) -> Doc:
    return path_text(node.parts)


@renders(ex.Column)
def _column(node: ex.Column, _: Texts) -> Doc:
    return identifier_text(node.name)


@renders(ex.Variable)
def _variable(node: ex.Variable, _: Texts) -> Doc:
    return identifier_text(node.name)


@renders(ex.Parameter)
def _parameter(node: ex.Parameter, _: Texts) -> Doc:
    return f"${node.name}"


@renders(ex.Literal)
def _literal(node: ex.Literal, _: Texts) -> Doc:
    value = node.value
    if isinstance(value, str) and node.type in _LITERAL_TYPES:
        return f"{_LITERAL_TYPES[node.type]} {string_text(value)}"
    if value is None:
        text = "NULL"
    elif isinstance(value, bool):
        text = "TRUE" if value else "FALSE"
    elif isinstance(value, str):
        text = string_text(value)
    elif isinstance(value, bytes):
        text = "CAST('" + "".join([f"\\x{byte:02X}" for byte in value]) + "' AS BLOB)"
    elif isinstance(value, int) or not node.text:
        text = str(value).lower()
    else:
        text = node.text.replace("_", "").lower()
    return f"CAST({text} AS {node.type})" if node.type else text


@renders(ex.Interval)
def _interval(node: ex.Interval, of: Texts) -> Doc:
    plain = isinstance(node.value, ex.Parameter) or (
        isinstance(node.value, ex.Literal)
        and not node.value.type
        and isinstance(node.value.value, str | int | Decimal)
        and not isinstance(node.value.value, bool)
        and level(node.value) == POSTFIX
    )
    value = of(node.value) if plain else block("(", of(node.value), ")")
    return ("INTERVAL ", value, f" {node.unit}" if node.unit else "")


# ---- operators ---------------------------------------------------------------------------------


@renders(ex.Unary)
def _unary(node: ex.Unary, of: Texts) -> Doc:
    if node.op == "NOT":
        return ("NOT ", of(node.operand, NOT))
    operand = of(node.operand, UNARY)
    # Two minus signs would begin a comment.
    return (node.op + " " if first_character(operand) in "+-~" else node.op, operand)


@renders(ex.Binary)
def _binary(node: ex.Binary, of: Texts) -> Doc:
    own = level(node)
    operator = (LINE, f"{node.op} ", of(node.right, own - 1))
    if own == COMPARISON or level(node.left) != own:
        return of.chain(node, of(node.left, own - 1 if own == COMPARISON else own), operator)
    first, rest = of.links(node.left, own)
    return of.chain(node, first, (rest, operator))


@renders(ex.Logical)
def _logical(node: ex.Logical, of: Texts) -> Doc:
    own = level(node)
    first, *others = [of(operand, own - 1) for operand in node.operands]
    return of.chain(node, first, tuple((LINE, f"{node.op} ", other) for other in others))


@renders(ex.Is)
def _is(node: ex.Is, of: Texts) -> Doc:
    words = f" IS {'NOT ' if node.negated else ''}{node.test}"
    if node.other is None:
        return (of(node.operand, IS), words)
    return (of(node.operand, IS), words, " FROM ", of(node.other, COMPARISON))


@renders(ex.Like)
def _like(node: ex.Like, of: Texts) -> Doc:
    words = f"{'NOT ' if node.negated else ''}{node.op} "
    pattern: Doc = (LINE, words, of(node.pattern, SYMBOL))
    if node.escape is not None:
        pattern = (pattern, " ESCAPE ", of(node.escape, SYMBOL))
    return group(of(node.operand, SYMBOL), indent(pattern))


@renders(ex.Between)
def _between(node: ex.Between, of: Texts) -> Doc:
    word = "NOT BETWEEN " if node.negated else "BETWEEN "
    bounds = (LINE, word, of(node.low, SYMBOL), " AND ", of(node.high, SYMBOL))
    return group(of(node.operand, SYMBOL), indent(bounds))


@renders(ex.In)
def _in(node: ex.In, of: Texts) -> Doc:
    word = " NOT IN " if node.negated else " IN "
    return (of(node.operand, SYMBOL), word, block("(", of.values(node.items), ")"))


@renders(ex.Subquery)
def _subquery(node: ex.Subquery, of: Texts) -> Doc:
    query = block("(", of(node.query), ")")
    if node.kind == "EXISTS":
        return ("EXISTS ", query)
    if node.operand is None:
        return query
    return (of(node.operand, SYMBOL), " NOT IN " if node.negated else " IN ", query)


@renders(ex.Collate)
def _collate(node: ex.Collate, of: Texts) -> Doc:
    name = identifier_text(node.collation, any_word=True)
    return (of(node.operand, ZONE), f" COLLATE {name}")


@renders(ex.AtTimeZone)
def _at_time_zone(node: ex.AtTimeZone, of: Texts) -> Doc:
    return (of(node.operand, ZONE), " AT TIME ZONE ", of(node.zone, POSTFIX))


# ---- forms -------------------------------------------------------------------------------------


@renders(ex.Case)
def _case(node: ex.Case, of: Texts) -> Doc:
    operand = (" ", of(node.operand)) if node.operand is not None else ""
    arms: list[Doc] = [
        (LINE, group("WHEN ", of(when), indent(LINE, "THEN ", of(then))))
        for when, then in node.whens
    ]
    if node.otherwise is not None:
        arms.append((LINE, "ELSE ", of(node.otherwise)))
    return group("CASE", operand, indent(*arms), LINE, "END")


@renders(ex.Cast)
def _cast(node: ex.Cast, of: Texts) -> Doc:
    if of.as_written and node.sign:
        return (of(node.operand, CAST_SIGN), f"::{node.type}")
    word = "TRY_CAST(" if node.safe else "CAST("
    return block(word, (of(node.operand), f" AS {node.type}"), ")")


@renders(ex.Try)
def _try(node: ex.Try, of: Texts) -> Doc:
    return block("TRY(", of(node.operand), ")")


@renders(ex.Extract)
def _extract(node: ex.Extract, of: Texts) -> Doc:
    return block("EXTRACT(", (f"{identifier_text(node.part)} FROM ", of(node.operand)), ")")


@renders(ex.Array)
def _array(node: ex.Array, of: Texts) -> Doc:
    return brackets("[", of.values(node.items), "]")


@renders(ex.Comprehension)
def _comprehension(node: ex.Comprehension, of: Texts) -> Doc:
    words = f"FOR {identifier_text(node.variable)} IN "
    content: Doc = (of(node.element), LINE, words, of(node.items))
    if node.condition is not None:
        content = (content, LINE, "IF ", of(node.condition))
    return block("[", content, "]")


@renders(ex.Struct)
def _struct(node: ex.Struct, of: Texts) -> Doc:
    entries = [
        (f"{identifier_text(key, any_word=True)}: ", of(value)) for key, value in node.entries
    ]
    return brackets("{", join((",", LINE), entries), "}")


@renders(ex.Map)
def _map(node: ex.Map, of: Texts) -> Doc:
    entries = [(of(key), ": ", of(value)) for key, value in node.entries]
    return brackets("MAP {", join((",", LINE), entries), "}")


@renders(ex.Row)
def _row(node: ex.Row, of: Texts) -> Doc:
    return block("(", of.list(node.items), ")")


@renders(ex.GroupingSets)
def _grouping_sets(node: ex.GroupingSets, of: Texts) -> Doc:
    sets = [
        of(items[0]) if len(items) == 1 else brackets("(", of.list(items), ")")
        for items in node.sets
    ]
    return ("GROUPING SETS ", block("(", join((",", LINE), sets), ")"))


def _receiver(node: ex.Expr, of: Texts) -> Doc:
    """What a dot may follow: a bare name would be read as a longer name, a number as another."""
    doc = of(node, POSTFIX)
    bare = isinstance(node, ex.Name | ex.Column | ex.Variable)
    number = isinstance(node, ex.Literal) and first_character(doc).isdecimal()
    return block("(", doc, ")") if bare or number else doc


@renders(ex.FieldAccess)
def _field(node: ex.FieldAccess, of: Texts) -> Doc:
    return (_receiver(node.operand, of), f".{identifier_text(node.field_name, any_word=True)}")


@renders(ex.Index)
def _index(node: ex.Index, of: Texts) -> Doc:
    return (of(node.operand, POSTFIX), block("[", of(node.index), "]"))


@renders(ex.Slice)
def _slice(node: ex.Slice, of: Texts) -> Doc:
    parts = [node.start, node.stop] + ([] if node.step is None else [node.step])
    docs = [of(part) if part is not None else "" for part in parts]
    # Spaces keep two colons from becoming the sign of a cast.
    inside = join(" ", [word for doc in docs for word in (":", doc) if word][1:])
    return (of(node.operand, POSTFIX), block("[", inside, "]"))


# ---- calls and windows -------------------------------------------------------------------------


@renders(ex.NamedArgument)
def _named_argument(node: ex.NamedArgument, of: Texts) -> Doc:
    return (f"{identifier_text(node.name, any_word=True)} => ", of(node.value))


@renders(ex.Lambda)
def _lambda(node: ex.Lambda, of: Texts) -> Doc:
    parameters = ", ".join([identifier_text(name, any_word=True) for name in node.parameters])
    return (f"LAMBDA {parameters}: ", of(node.body))


@renders(ex.Method)
def _method(node: ex.Method, of: Texts) -> Doc:
    name = identifier_text(node.name, any_word=True)
    return (_receiver(node.receiver, of), brackets(f".{name}(", of.list(node.args), ")"))


@renders(ex.Call)
def _call(node: ex.Call, of: Texts) -> Doc:
    inside: Doc = "*" if node.star else of.list(node.args)
    if node.distinct:
        inside = ("DISTINCT ", inside)
    if node.order:
        inside = (inside, LINE, clause("ORDER BY", of.list(node.order)))
    if node.ignore_nulls is not None:
        inside = (inside, " IGNORE NULLS" if node.ignore_nulls else " RESPECT NULLS")
    name = function_text(node.name, as_written=of.as_written)
    doc = brackets(f"{name}(", inside, ")")
    if node.within_group:
        keys = clause("ORDER BY", of.list(node.within_group))
        doc = (doc, " WITHIN GROUP ", block("(", keys, ")"))
    if node.filter is not None:
        doc = (doc, " FILTER ", block("(", ("WHERE ", of(node.filter)), ")"))
    return (doc, " OVER ", _over(node.window, of)) if node.window is not None else doc


def _over(window: ex.Window, of: Texts) -> Doc:
    if window.name and not (window.partition or window.order or window.frame):
        return identifier_text(window.name)
    return brackets("(", of(window), ")")


@renders(ex.Window)
def _window(node: ex.Window, of: Texts) -> Doc:
    parts: list[Doc] = []
    if node.name:
        parts.append(f'"{node.name}"' if is_keyword(node.name) else identifier_text(node.name))
    if node.partition:
        parts.append(clause("PARTITION BY", of.list(node.partition)))
    if node.order:
        parts.append(clause("ORDER BY", of.list(node.order)))
    if node.frame:
        parts.append(node.frame)
    return join(LINE, parts)


@renders(ex.SortKey)
def _sort_key(node: ex.SortKey, of: Texts) -> Doc:
    return (of(node.expr), (" DESC" if node.descending else "") + nulls_text(node.nulls_first))


def nulls_text(nulls_first: bool | None) -> str:
    """The words for where NULLs go; none when nothing was written."""
    if nulls_first is None:
        return ""
    return " NULLS FIRST" if nulls_first else " NULLS LAST"


# ---- select lists ------------------------------------------------------------------------------


@renders(ex.Columns)
def _columns(node: ex.Columns, _: Texts) -> Doc:
    return f"COLUMNS({string_text(node.pattern)})"


@renders(ex.Star)
def _star(node: ex.Star, of: Texts) -> Doc:
    if node.qualifier is None:
        doc: Doc = "*"
    elif isinstance(node.qualifier, ex.Name):
        doc = (of(node.qualifier), ".*")
    else:
        doc = (_receiver(node.qualifier, of), ".*")
    if node.exclude:
        doc = (doc, " EXCLUDE ", names_in_brackets([column_text(n) for n in node.exclude]))
    if node.replace:
        pairs: list[Doc] = [(of(expr), f" AS {column_text(name)}") for expr, name in node.replace]
        doc = (doc, " REPLACE ", block("(", join((",", LINE), pairs), ")"))
    if node.rename:
        names = [f"{column_text(old)} AS {column_text(new)}" for old, new in node.rename]
        doc = (doc, " RENAME ", names_in_brackets(names))
    return doc


def names_in_brackets(texts: Iterable[str]) -> Doc:
    """`(a, b)`, broken between the names when it does not fit."""
    return block("(", join((",", LINE), texts), ")")


def any_name(name: ast.Identifier) -> str:
    """A name where every word is one."""
    return identifier_text(name.text, any_word=True)


def as_alias(alias: ast.Identifier | None) -> str:
    """` AS name`, or nothing."""
    return f" AS {any_name(alias)}" if alias else ""


def names(names: tuple[ast.Identifier, ...]) -> Doc:
    """`(a, b)`, or nothing when there are none."""
    return names_in_brackets([any_name(name) for name in names]) if names else ""


def column_text(name: ex.Name) -> str:
    """A column where every word is one: in SET, DROP, RENAME and the lists behind a star."""
    return ".".join([identifier_text(part, any_word=True) for part in name.parts])
