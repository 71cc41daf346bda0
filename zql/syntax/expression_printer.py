"""Expressions as canonical text: the fewest parentheses, keywords in capitals.

Nodes are printed from the leaves up, each from the texts of its children: no recursion, so depth
does not matter. `parse(print(x)) == x` for whatever the parser can make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

from zql.expr import expression as ex
from zql.syntax.keywords import is_keyword
from zql.syntax.names import identifier_text
from zql.tree import Node

N = TypeVar("N", bound=Node)

# Levels of binding, tightest first; they are the numbers of the grammar's layers.
POSTFIX, ZONE, UNARY, POWER, PRODUCT, SUM, SYMBOL, RANGE, COMPARISON, IS, NOT, AND, OR = range(
    1, 14
)

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


def function_text(parts: tuple[str, ...]) -> str:
    """The name of a called function; a shouted one in lower case, as case means nothing there."""
    if len(parts) > 1:
        return path_text(parts)
    (name,) = parts
    if name.lower() in ("left", "right"):
        return name.lower()
    if name.lower() in _FORMS:
        return f'"{name}"'
    text = identifier_text(name)
    return text.lower() if text == name and name.isupper() else text


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
    """The texts of the nodes printed so far."""

    def __init__(self) -> None:
        self._by_node: dict[int, str] = {}

    def add(self, node: Node) -> None:
        """Print a node whose children have been printed."""
        self._by_node[id(node)] = RENDERERS[type(node)](node, self)

    def __call__(self, node: Node, loosest: int = OR) -> str:
        """The text of a node, in parentheses when it binds more loosely than asked."""
        text = self._by_node[id(node)]
        return f"({text})" if level(node) > loosest else text

    def list(self, nodes: Iterable[Node]) -> str:
        """Texts with commas between."""
        return ", ".join([self(node) for node in nodes])


Renderer = Callable[[Any, Texts], str]
RENDERERS: dict[type[Node], Renderer] = {}


def renders(kind: type[N]) -> Callable[[Callable[[N, Texts], str]], Callable[[N, Texts], str]]:
    """Register what prints the nodes of a class."""

    def register(function: Callable[[N, Texts], str]) -> Callable[[N, Texts], str]:
        RENDERERS[kind] = function
        return function

    return register


# ---- names and literals ------------------------------------------------------------------------


@renders(ex.Name)
def _name(node: ex.Name, _: Texts) -> str:
    return path_text(node.parts)


@renders(ex.Column)
def _column(node: ex.Column, _: Texts) -> str:
    return identifier_text(node.name)


@renders(ex.Variable)
def _variable(node: ex.Variable, _: Texts) -> str:
    return identifier_text(node.name)


@renders(ex.Parameter)
def _parameter(node: ex.Parameter, _: Texts) -> str:
    return f"${node.name}"


@renders(ex.Literal)
def _literal(node: ex.Literal, _: Texts) -> str:
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
def _interval(node: ex.Interval, of: Texts) -> str:
    plain = isinstance(node.value, ex.Parameter) or (
        isinstance(node.value, ex.Literal)
        and not node.value.type
        and isinstance(node.value.value, str | int | Decimal)
        and not isinstance(node.value.value, bool)
        and level(node.value) == POSTFIX
    )
    value = of(node.value) if plain else f"({of(node.value)})"
    return f"INTERVAL {value} {node.unit}".rstrip()


# ---- operators ---------------------------------------------------------------------------------


@renders(ex.Unary)
def _unary(node: ex.Unary, of: Texts) -> str:
    if node.op == "NOT":
        return f"NOT {of(node.operand, NOT)}"
    operand = of(node.operand, UNARY)
    # Two minus signs would begin a comment.
    return f"{node.op} {operand}" if operand[0] in "+-~" else f"{node.op}{operand}"


@renders(ex.Binary)
def _binary(node: ex.Binary, of: Texts) -> str:
    own = level(node)
    left = of(node.left, own - 1 if own == COMPARISON else own)
    return f"{left} {node.op} {of(node.right, own - 1)}"


@renders(ex.Logical)
def _logical(node: ex.Logical, of: Texts) -> str:
    own = level(node)
    return f" {node.op} ".join([of(operand, own - 1) for operand in node.operands])


@renders(ex.Is)
def _is(node: ex.Is, of: Texts) -> str:
    words = f"{of(node.operand, IS)} IS {'NOT ' if node.negated else ''}{node.test}"
    return f"{words} FROM {of(node.other, COMPARISON)}" if node.other is not None else words


@renders(ex.Like)
def _like(node: ex.Like, of: Texts) -> str:
    negation = "NOT " if node.negated else ""
    text = f"{of(node.operand, SYMBOL)} {negation}{node.op} {of(node.pattern, SYMBOL)}"
    return f"{text} ESCAPE {of(node.escape, SYMBOL)}" if node.escape is not None else text


@renders(ex.Between)
def _between(node: ex.Between, of: Texts) -> str:
    word = "NOT BETWEEN" if node.negated else "BETWEEN"
    bounds = f"{of(node.low, SYMBOL)} AND {of(node.high, SYMBOL)}"
    return f"{of(node.operand, SYMBOL)} {word} {bounds}"


@renders(ex.In)
def _in(node: ex.In, of: Texts) -> str:
    word = "NOT IN" if node.negated else "IN"
    return f"{of(node.operand, SYMBOL)} {word} ({of.list(node.items)})"


@renders(ex.Subquery)
def _subquery(node: ex.Subquery, of: Texts) -> str:
    query = f"({of(node.query)})"
    if node.kind == "EXISTS":
        return f"EXISTS {query}"
    if node.operand is None:
        return query
    return f"{of(node.operand, SYMBOL)} {'NOT IN' if node.negated else 'IN'} {query}"


@renders(ex.Collate)
def _collate(node: ex.Collate, of: Texts) -> str:
    name = identifier_text(node.collation, any_word=True)
    return f"{of(node.operand, ZONE)} COLLATE {name}"


@renders(ex.AtTimeZone)
def _at_time_zone(node: ex.AtTimeZone, of: Texts) -> str:
    return f"{of(node.operand, ZONE)} AT TIME ZONE {of(node.zone, POSTFIX)}"


# ---- forms -------------------------------------------------------------------------------------


@renders(ex.Case)
def _case(node: ex.Case, of: Texts) -> str:
    parts = ["CASE"]
    if node.operand is not None:
        parts.append(of(node.operand))
    parts += [f"WHEN {of(when)} THEN {of(then)}" for when, then in node.whens]
    if node.otherwise is not None:
        parts.append(f"ELSE {of(node.otherwise)}")
    return " ".join([*parts, "END"])


@renders(ex.Cast)
def _cast(node: ex.Cast, of: Texts) -> str:
    return f"{'TRY_CAST' if node.safe else 'CAST'}({of(node.operand)} AS {node.type})"


@renders(ex.Try)
def _try(node: ex.Try, of: Texts) -> str:
    return f"TRY({of(node.operand)})"


@renders(ex.Extract)
def _extract(node: ex.Extract, of: Texts) -> str:
    return f"EXTRACT({identifier_text(node.part)} FROM {of(node.operand)})"


@renders(ex.Array)
def _array(node: ex.Array, of: Texts) -> str:
    return f"[{of.list(node.items)}]"


@renders(ex.Comprehension)
def _comprehension(node: ex.Comprehension, of: Texts) -> str:
    condition = f" IF {of(node.condition)}" if node.condition is not None else ""
    variable = identifier_text(node.variable)
    return f"[{of(node.element)} FOR {variable} IN {of(node.items)}{condition}]"


@renders(ex.Struct)
def _struct(node: ex.Struct, of: Texts) -> str:
    entries = [f"{identifier_text(key, any_word=True)}: {of(value)}" for key, value in node.entries]
    return "{" + ", ".join(entries) + "}"


@renders(ex.Map)
def _map(node: ex.Map, of: Texts) -> str:
    return "MAP {" + ", ".join([f"{of(key)}: {of(value)}" for key, value in node.entries]) + "}"


@renders(ex.Row)
def _row(node: ex.Row, of: Texts) -> str:
    return f"({of.list(node.items)})"


@renders(ex.GroupingSets)
def _grouping_sets(node: ex.GroupingSets, of: Texts) -> str:
    sets = [of(items[0]) if len(items) == 1 else f"({of.list(items)})" for items in node.sets]
    return f"GROUPING SETS ({', '.join(sets)})"


def _receiver(node: ex.Expr, of: Texts) -> str:
    """What a dot may follow: a bare name would be read as a longer name, a number as another."""
    text = of(node, POSTFIX)
    bare = isinstance(node, ex.Name | ex.Column | ex.Variable)
    number = isinstance(node, ex.Literal) and text[0].isdecimal()
    return f"({text})" if bare or number else text


@renders(ex.FieldAccess)
def _field(node: ex.FieldAccess, of: Texts) -> str:
    return f"{_receiver(node.operand, of)}.{identifier_text(node.field_name, any_word=True)}"


@renders(ex.Index)
def _index(node: ex.Index, of: Texts) -> str:
    return f"{of(node.operand, POSTFIX)}[{of(node.index)}]"


@renders(ex.Slice)
def _slice(node: ex.Slice, of: Texts) -> str:
    parts = [node.start, node.stop] + ([] if node.step is None else [node.step])
    texts = [of(part) if part is not None else "" for part in parts]
    # Spaces keep two colons from becoming the sign of a cast.
    inside = " ".join([word for text in texts for word in (":", text) if word][1:])
    return f"{of(node.operand, POSTFIX)}[{inside}]"


# ---- calls and windows -------------------------------------------------------------------------


@renders(ex.NamedArgument)
def _named_argument(node: ex.NamedArgument, of: Texts) -> str:
    return f"{identifier_text(node.name, any_word=True)} => {of(node.value)}"


@renders(ex.Lambda)
def _lambda(node: ex.Lambda, of: Texts) -> str:
    parameters = ", ".join([identifier_text(name, any_word=True) for name in node.parameters])
    return f"LAMBDA {parameters}: {of(node.body)}"


@renders(ex.Method)
def _method(node: ex.Method, of: Texts) -> str:
    name = identifier_text(node.name, any_word=True)
    return f"{_receiver(node.receiver, of)}.{name}({of.list(node.args)})"


@renders(ex.Call)
def _call(node: ex.Call, of: Texts) -> str:
    inside = "*" if node.star else ("DISTINCT " if node.distinct else "") + of.list(node.args)
    if node.order:
        inside += f" ORDER BY {of.list(node.order)}"
    if node.ignore_nulls is not None:
        inside += " IGNORE NULLS" if node.ignore_nulls else " RESPECT NULLS"
    text = f"{function_text(node.name)}({inside})"
    if node.within_group:
        text += f" WITHIN GROUP (ORDER BY {of.list(node.within_group)})"
    if node.filter is not None:
        text += f" FILTER (WHERE {of(node.filter)})"
    return f"{text} OVER {_over(node.window, of)}" if node.window is not None else text


def _over(window: ex.Window, of: Texts) -> str:
    if window.name and not (window.partition or window.order or window.frame):
        return identifier_text(window.name)
    return f"({of(window)})"


@renders(ex.Window)
def _window(node: ex.Window, of: Texts) -> str:
    parts = []
    if node.name:
        parts.append(f'"{node.name}"' if is_keyword(node.name) else identifier_text(node.name))
    if node.partition:
        parts.append(f"PARTITION BY {of.list(node.partition)}")
    if node.order:
        parts.append(f"ORDER BY {of.list(node.order)}")
    if node.frame:
        parts.append(node.frame)
    return " ".join(parts)


@renders(ex.SortKey)
def _sort_key(node: ex.SortKey, of: Texts) -> str:
    return of(node.expr) + (" DESC" if node.descending else "") + nulls_text(node.nulls_first)


def nulls_text(nulls_first: bool | None) -> str:
    """The words for where NULLs go; none when nothing was written."""
    if nulls_first is None:
        return ""
    return " NULLS FIRST" if nulls_first else " NULLS LAST"


# ---- select lists ------------------------------------------------------------------------------


@renders(ex.Columns)
def _columns(node: ex.Columns, _: Texts) -> str:
    return f"COLUMNS({string_text(node.pattern)})"


@renders(ex.Star)
def _star(node: ex.Star, of: Texts) -> str:
    if node.qualifier is None:
        text = "*"
    elif isinstance(node.qualifier, ex.Name):
        text = f"{of(node.qualifier)}.*"
    else:
        text = f"{_receiver(node.qualifier, of)}.*"
    if node.exclude:
        text += f" EXCLUDE ({', '.join([column_text(n) for n in node.exclude])})"
    if node.replace:
        pairs = [f"{of(expr)} AS {column_text(name)}" for expr, name in node.replace]
        text += f" REPLACE ({', '.join(pairs)})"
    if node.rename:
        names = [f"{column_text(old)} AS {column_text(new)}" for old, new in node.rename]
        text += f" RENAME ({', '.join(names)})"
    return text


def column_text(name: ex.Name) -> str:
    """A column where every word is one: in SET, DROP, RENAME and the lists behind a star."""
    return ".".join([identifier_text(part, any_word=True) for part in name.parts])
