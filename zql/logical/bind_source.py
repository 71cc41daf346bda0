"""What stands in FROM and behind JOIN: files, views, Python objects, queries, literal rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zql.errors import BindError, ZqlError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical import plan as lp
from zql.logical.bind_duckdb import duckdb_query
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_hints import check_hints
from zql.logical.bind_join import join
from zql.logical.bind_lateral import WITHOUT_PYTHON
from zql.logical.bind_reading import Reading, no_files, not_by_rows, of_clause, of_options, policed
from zql.logical.bind_sample import sample
from zql.logical.bind_table_function import call_table_function
from zql.logical.bind_unnest import elements_of, from_unnest
from zql.logical.catalog import FileTable, ObjectTable, TypeProblem
from zql.logical.constants import constant_value, no_python
from zql.logical.context import (
    Context,
    Declarations,
    Frame,
    Place,
    not_yet,
    type_error,
    unknown,
)
from zql.logical.declared import no_table_function, table_function
from zql.logical.instances import take
from zql.logical.scope import Scope, Visible
from zql.source import Span
from zql.syntax import ast

READERS = {
    "read_json": "read_json",
    "read_ndjson": "read_json",
    "read_csv": "read_csv",
    "read_parquet": "read_parquet",
}
FILE_FUNCTIONS = ("read_text", "read_blob", "glob")
"""Table functions of DuckDB that look at files as wholes."""

VIRTUAL = (("filename", "filename", "VARCHAR"), ("file_row_number", "row", "BIGINT"))


def bind_items(
    context: Context,
    items: tuple[ast.FromItem, ...],
    outer: tuple[Scope, ...],
    columns: frozenset[str] | None = None,
    on_error: ast.OnError | None = None,
) -> Scope:
    """The FROM clause; a comma is a CROSS JOIN whose right side may be UNNEST of the left.

    With `columns` the query uses no others of its one set of files. `on_error` is about these.
    """
    if on_error is not None and not _reads_files(items[0]):
        raise no_files(on_error)
    context.columns, context.reading = columns, on_error
    try:
        scope = bind_item(context, items[0], outer)
    finally:
        context.columns = context.reading = None
    for item in items[1:]:
        scope = join(context, scope, ast.Join(item, "CROSS", span=item.span), outer, bind_item)
    return scope


def bind_item(context: Context, item: ast.FromItem, outer: tuple[Scope, ...]) -> Scope:
    """The scope of one FROM item. Raises `BindError` and what the catalog raises."""
    elements = elements_of(item)
    if elements is not None:
        return from_unnest(context, elements, outer)
    match item:
        case ast.Aliased():
            return _aliased(context, item, outer)
        case ast.PathSource():
            return _files(context, item.paths, None, Reading({}), item.span)
        case ast.ParameterSource():
            return _parameter(context, item)
        case ast.NameSource():
            return _named(context, item)
        case ast.CallSource():
            return _call(context, item, outer)
        case ast.QuerySource():
            inner = context.bind_query(item.query, outer)
            return visible_only(inner, item.span)
        case ast.ValuesSource():
            return _values(context, item, outer, ())
        case ast.Joined():
            left = bind_item(context, item.left, outer)
            clause = ast.Join(
                item.right,
                item.kind,
                item.on,
                item.using,
                item.natural,
                hints=item.hints,
                span=item.span,
            )
            check_hints(context, clause)
            return join(context, left, clause, outer, bind_item)
        case ast.LateralSource():
            with context.without_python(WITHOUT_PYTHON):
                return visible_only(context.bind_query(item.query, outer), item.span)
        case ast.Sampled():
            return sample(context, bind_item(context, item.item, outer), item.sample, outer)
        case ast.SelectSource() | ast.UnnestSource():
            raise not_yet(item)


def _reads_files(item: ast.FromItem) -> bool:
    """Whether a FROM item reads files itself; a parameter may."""
    while isinstance(item, ast.Aliased | ast.Sampled):
        item = item.item
    if isinstance(item, ast.CallSource):
        return len(item.call.name) == 1 and item.call.name[0].lower() in READERS
    return isinstance(item, ast.PathSource | ast.ParameterSource)


def unique(scope: Scope, where: str, span: Span | None) -> Scope:
    """The scope itself; two visible columns of one name are an error that names both origins."""
    seen: dict[str, Visible] = {}
    for v in scope.visible:
        if v.name in seen:
            first, second = seen[v.name].origin, v.origin
            both = bool(first and second)
            what = (
                "name the columns you want" if both else "give both a name, |> AS a |> JOIN .. AS b"
            )
            raise BindError(
                f'two columns are called "{v.name}" {where}',
                code="N208",
                span=span,
                hint=f"{what}: |> SELECT {first or 'a'}.{v.name}, "
                f"{second or 'b'}.{v.name} AS other, ..",
                notes=(f"{first}.{v.name} and {second}.{v.name}",) if both else (),
            )
        seen[v.name] = v
    return scope


def visible_only(scope: Scope, span: Span | None) -> Scope:
    """Exactly the visible columns as a table of its own: aliases inside are not seen outside."""
    unique(scope, "where the query ends", span)
    columns = tuple(v.column for v in scope.visible)
    plan = scope.plan
    if columns != plan.columns:
        plan = lp.Project(plan, tuple(lp.Assign(c, c) for c in columns))
    return Scope(plan, tuple(replace(v, origin="") for v in scope.visible))


def named(scope: Scope, span: Span | None) -> None:
    """Raises `BindError` for a column with the empty name, which nothing outside can have."""
    if "" in scope.names:
        raise BindError(
            "a column has the empty name",
            code="N218",
            span=span,
            hint='|> RENAME "" AS name, or |> DROP ""',
        )


def _aliased(context: Context, item: ast.Aliased, outer: tuple[Scope, ...]) -> Scope:
    if isinstance(item.item, ast.ValuesSource):
        scope = _values(context, item.item, outer, tuple(c.text for c in item.columns))
    else:
        scope = bind_item(context, item.item, outer)
    if item.columns:
        if len(item.columns) != len(scope.visible):
            raise BindError(
                f"{len(item.columns)} column names for {len(scope.visible)} columns",
                code="N210",
                span=item.columns[0].span.to(item.columns[-1].span)
                if item.columns[0].span and item.columns[-1].span
                else item.span,
                hint="name each of them, or none; they are " + ", ".join(scope.names[:12]),
            )
        seen: set[str] = set()
        for column in item.columns:
            if column.text.casefold() in seen:
                raise BindError(
                    f'the column name "{column.text}" is given twice',
                    code="N208",
                    span=column.span,
                    hint="give each column a name of its own",
                )
            seen.add(column.text.casefold())
        visible = tuple(
            replace(v, name=c.text) for v, c in zip(scope.visible, item.columns, strict=True)
        )
        scope = replace(scope, visible=visible)
    return scope.with_alias(item.alias.text) if item.alias else scope


def _files(
    context: Context,
    paths: tuple[str, ...],
    reader: str | None,
    reading: Reading,
    span: Span | None,
) -> Scope:
    columns = context.columns if context.only_named else None
    options = reading.options
    clause, context.reading = context.reading, None
    if clause is not None:
        if any(name.lower() == "on_error" for name in options):
            raise BindError(
                "ON ERROR is given twice: as a clause, and as the option on_error",
                code="N208",
                span=clause.span,
                hint="leave one of them out",
            )
        reading = of_clause(clause)
        options = {**options, **reading.options}
    try:
        table = context.at(span, lambda: context.catalog.files(paths, reader, options, columns))
    except ZqlError as error:
        raise (error if clause is None else not_by_rows(error, clause)) from None
    found = scan(context, table, span)
    if not isinstance(found.plan, lp.Scan):
        raise TypeError(found.plan)
    return replace(found, plan=policed(context, found.plan, reading))


def scan(context: Context, table: FileTable, span: Span | None) -> Scope:
    """A scan of all the columns, and the virtual ones, which are seen only when they are named."""
    columns, visible = [], []
    for f in table.schema:
        column = context.names.column(f.name, f.type)
        kind = "hive" if f.name in table.hive else "data"
        columns.append(lp.ScanColumn(column, f.name, kind))
        visible.append(Visible(f.name, column))
    hidden = []
    for name, kind, type_ in VIRTUAL:
        if name not in table.schema.names:
            column = context.names.column(name, type_)
            columns.append(lp.ScanColumn(column, name, kind))
            hidden.append(Visible(name, column, hidden=True))
    plan = lp.Scan(
        table.name,
        table.format,
        table.files,
        tuple(columns),
        table.options,
        table.provisional,
        span,
        own=table.own,
    )
    return Scope(plan, tuple(visible), virtual=tuple(hidden))


def _parameter(context: Context, item: ast.ParameterSource) -> Scope:
    found = context.declarations.parameters.get(item.name)
    if found is None and (table := context.catalog.object(item.name)) is not None:
        if context.reading is not None:
            raise no_files(context.reading)
        return _object(context, table)
    binder = ExpressionBinder(context, ())
    value = binder.parameter(ex.Parameter(item.name, span=item.span))
    paths = _paths(value)
    if paths is None:
        raise BindError(
            f"${item.name} is neither a path nor a list of paths",
            code="T303",
            span=item.span,
            hint="FROM takes a text, or a list of texts",
        )
    return _files(context, paths, None, Reading({}), item.span)


def _paths(value: ex.Expr) -> tuple[str, ...] | None:
    if isinstance(value, ex.Literal) and isinstance(value.value, str):
        return (value.value,)
    if isinstance(value, ex.Array):
        parts = [i.value for i in value.items if isinstance(i, ex.Literal)]
        if len(parts) == len(value.items) and all(isinstance(p, str) for p in parts):
            return tuple(parts)
    return None


def _object(context: Context, table: ObjectTable) -> Scope:
    columns = tuple(context.names.column(f.name, f.type) for f in table.schema.fields)
    names = tuple(f.name for f in table.schema.fields)
    visible = tuple(Visible(n, c) for n, c in zip(names, columns, strict=True))
    return Scope(lp.MemoryScan(table.key, columns, names, table.size), visible)


def _named(context: Context, item: ast.NameSource) -> Scope:
    """A table by its name: the nearest one of WITH, a view, a Python object."""
    if item.module:
        return _of_module(context, item)
    rows = context.rounds.get(item.name)
    if rows is not None:
        return rows()
    local = context.frame.tables.get(item.name)
    if local is not None:
        context.doubts.read(id(local), item.name, local.scope.plan, item.span)
        return take(context, local, item.name, item.span)
    declarations = context.declarations
    kept = declarations.shared.get(item.name)
    if kept is not None:
        return _object(context, kept).with_alias(item.name)
    view = declarations.views.get(item.name)
    if view is not None:
        return _view(context, view, declarations, item)
    table = declarations.tables.get(item.name) or context.catalog.object(item.name)
    if table is not None:
        return _object(context, table).with_alias(item.name)
    if item.name in context.frame.defining:
        raise BindError(
            f'"{item.name}" reads itself: WITH is not recursive',
            code="P401",
            span=item.span,
            hint="|> RECURSIVE UNION ALL (..) repeats a query until nothing is new",
        )
    known = [*context.frame.tables, *declarations.views, *declarations.tables]
    known += context.catalog.object_names()
    known = [name for name in known if name != "_"]  # the last result
    near = nearest(item.name, known)
    raise BindError(
        f'unknown table "{item.name}"',
        code="N211",
        span=item.span,
        candidates=near,
        hint=did_you_mean(near) or f"a file stands in quotes: FROM '{item.name}.parquet'",
        notes=(f"tables here: {', '.join(known)}",) if known else (),
    )


def _view(
    context: Context, view: ast.CreateView, home: Declarations, item: ast.NameSource
) -> Scope:
    """A view's query, bound where it was declared."""
    key = (id(home), item.name)
    if key in context.opened:
        raise BindError(
            f'the view "{item.name}" reads itself',
            code="P401",
            span=item.span,
            hint=f"give the new view another name, or read what {item.name} was made of",
        )
    context.grow(item.name, 1 + len(view.query.operators), item.span)
    said = list(context.doubts.texts)
    with context.within(Place(Frame(), home, (*context.opened, key))):
        inner = context.bind_query(view.query, ())
    # What is to be said of the view's own text was said where it was declared.
    context.doubts.texts = said
    context.doubts.read((*key, view.span), item.name, inner.plan, item.span)
    return visible_only(inner, item.span).with_alias(item.name)


