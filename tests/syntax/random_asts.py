"""Random ASTs that the parser can make, for the property that printing and parsing agree."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st
from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.keywords import KEYWORDS

NAMES = [*sorted(KEYWORDS), *(word.lower() for word in sorted(KEYWORDS))]
NAMES += [
    "a",
    "b",
    "Id",
    "é",
    "x1",
    "",
    " ",
    '"',
    "`",
    "a b",
    "a.b",
    "1a",
    "it's",
    "\n",
    "--",
    "try",
]
FUNCTIONS = ["f", "tok", "map", "date", "values", "first", "left", "try", "select", "extract", "é"]
STRINGS = ["", "a", "'", "''", "\\", "\n", "$$", "--", "/*", ";", "é😀", '"']
NUMBERS = [0, 7, 10**30, Decimal("0.5"), Decimal("1E+3"), Decimal("9.90E-7"), Decimal("12.3400")]
TYPES = ["INTEGER", "VARCHAR", "DECIMAL(10,2)", "INTEGER[]", "INTEGER[3]", "MAP(VARCHAR, DATE[])",
         'STRUCT(a INTEGER, "b c" VARCHAR)[]', "TIMESTAMP WITH TIME ZONE", "INTERVAL",
         "ENUM('a', 'b')"]  # fmt: skip
TYPED = ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
FRAMES = ["", "ROWS 1 PRECEDING", "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
          "RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL 2 DAY FOLLOWING"]  # fmt: skip
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**", "^", "||", "&", "|", "<<", ">>", "->", "->>"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


class Maker:
    """Draws nodes; `depth` is how many levels may still come below."""

    def __init__(self, draw) -> None:
        self.draw = draw

    def pick(self, values):
        return self.draw(st.sampled_from(values))

    def flag(self):
        return self.draw(st.booleans())

    def several(self, make, least, most):
        return tuple(make() for _ in range(self.draw(st.integers(least, most))))

    def maybe(self, make):
        return make() if self.flag() else None

    def name(self):
        return self.pick(NAMES)

    def expression(self, depth):
        if depth == 0:
            return self.leaf()
        kind = self.pick(
            ["leaf", "binary", "binary", "unary", "logical", "test", "range", "form", "access",
             "call", "call", "query"]
        )  # fmt: skip
        return (
            getattr(self, kind)(lambda: self.expression(depth - 1))
            if kind != "leaf"
            else self.leaf()
        )

    def leaf(self):
        kind = self.pick(["name", "name", "number", "string", "constant", "typed", "parameter"])
        if kind == "name":
            return ex.Name(self.several(self.name, 1, 3))
        if kind == "parameter":
            return ex.Parameter(self.pick(["p", "select", "x1"]))
        if kind == "typed":
            return ex.Literal(self.pick(STRINGS), self.pick(TYPED))
        values = {"number": NUMBERS, "string": STRINGS, "constant": [True, False, None]}
        return ex.Literal(self.pick(values[kind]))

    def binary(self, e):
        return ex.Binary(self.pick(ARITHMETIC + COMPARISONS), e(), e())

    def unary(self, e):
        kind = self.pick(["-", "+", "~", "NOT", "collate", "zone"])
        if kind == "collate":
            return ex.Collate(e(), self.name())
        return ex.AtTimeZone(e(), e()) if kind == "zone" else ex.Unary(kind, e())

    def logical(self, e):
        return ex.Logical(self.pick(["AND", "OR"]), self.several(e, 2, 3))

    def test(self, e):
        test = self.pick(["NULL", "TRUE", "FALSE", "DISTINCT"])
        return ex.Is(e(), test, self.flag(), e() if test == "DISTINCT" else None)

    def range(self, e):
        kind = self.pick(["LIKE", "ILIKE", "SIMILAR TO", "GLOB", "~", "between", "in"])
        if kind == "between":
            return ex.Between(e(), e(), e(), self.flag())
        if kind == "in":
            items = self.several(e, 1, 2)
            if len(items) == 1 and isinstance(items[0], ex.Subquery):
                items += (ex.Literal(1),)  # `x IN ((query))` is the query's own form
            return ex.In(e(), items, self.flag())
        if kind == "~":
            return ex.Like(kind, e(), e())
        return ex.Like(kind, e(), e(), self.flag(), self.maybe(e) if kind != "GLOB" else None)

    def form(self, e):
        kind = self.pick(
            ["case", "cast", "array", "struct", "map", "row", "comprehension", "interval", "try"]
        )
        if kind == "case":
            return ex.Case(self.maybe(e), self.several(lambda: (e(), e()), 1, 2), self.maybe(e))
        if kind == "cast":
            return ex.Cast(e(), self.pick(TYPES), self.flag())
        if kind == "array":
            return ex.Array(self.several(e, 0, 3))
        if kind == "struct":
            return ex.Struct(self.several(lambda: (self.name(), e()), 0, 2))
        if kind == "map":
            return ex.Map(self.several(lambda: (e(), e()), 0, 2))
        if kind == "row":
            return ex.Row(self.several(e, 2, 3))
        if kind == "comprehension":
            return ex.Comprehension(e(), self.name(), e(), self.maybe(e))
        if kind == "try":
            return ex.Try(e())
        if self.flag():
            return ex.Interval(e(), self.pick(["DAY", "MONTH"]))
        return ex.Interval(ex.Literal(self.pick(STRINGS)))

    def access(self, e):
        kind = self.pick(["field", "index", "slice", "extract", "columns"])
        if kind == "field":
            return ex.FieldAccess(e(), self.name())
        if kind == "index":
            return ex.Index(e(), e())
        if kind == "slice":
            return ex.Slice(e(), self.maybe(e), self.maybe(e), self.maybe(e))
        if kind == "extract":
            return ex.Extract(self.pick(["year", "epoch"]), e())
        return ex.Columns(self.pick(STRINGS))

    def call(self, e):
        name = (self.pick(FUNCTIONS),) if self.flag() else self.several(self.name, 2, 3)
        if self.pick([True, False, False, False]):
            return ex.Call(name, star=True, window=self.maybe(lambda: self.window(e)))
        if self.pick([True, False, False, False]):
            return ex.Method(e(), self.name(), self.several(lambda: self.argument(e), 0, 2))
        arguments = self.several(lambda: self.argument(e), 0, 3)
        if not arguments:
            return ex.Call(name)
        return ex.Call(
            name,
            arguments,
            self.flag(),
            self.several(lambda: self.sort_key(e), 0, 1),
            self.maybe(e),
            self.maybe(lambda: self.window(e)),
            ignore_nulls=self.pick([None, None, True, False]),
            within_group=self.several(lambda: self.sort_key(e), 0, 1),
        )

    def argument(self, e):
        kind = self.pick(["plain", "plain", "named", "lambda"])
        if kind == "named":
            return ex.NamedArgument(self.name(), e())
        return ex.Lambda(self.several(self.name, 1, 2), e()) if kind == "lambda" else e()

    def sort_key(self, e):
        return ex.SortKey(e(), self.flag(), self.pick([None, True, False]))

    def window(self, e):
        keys = self.several(lambda: self.sort_key(e), 0, 2)
        name = self.pick(["", "", *filter(None, NAMES)])
        return ex.Window(self.several(e, 0, 2), keys, self.pick(FRAMES), name)

    def query(self, e):
        query = ast.Query(
            self.several(self.source, 1, 2), self.several(lambda: self.operator(e), 0, 2)
        )
        kind = self.pick(["SCALAR", "EXISTS", "IN"])
        if kind == "IN":
            return ex.Subquery("IN", query, e(), self.flag())
        return ex.Subquery(kind, query)

    def source(self):
        kind = self.pick(["name", "path", "parameter"])
        if kind == "name":
            module = self.name() if self.flag() else ""
            return ast.NameSource(self.name(), module)
        if kind == "path":
            return ast.PathSource(self.several(lambda: self.pick(STRINGS), 1, 2))
        return ast.ParameterSource("p")

    def operator(self, e):
        kind = self.pick(["where", "select", "order", "limit", "set", "drop", "rename"])
        if kind == "where":
            return ast.Where(e())
        if kind == "select":
            items = self.several(lambda: ast.SelectItem(e(), self.maybe(self.identifier)), 1, 2)
            return ast.Select(items, self.flag())
        if kind == "order":
            return ast.OrderBy(self.several(lambda: self.sort_key(e), 1, 2))
        if kind == "limit":
            return ast.Limit(e(), self.maybe(e))
        if kind == "set":
            return ast.Set(self.several(lambda: ast.Assignment(self.column(), e()), 1, 2))
        if kind == "drop":
            return ast.Drop(self.several(self.column, 1, 2), self.flag())
        return ast.Rename(
            self.several(lambda: ast.Renaming(self.column(), self.identifier()), 1, 2)
        )

    def column(self):
        return ex.Name(self.several(self.name, 1, 2))

    def identifier(self):
        return ast.Identifier(self.name())


@st.composite
def expressions(draw, depth=3):
    """An expression of at most `depth` levels of operators."""
    return Maker(draw).expression(depth)
