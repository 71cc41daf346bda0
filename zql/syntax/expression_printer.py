"""Expressions as documents: the fewest parentheses, keywords in capitals.

Nodes are printed from the leaves up, each from the documents of its children: no recursion, so
depth does not matter. `parse(print(x)) == x` for whatever the parser can make.
"""

from __future__ import annotations

from decimal import Decimal

from zql.expr import expression as ex
from zql.syntax.keywords import is_keyword
from zql.syntax.layout import LINE, Doc, block, group, indent, join
from zql.syntax.names import identifier_text
from zql.syntax.texts import (
    CAST_SIGN,
    COMPARISON,
    IS,
    NOT,
    POSTFIX,
    SYMBOL,
    UNARY,
    ZONE,
    Texts,
    brackets,
    clause,
    column_text,
    first_character,
    level,
    names_in_brackets,
    nulls_text,
    path_text,
    renders,
    string_text,
)

_FORMS = frozenset({"try", "try_cast", "extract", "columns", "values"})
"""Names of functions that mean something else when they are not quoted."""

_LITERAL_TYPES = {
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
}


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
        left = of(node.left, own - 1 if own == COMPARISON else own)
        if isinstance(node.right, ex.Subquery) and node.right.operand is None:
            # It breaks between its parentheses.
            return (left, f" {node.op} ", of(node.right, own - 1))
        return of.chain(node, left, operator)
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