def _of_module(context: Context, item: ast.NameSource) -> Scope:
    """`FROM c.view`, of IMPORT MODULE .. AS c."""
    scripts = context.declarations.scripts
    home = scripts.get(item.module)
    if home is None:
        error = unknown("module", item.module, list(scripts), item.span, "N205")
        error.hint = error.hint or (
            f"a file's path stands in single quotes: '{item.module}.{item.name}'"
        )
        raise error
    view = home.views.get(item.name)
    if view is None:
        error = unknown("view", item.name, list(home.views), item.span, "N211")
        error.message = f'{item.module} has no view "{item.name}"'
        error.args = (error.message,)
        raise error
    return _view(context, view, home, item)


def _call(context: Context, item: ast.CallSource, outer: tuple[Scope, ...]) -> Scope:
    call = item.call
    declared = table_function(context.declarations, call.name)
    if declared is not None:
        found = call_table_function(context, *declared, call, outer, bind_item)
        return visible_only(found, item.span)
    function = _python_function(context, call)
    if function is not None:
        reader = context.catalog.reader_of(function)
        if reader is not None:
            return _reader(context, call, reader)
        return visible_only(_rows_of(context, call, outer), item.span)
    if len(call.name) > 1:
        raise no_table_function(context, call, call.name_span or call.span)
    name = call.name[-1].lower()
    if name == "duckdb":
        return duckdb_query(context, call)
    if name in READERS:
        return _reader(context, call, READERS[name])
    readers = [*READERS]
    if name.startswith("read_") and name not in FILE_FUNCTIONS:
        readers += context.catalog.own_readers()
        if name in readers:
            return _reader(context, call, name)
    facts = context.catalog.function(name)
    is_reader = name.startswith("read_") and name not in FILE_FUNCTIONS
    if facts is None or not facts.kinds & {"table", "table_macro"} or is_reader:
        own = context.declarations.table_functions
        names = [*readers, *FILE_FUNCTIONS, "range", "generate_series", "duckdb", *own]
        near = nearest(name, names)
        raise BindError(
            f'"{name}" is no table function',
            code="N203",
            span=call.name_span or call.span,
            hint=did_you_mean(near) or f"readers: {', '.join(readers)}",
            candidates=near,
        )
    if name not in ("range", "generate_series", *FILE_FUNCTIONS):
        raise BindError(
            f"the table function {name} cannot be used here",
            code="P402",
            span=call.span,
            hint=f"in DuckDB's own words: FROM duckdb($$ FROM {name}(..) $$)",
        )
    binder = ExpressionBinder(context, outer or (Scope(lp.Values((), ()), ()),))
    args = tuple(binder.bind(a) for a in call.args if not isinstance(a, ex.NamedArgument))
    for arg in args:
        no_python(arg, name)
    schema = context.at(call.span, lambda: context.catalog.table_function(name, args))
    columns = tuple(context.names.column(f.name, f.type) for f in schema)
    plan = lp.TableFunction(name, args, columns, schema.names)
    named = zip(schema.names, columns, strict=True)
    return Scope(plan, tuple(Visible(name, column) for name, column in named))


