"""SHOW, SUMMARIZE and the statement ASSERT: each is a query that ZQL writes for the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zql.execution.engine import Engine
from zql.execution.settings import Settings
from zql.expr import expression as ex
from zql.logical.context import Declarations
from zql.logical.conversion import kind_of
from zql.optimizer.optimizer import RULES
from zql.schema import Schema
from zql.settings_text import AUTO, MEANINGS
from zql.source import Span
from zql.syntax import ast
from zql.syntax.printer import print_query, print_statement

Row = tuple[str | None, ...]

TABLES = ("name", "kind", "query")
FUNCTIONS = ("name", "kind", "signature", "home")
SETTINGS = ("name", "value", "meaning")


def assertion(statement: ast.AssertStatement) -> ast.Query:
    """One row, on which ASSERT must hold."""
    nothing = ast.SelectItem(ex.Literal(0), ast.Identifier(""))
    payload = (ex.Literal(statement.message),) if statement.message is not None else ()
    checked = ast.Assert(statement.condition, payload, span=statement.span)
    row = ast.SelectSource((nothing,), span=statement.span)
    return ast.Query((row,), (checked, ast.Finish(span=statement.span)), span=statement.span)


# ---- SHOW --------------------------------------------------------------------------------------


def shown(
    statement: ast.Show, names: Sequence[str], rows: Sequence[Row], span: Span | None
) -> ast.Query:
    """Rows of text under `names`, and what the statement does with them."""
    cells = tuple(tuple(ex.Cast(ex.Literal(c), "VARCHAR") for c in row) for row in rows)
    none: tuple[ast.Operator, ...] = ()
    if not cells:
        cells = (tuple(ex.Cast(ex.Literal(None), "VARCHAR") for _ in names),)
        none = (ast.Where(ex.Literal(False), span=span),)
    columns = tuple(ast.Identifier(n) for n in names)
    values = ast.Aliased(ast.ValuesSource(cells, span=span), None, columns, span=span)
    return ast.Query((values,), none + statement.operators, span=span)


def tables(declarations: Declarations, objects: Sequence[str]) -> list[Row]:
    """What FROM knows by name: views with their queries, kept tables, objects handed in."""
    rows: list[Row] = [
        (name, "view", print_query(view.query))
        for name, view in declarations.views.items()
        if name != "_"
    ]
    rows += [(name, "table", None) for name in declarations.tables]
    rows += [(name, "object", None) for name in objects if name not in declarations.tables]
    for alias, module in declarations.scripts.items():
        rows += [
            (f"{alias}.{name}", "view", print_query(view.query))
            for name, view in module.views.items()
        ]
    return sorted(rows, key=lambda row: str(row[0]))


def functions(declarations: Declarations, engine: Engine) -> list[Row]:
    """Functions by name: the script's own, those of its imports, ZQL's, DuckDB's."""
    rows = [*_own(declarations, "", "script")]
    for alias, python in declarations.modules.items():
        rows += [(f"{alias}.{n}", "python", _python(f), alias) for n, f in python.items()]
    for alias, module in declarations.scripts.items():
        rows += _own(module, f"{alias}.", alias)
    for name, home in declarations.library.items():
        rows += [row for row in _own(home, "", "zql") if row[0] == name]
    return [*sorted(rows, key=lambda row: str(row[0])), *_duckdb(engine)]


def _own(declarations: Declarations, prefix: str, home: str) -> list[Row]:
    rows: list[Row] = []
    for name, python in declarations.functions.items():
        rows.append((f"{prefix}{name}", "python", _python(python), home))
    for name, scalar in declarations.sql_functions.items():
        rows.append((f"{prefix}{name}", "sql", _signature(scalar), home))
    for name, table in declarations.table_functions.items():
        rows.append((f"{prefix}{name}", "table", _signature(table), home))
    return rows


def _signature(function: ast.CreateFunction | ast.CreateTableFunction) -> str:
    """`name(a INTEGER DEFAULT 1) RETURNS DOUBLE`, as the statement has it."""
    text = " ".join(print_statement(function).split())
    head = text.split(" FUNCTION ", 1)[1]
    return head.split(" AS (" if isinstance(function, ast.CreateFunction) else ") AS ", 1)[0] + (
        "" if isinstance(function, ast.CreateFunction) else ")"
    )


def _python(function: Any) -> str:
    parts = [
        ("*" if p.variadic else "")
        + f"{p.name} {p.type}".strip()
        + ("" if p.required or p.variadic else " DEFAULT ..")
        for p in function.parameters
    ]
    returns = f" -> {function.returns}" if function.returns else ""
    return f"{function.name}({', '.join(parts)}){returns}"


