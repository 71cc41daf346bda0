"""Random statements and pipe operators that the parser can make, of every kind there is."""

from __future__ import annotations

from hypothesis import strategies as st
from random_asts import STRINGS, TYPES, Maker
from zql.expr import expression as ex
from zql.syntax import ast

JOINS = ["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "ASOF", "ASOF LEFT"]


class StatementMaker(Maker):
    """Draws statements; `depth` is how many levels of operators and of pipes may come below."""

    def e(self):
        return self.expression(self.pick([0, 0, 1, 2]))

    def items(self):
        return self.several(lambda: ast.SelectItem(self.item(), self.maybe(self.identifier)), 1, 3)

    def plain_items(self):
        return self.several(lambda: ast.SelectItem(self.e(), self.maybe(self.identifier)), 1, 2)

    def item(self):
        return self.e()

    def keys(self):
        return self.several(lambda: self.sort_key(self.e), 1, 2)

    def options(self):
        return self.several(lambda: ast.Option(self.pick(["a", "b.c", "select"]), self.e()), 1, 2)

    def hints(self):
        return self.options() if self.pick([True, False, False]) else ()

    def identifiers(self):
        return self.several(self.identifier, 0, 2)

    def on_error(self):
        action = self.pick(["FAIL", "SKIP", "NULL"])
        into, limit = self.pick([None, *STRINGS]), self.pick(["", "5", "1 PERCENT"])
        options = self.options() if into is not None and self.flag() else ()
        return ast.OnError(action, into, limit, options)

    def windows(self):
        return self.several(lambda: ast.NamedWindow(self.identifier(), self.window(self.e)), 0, 1)

    # ---- queries ----

    def full_query(self, depth):
        head = self.pick(["from", "from", "values", "select", "nested"])
        if head == "from":
            items = self.several(lambda: self.from_item(depth), 1, 2)
            if len(items) == 1 and isinstance(items[0], ast.ValuesSource | ast.SelectSource):
                items = (ast.Aliased(items[0], ast.Identifier("v")),)
        elif head == "values":
            items = (self.values(),)
        elif head == "select":
            items = (self.select_source(depth),)
        else:
            items = (ast.NameSource("t"),)
        common = self.common(depth) if depth and self.flag() else ()
        begins = isinstance(items[0], ast.ValuesSource | ast.SelectSource)
        alone = len(items) == 1 and not begins and not isinstance(items[0], ast.Joined)
        on_error = self.on_error() if alone and self.flag() else None
        return ast.Query(items, self.pipe(depth, 0), common, on_error)

    def common(self, depth):
        return self.several(
            lambda: ast.CommonQuery(
                self.identifier(), self.full_query(depth - 1), self.identifiers()
            ),
            1,
            2,
        )

    def values(self):
        width = self.pick([1, 2])
        return ast.ValuesSource(self.several(lambda: self.several(self.e, width, width), 1, 3))

    def select_source(self, depth):
        keys = self.maybe(lambda: self.several(self.key, 0, 2))
        return ast.SelectSource(
            self.plain_items(),
            self.several(lambda: self.from_item(depth), 0, 2),
            self.pick([True, False]) if self.flag() else self.several(self.e, 1, 2),
            self.maybe(self.e),
            keys,
            self.flag() if keys else False,
            self.maybe(self.e),
            self.windows(),
            self.maybe(self.e),
            self.keys() if self.flag() else (),
            self.maybe(lambda: ast.Limit(self.e(), self.maybe(self.e))),
        )

    def from_item(self, depth):
        kind = self.pick(["plain", "plain", "alias", "sample", "joined", "query", "call", "unnest"])
        if depth == 0 or kind == "plain":
            return self.source()
        if kind == "alias":
            item = self.pick([self.source, self.values])()
            return ast.Aliased(item, self.identifier(), self.identifiers())
        if kind == "sample":
            return ast.Sampled(self.source(), self.sample())
        if kind == "query":
            node = self.pick([ast.QuerySource, ast.LateralSource])
            return node(self.full_query(depth - 1))
        if kind == "call":
            args = self.several(lambda: self.argument(self.e), 0, 2)
            return ast.CallSource(ex.Call(("range",), args))
        if kind == "unnest":
            return ast.UnnestSource(self.e())
        left, right = self.from_item(depth - 1), self.from_item(depth - 1)
        return ast.Joined(left, right, **self.join_parts())

    def join_parts(self):
        kind = self.pick(["cross", "natural", "on", "using"])
        hints = self.hints()
        if kind == "cross":
            return {"kind": "CROSS", "hints": hints}
        if kind == "natural":
            return {"kind": self.pick(JOINS[:4]), "natural": True, "hints": hints}
        if kind == "on":
            return {"kind": self.pick(JOINS), "on": self.e(), "hints": hints}
        using = self.several(self.identifier, 1, 2)
        return {"kind": self.pick(JOINS), "using": using, "hints": hints}

    def sample(self):
        method = self.pick(["BERNOULLI", "RESERVOIR"])
        partition = self.several(self.e, 0, 2) if method == "RESERVOIR" else ()
        return ast.Sample(method, self.e(), partition, self.maybe(self.e))

    # ---- operators ----

    def pipe(self, depth, least=1):
        return self.several(lambda: self.any_operator(depth), least, 3)

    def any_operator(self, depth):
        makers = [self.columns, self.rows, self.tables, self.shape]
        return self.pick(makers if depth else makers[:2])(depth - 1)

    def columns(self, _):
        kind = self.pick(
            ["where", "select", "extend", "set", "drop", "rename", "as", "unnest", "map"]
        )
        hints = self.hints()
        if kind == "where":
            return ast.Where(self.e(), self.maybe(self.on_error), hints=hints)
        if kind == "select":
            parts = (self.items(), self.flag(), self.windows(), self.maybe(self.on_error))
            return ast.Select(*parts, hints=hints)
        if kind == "extend":
            return ast.Extend(self.items(), self.windows(), self.maybe(self.on_error), hints=hints)
        if kind == "set":
            some = self.several(lambda: ast.Assignment(self.column(), self.e()), 1, 2)
            return ast.Set(some, self.maybe(self.on_error), hints=hints)
        if kind == "drop":
            return ast.Drop(self.several(self.column, 1, 2), self.flag(), hints=hints)
        if kind == "rename":
            some = self.several(lambda: ast.Renaming(self.column(), self.identifier()), 1, 2)
            return ast.Rename(some, hints=hints)
        if kind == "as":
            return ast.As(self.identifier())
        if kind == "unnest":
            position = self.maybe(self.identifier)
            one_based = self.flag() if position else False
            alias = self.maybe(self.identifier)
            return ast.Unnest(self.e(), alias, self.flag(), position, one_based, hints=hints)
        return ast.MapRows(
            self.pick(["MAP", "FLATMAP", "MAP BATCHES", "MAP SHARDS"]),
            self.several(self.name, 1, 2),
            self.several(lambda: self.argument(self.e), 0, 2),
            self.several(lambda: ast.ReturnColumn(self.name(), self.pick(TYPES)), 0, 2),
            self.maybe(self.on_error),
            hints=hints,
        )

    def key(self):
        order, nulls = self.pick(["", "ASC", "DESC"]), self.pick([None, True, False])
        return ast.AggregateItem(self.e(), self.maybe(self.identifier), order, nulls)

    def rows(self, _):
        kind = self.pick(["aggregate", "sets", "distinct", "order", "limit", "sample", "shuffle",
                          "distribute", "assert", "write", "end"])  # fmt: skip
        hints = self.hints()
        if kind == "aggregate":
            items = self.several(self.key, 0, 2)
            keys = self.several(self.key, 0 if items else 1, 2)
            return ast.Aggregate(items, keys, self.flag() if keys else False, hints=hints)
        if kind == "sets":
            sets = self.several(lambda: self.several(self.leaf, 0, 2), 1, 3)
            return ast.Aggregate((), (ast.AggregateItem(ex.GroupingSets(sets)),))
        if kind == "distinct":
            on = self.several(self.e, 0, 2)
            return ast.Distinct(on, self.keys() if on and self.flag() else (), hints=hints)
        if kind == "order":
            return ast.OrderBy(self.keys(), hints=hints)
        if kind == "limit":
            count = self.maybe(self.e)
            offset = self.e() if count is None else self.maybe(self.e)
            return ast.Limit(count, offset, hints=hints)
        if kind == "sample":
            return ast.TableSample(self.sample())
        if kind == "shuffle":
            return ast.Shuffle(self.maybe(self.e), self.maybe(self.e), hints=hints)
        if kind == "distribute":
            return ast.Distribute(self.several(self.e, 0, 2), self.maybe(self.e), hints=hints)
        if kind == "assert":
            return ast.Assert(self.e(), self.several(self.e, 0, 2))
        if kind == "write":
            uri = self.pick([ex.Literal("out/"), ex.Parameter("out")])
            return ast.Write(uri, self.options() if self.flag() else (), hints=hints)
        store = ast.StoreTable(self.identifier(), self.flag())
        return self.pick([store, ast.DescribeRows(), ast.Finish()])

    def tables(self, depth):
        kind = self.pick(["join", "set", "recursive", "with", "call"])
        if kind == "join":
            return ast.Join(self.from_operand(depth), **self.join_parts())
        if kind == "set":
            word = self.pick(["UNION", "INTERSECT", "EXCEPT"])
            queries = self.several(lambda: self.full_query(depth), 1, 2)
            every = self.pick([None, True, False])
            return ast.SetOperation(word, queries, every, self.flag(), hints=self.hints())
        if kind == "recursive":
            step = ast.Query((), self.pipe(depth)) if self.flag() else self.full_query(depth)
            every, alias = self.pick([None, True, False]), self.maybe(self.identifier)
            return ast.RecursiveUnion(step, every, self.flag(), alias)
        if kind == "with":
            return ast.With(self.common(depth + 1))
        args = self.several(lambda: self.argument(self.e), 0, 2)
        alias = self.maybe(self.identifier)
        return ast.CallTable(self.column(), args, alias, hints=self.hints())

    def from_operand(self, depth):
        item = self.from_item(depth)
        return item if not isinstance(item, ast.ValuesSource) else ast.NameSource("v")

    def shape(self, depth):
        kind = self.pick(["pivot", "unpivot", "partition", "switch", "if", "tee", "fork"])
        if kind == "pivot":
            parts = (self.plain_items(), self.e(), self.plain_items(), self.maybe(self.identifier))
            return ast.Pivot(*parts, hints=self.hints())
        if kind == "unpivot":
            columns = self.several(
                lambda: ast.UnpivotColumn(self.column(), self.pick([None, *STRINGS])), 1, 2
            )
            names = (self.identifier(), self.identifier())
            return ast.Unpivot(*names, columns, self.flag(), self.maybe(self.identifier))
        if kind == "partition":
            return ast.PartitionBy(self.plain_items(), self.pipe(depth), hints=self.hints())
        if kind in ("switch", "if"):
            node = ast.Switch if kind == "switch" else ast.If
            branches = self.several(lambda: (self.e(), self.pipe(depth, 0)), 1, 2)
            return node(branches, self.maybe(lambda: self.pipe(depth, 0)))
        node, least = (ast.Tee, 0) if kind == "tee" else (ast.Fork, 1)
        return node(self.several(lambda: self.pipe(depth, 0), least, 2))

    # ---- statements ----

    def statement(self, depth):
        kind = self.pick(
            ["query", "query", "pipes", "view", "table", "function", "table function", "python",
             "declare", "import", "set", "explain", "describe", "show", "assert"]
        )  # fmt: skip
        if kind == "query":
            return ast.QueryStatement(self.full_query(depth))
        if kind == "pipes":
            return ast.QueryStatement(ast.Query((), self.pipe(depth)))
        if kind in ("view", "table"):
            node = ast.CreateView if kind == "view" else ast.CreateTable
            return node(self.identifier(), self.full_query(depth), self.flag())
        if kind == "function":
            parts = (self.e(), self.pick([None, *TYPES]), self.flag())
            return ast.CreateFunction(self.identifier(), self.parameters(), *parts)
        if kind == "python":
            return self.python_function()
        if kind == "table function":
            parts = (self.parameters(), self.full_query(depth), self.flag())
            return ast.CreateTableFunction(self.identifier(), *parts)
        return self.small_statement(kind, depth)

    def python_function(self):
        returns, volatility = self.pick([None, *TYPES]), self.pick(["", "IMMUTABLE", "VOLATILE"])
        options = self.options() if self.flag() else ()
        source = self.pick(["def f(x):\n    return x\n", "$", "$$", "a $", "$1$ $$ $source1$", ""])
        parameters = self.parameters()
        if self.flag():
            parameters += (ast.FunctionParameter(self.identifier(), "ANY", self.maybe(self.e)),)
        return ast.CreatePythonFunction(
            self.identifier(), parameters, returns, volatility, self.flag(), options,
            self.maybe(lambda: source), self.flag(),
        )  # fmt: skip

    def small_statement(self, kind, depth):
        if kind == "declare":
            return ast.Declare(self.identifier(), self.pick(TYPES), self.maybe(self.e))
        if kind == "import":
            alias = self.maybe(self.identifier)
            path = self.pick(STRINGS)
            some = [ast.ImportPython("pkg.mod", False, alias), ast.ImportPython(path, True, alias)]
            return self.pick([*some, ast.ImportScript(path, alias)])
        if kind == "set":
            return ast.SetOption(self.identifier(), self.e())
        if kind == "explain":
            level = self.pick(["STAGES", "SYNTAX", "LOGICAL", "TRACE", "ANALYZE"])
            return ast.Explain(self.full_query(depth), level)
        if kind == "describe":
            return self.pick([ast.Describe, ast.Summarize])(self.full_query(depth))
        if kind == "show":
            return ast.Show(self.pick(["TABLES", "FUNCTIONS", "SETTINGS"]), self.pipe(depth, 0))
        return ast.AssertStatement(self.e(), self.pick([None, *STRINGS]))

    def parameters(self):
        return self.several(
            lambda: ast.FunctionParameter(self.identifier(), self.pick(TYPES), self.maybe(self.e)),
            0,
            2,
        )


@st.composite
def statements(draw, depth=1):
    """A statement with pipes inside pipes to `depth`."""
    return StatementMaker(draw).statement(depth)