def _python_function(context: Context, call: ex.Call) -> PythonFunction | None:
    """The Python function of that name; None when it is no such name."""
    if len(call.name) == 1:
        return context.declarations.functions.get(call.name[0])
    module = context.declarations.modules.get(call.name[0])
    if len(call.name) > 2 or module is None:
        return None
    if call.name[1] not in module:
        raise unknown("function", call.name[1], list(module), call.name_span or call.span, "N203")
    return module[call.name[1]]


def _rows_of(context: Context, call: ex.Call, outer: tuple[Scope, ...]) -> Scope:
    """The records that one call of a Python function gives."""
    row = ast.ValuesSource(((ex.Literal(1, span=call.span),),), span=call.span)
    made = ast.MapRows(
        "FLATMAP",
        call.name,
        call.args,
        is_source=True,
        function_span=call.name_span,
        span=call.span,
    )
    return context.bind_query(ast.Query((row,), (made,), span=call.span), outer)


def _reader(context: Context, call: ex.Call, format_name: str) -> Scope:
    positional = [a for a in call.args if not isinstance(a, ex.NamedArgument)]
    if len(positional) != 1:
        raise BindError(
            f"{call.name[-1]} takes one path or list of paths", code="T307", span=call.span
        )
    options = {
        a.name: constant_value(context, a.value)
        for a in call.args
        if isinstance(a, ex.NamedArgument)
    }
    value = constant_value(context, positional[0])
    paths = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not paths or not all(isinstance(p, str) for p in paths):
        raise BindError(
            f"{call.name[-1]} takes one path or list of paths", code="T307", span=call.span
        )
    spans = {a.name: a.span for a in call.args if isinstance(a, ex.NamedArgument)}
    place = positional[0].span or call.span
    reading = of_options(options, spans, call.span)
    try:
        return _files(context, paths, format_name, reading, place)
    except ZqlError as error:
        if error.span == place:
            error.span = option_place(error, options, spans) or place
        raise