def _duckdb(engine: Engine) -> list[Row]:
    found = engine.rows(
        "SELECT function_name, function_type, arg_min(function_name || '(' || array_to_string("
        "list_transform(list_zip(parameters, parameter_types), lambda p: "
        "p[1] || coalesce(' ' || p[2], '')), ', ') || coalesce(', ' || varargs || ' ..', '') || ')'"
        " || coalesce(' -> ' || return_type, ''), function_oid)"
        " FROM duckdb_functions() WHERE regexp_matches(function_name, '^[a-z]')"
        " AND function_type <> 'pragma' AND function_type NOT LIKE '%table%'"
        " GROUP BY ALL ORDER BY ALL"
    )
    return [(name, kind, signature, "duckdb") for name, kind, signature in found]


def settings(values: Settings, disabled: frozenset[str]) -> list[Row]:
    """Settings with their values in effect."""
    effective: dict[str, object] = {
        "workers": values.worker_count(),
        "threads": values.thread_count(),
        "memory": values.budget(),
        "split_size": values.split_size or AUTO,
        "file_size": values.file_size or AUTO,
        "partitions": values.partitions or AUTO,
        "temp_dir": values.temp_root(),
        "batch_rows": values.batch_rows,
        "retries": values.tries,
        "task_timeout": "none" if values.task_timeout is None else f"{values.task_timeout:g}s",
        "resume": str(values.resume).lower(),
        "cache": values.cache or "",
        "cache_size": values.cache_size or "none",
        "max_partitions": values.max_partitions,
        "optimizer": str(not disabled.issuperset(RULES)).lower(),
        "disabled_rules": ", ".join(sorted(disabled)),
    }
    return [(name, str(effective[name]), meaning) for name, meaning in sorted(MEANINGS.items())]


# ---- SUMMARIZE -----------------------------------------------------------------------------------

_QUANTILES = (("q25", "0.25"), ("q50", "0.5"), ("q75", "0.75"))


def summary(query: ast.Query, schema: Schema, span: Span | None) -> ast.Query:
    """A row for each column of a query, with the figures that DuckDB's SUMMARIZE has."""
    items: list[ast.AggregateItem] = [_item("n", _call("count", star=True))]
    lines: list[ex.Expr] = []
    for i, field in enumerate(schema):
        column = ex.Name((field.name,), (True,))
        figures = _figures(column, field.type)
        items += [_item(f"{name}_{i}", value) for name, value in figures.items()]
        entries: list[tuple[str, ex.Expr]] = [
            ("column_name", ex.Literal(field.name)),
            ("column_type", ex.Literal(field.type)),
        ]
        for name in ("min", "max", "approx_unique", "avg", "std", "q25", "q50", "q75"):
            none = ex.Cast(ex.Literal(None), "VARCHAR")
            entries.append((name, _name(f"{name}_{i}") if name in figures else none))
        entries += [("count", _name("n")), ("null_percentage", _null_share(_name(f"known_{i}")))]
        lines.append(ex.Struct(tuple(entries)))
    one = ast.Identifier("line")
    operators: tuple[ast.Operator, ...] = (
        ast.Aggregate(tuple(items), span=span),
        ast.Unnest(ex.Array(tuple(lines)), one, span=span),
        ast.Select((ast.SelectItem(ex.Star(_name("line"))),), span=span),
    )
    return ast.Query((ast.QuerySource(query, span=span),), operators, span=span)


def _figures(column: ex.Expr, type: str) -> dict[str, ex.Expr]:
    """The aggregates that mean something for a type, as text where DuckDB has text."""
    number = kind_of(type) in ("integer", "float")
    moment = type.startswith(("DATE", "TIME"))
    found: dict[str, ex.Expr] = {
        "min": _text(_call("min", column)),
        "max": _text(_call("max", column)),
        "approx_unique": _call("approx_count_distinct", column),
        "known": _call("count", column),
    }
    if number:
        found["std"] = _text(_call("stddev", ex.Cast(column, "DOUBLE")))
    if number or moment:
        of = ex.Cast(column, "TIMESTAMP") if type == "DATE" else column
        found["avg"] = _text(_call("avg", of))
        for name, share in _QUANTILES:
            quantile = ex.Cast(ex.Literal(share), "FLOAT")
            found[name] = _text(_call("approx_quantile", column, quantile))
    return found


def _null_share(known: ex.Expr) -> ex.Expr:
    """Percent of NULLs among the rows; NULL when there are none."""
    part = ex.Binary("-", ex.Literal(1), ex.Binary("/", known, _name("n")))
    some = ex.Binary(">", _name("n"), ex.Literal(0))
    share = ex.Case(None, ((some, ex.Binary("*", part, ex.Literal(100))),))
    return ex.Cast(share, "DECIMAL(9,2)")


def _name(name: str) -> ex.Name:
    return ex.Name((name,))


def _call(name: str, *args: ex.Expr, star: bool = False) -> ex.Call:
    return ex.Call((name,), args, star=star)


def _text(value: ex.Expr) -> ex.Expr:
    return ex.Cast(value, "VARCHAR")


def _item(name: str, value: ex.Expr) -> ast.AggregateItem:
    return ast.AggregateItem(value, ast.Identifier(name))