def option_place(
    error: ZqlError, options: Mapping[str, Any], spans: Mapping[str, Span | None]
) -> Span | None:
    """The place of the option whose name, or else whose value, stands in quotes in the message."""
    quoted = error.message.split('"')[1::2]
    found = [n for n in options if n.lower() in quoted]
    found += [n for n, value in options.items() if isinstance(value, str) and value in quoted]
    return spans.get(found[0]) if found else None


def _values(
    context: Context, item: ast.ValuesSource, outer: tuple[Scope, ...], wanted: tuple[str, ...]
) -> Scope:
    width = len(item.rows[0])
    scopes = outer or (Scope(lp.Values((), ()), ()),)
    binder = ExpressionBinder(context, scopes, row_by_row="VALUES")
    rows = []
    for row in item.rows:
        rows.append(tuple(binder.bind(e) for e in row))
        for cell in rows[-1]:
            no_python(cell, "VALUES")
    types = []
    for i in range(width):
        cells = [row[i] for row in rows]
        found = binder.types(cells)
        try:
            types.append(context.catalog.common_type(found))
        except TypeProblem as problem:
            raise type_error(problem, cells[0].span) from None
    names = [wanted[i] if i < len(wanted) else f"col{i}" for i in range(width)]
    columns = tuple(context.names.column(n, t) for n, t in zip(names, types, strict=True))
    visible = tuple(Visible(n, c) for n, c in zip(names, columns, strict=True))
    return Scope(lp.Values(columns, tuple(rows)), visible)
