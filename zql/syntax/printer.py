"""AST to canonical text: names of unnamed columns, EXPLAIN SYNTAX, and whatever shows ZQL."""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.syntax import ast
from zql.syntax.expression_printer import (
    SYMBOL,
    Texts,
    column_text,
    nulls_text,
    renders,
    string_text,
)
from zql.syntax.names import identifier_text
from zql.tree import Node, walk


def expression_text(expr: Node) -> str:
    """An expression (or any other node but a bound plan) on one line."""
    texts = Texts()
    for node in reversed(list(walk(expr))):
        texts.add(node)
    return texts(expr)


def expression_name(expr: ex.Expr) -> str:
    """What a column without alias is called: the last part of a path, else the text."""
    match expr:
        case ex.Name(parts):
            return parts[-1]
        case ex.FieldAccess(field_name=name):
            return name
        case _:
            return expression_text(expr)


def print_query(query: ast.Query) -> str:
    """A query with one operator on each line."""
    operators = [f"|> {expression_text(operator)}" for operator in query.operators]
    head = expression_text(replace(query, operators=())) if query.items else None
    return "\n".join(([head] if head else []) + operators)


def print_statement(statement: ast.Statement) -> str:
    """A statement without its `;`."""
    match statement:
        case ast.QueryStatement(query):
            return print_query(query)
        case ast.CreateView(name, query, replaces):
            words = "CREATE OR REPLACE TEMP VIEW" if replaces else "CREATE TEMP VIEW"
            return f"{words} {identifier_text(name.text)} AS\n{print_query(query)}"
        case ast.CreateTable(name, query, replaces):
            words = "CREATE OR REPLACE TEMP TABLE" if replaces else "CREATE TEMP TABLE"
            return f"{words} {identifier_text(name.text)} AS\n{print_query(query)}"
        case ast.CreateFunction(name, parameters, body, returns, replaces):
            words = "CREATE OR REPLACE TEMP FUNCTION" if replaces else "CREATE TEMP FUNCTION"
            result = f" RETURNS {returns}" if returns else ""
            head = f"{words} {identifier_text(name.text)}({_parameters(parameters)}){result}"
            return f"{head} AS ({expression_text(body)})"
        case ast.CreateTableFunction(name, parameters, query, replaces):
            words = "CREATE OR REPLACE TEMP TABLE" if replaces else "CREATE TEMP TABLE"
            head = f"{words} FUNCTION {identifier_text(name.text)}({_parameters(parameters)})"
            return f"{head} AS\n{print_query(query)}"
        case ast.ImportScript(path, alias):
            return f"IMPORT MODULE {string_text(path)}{_as(alias)}"
        case ast.Summarize(query):
            return f"SUMMARIZE\n{print_query(query)}"
        case ast.Show(what, operators):
            lines = [f"|> {expression_text(operator)}" for operator in operators]
            return "\n".join([f"SHOW {what}", *lines])
        case ast.AssertStatement(condition, message):
            said = f" AS {string_text(message)}" if message is not None else ""
            return f"ASSERT {expression_text(condition)}{said}"
        case ast.Explain(query, level):
            return f"EXPLAIN{'' if level == 'STAGES' else ' ' + level}\n{print_query(query)}"
        case ast.Describe(query):
            return f"DESCRIBE\n{print_query(query)}"
        case ast.Declare(name, type, default):
            value = f" DEFAULT {expression_text(default)}" if default is not None else ""
            return f"DECLARE {identifier_text(name.text)} {type}{value}"
        case ast.ImportPython(target, is_path, alias):
            what = string_text(target) if is_path else target
            return f"IMPORT PYTHON {what}{_as(alias)}"
        case ast.SetOption(name, value):
            return f"SET {_any(name)} = {expression_text(value)}"


def print_script(script: ast.Script) -> str:
    """A script: each statement with its `;`, an empty line between."""
    return "\n\n".join([print_statement(s) + ";" for s in script.statements]) + "\n"


def _parameters(parameters: tuple[ast.FunctionParameter, ...]) -> str:
    return ", ".join([_parameter(parameter) for parameter in parameters])


def _parameter(node: ast.FunctionParameter) -> str:
    value = f" DEFAULT {expression_text(node.default)}" if node.default is not None else ""
    return f"{_any(node.name)} {node.type}{value}"


def _any(name: ast.Identifier) -> str:
    return identifier_text(name.text, any_word=True)


def _as(alias: ast.Identifier | None) -> str:
    return f" AS {_any(alias)}" if alias else ""


def _names(names: tuple[ast.Identifier, ...]) -> str:
    return f"({', '.join([_any(name) for name in names])})"


# ---- queries and FROM --------------------------------------------------------------------------


@renders(ast.Query)
def _query(node: ast.Query, of: Texts) -> str:
    parts = [f"WITH {of.list(node.common)}"] if node.common else []
    if len(node.items) == 1 and isinstance(node.items[0], ast.ValuesSource | ast.SelectSource):
        parts.append(of(node.items[0]))
    elif node.items:
        parts.append(f"FROM {of.list(node.items)}")
    parts += [f"|> {of(operator)}" for operator in node.operators]
    return " ".join(parts)


@renders(ast.CommonQuery)
def _common_query(node: ast.CommonQuery, of: Texts) -> str:
    columns = _names(node.columns) if node.columns else ""
    return f"{identifier_text(node.name.text)}{columns} AS ({of(node.query)})"


@renders(ast.SelectSource)
def _select_source(node: ast.SelectSource, of: Texts) -> str:
    words = ["SELECT"]
    if node.distinct:
        words.append("DISTINCT")
    if isinstance(node.distinct, tuple):
        words.append(f"ON ({of.list(node.distinct)})")
    words.append(of.list(node.items))
    if node.sources:
        words.append(f"FROM {of.list(node.sources)}")
    if node.where is not None:
        words.append(f"WHERE {of(node.where)}")
    if node.keys is not None:
        words.append("GROUP AND ORDER BY" if node.ordered else "GROUP BY")
        words.append(of.list(node.keys) if node.keys else "ALL")
    if node.having is not None:
        words.append(f"HAVING {of(node.having)}")
    if node.windows:
        words.append(f"WINDOW {of.list(node.windows)}")
    if node.qualify is not None:
        words.append(f"QUALIFY {of(node.qualify)}")
    if node.order:
        words.append(f"ORDER BY {of.list(node.order)}")
    if node.limit is not None:
        words.append(of(node.limit))
    return " ".join(words)


@renders(ast.LateralSource)
def _lateral_source(node: ast.LateralSource, of: Texts) -> str:
    return f"LATERAL ({of(node.query)})"


@renders(ast.Sampled)
def _sampled(node: ast.Sampled, of: Texts) -> str:
    return f"{_operand(node.item, of)} TABLESAMPLE {of(node.sample)}"


@renders(ast.Sample)
def _sample(node: ast.Sample, of: Texts) -> str:
    unit = "PERCENT" if node.method == "BERNOULLI" else "ROWS"
    partition = f" PARTITION BY {of.list(node.partition)}" if node.partition else ""
    seed = f" REPEATABLE ({of(node.seed)})" if node.seed is not None else ""
    return f"{node.method} ({of(node.size)} {unit}{partition}){seed}"


@renders(ast.PathSource)
def _path_source(node: ast.PathSource, _: Texts) -> str:
    paths = ", ".join([string_text(path) for path in node.paths])
    return paths if len(node.paths) == 1 else f"[{paths}]"


@renders(ast.NameSource)
def _name_source(node: ast.NameSource, _: Texts) -> str:
    return identifier_text(node.name)


@renders(ast.ParameterSource)
def _parameter_source(node: ast.ParameterSource, _: Texts) -> str:
    return f"${node.name}"


@renders(ast.CallSource)
def _call_source(node: ast.CallSource, of: Texts) -> str:
    return of(node.call)


@renders(ast.QuerySource)
def _query_source(node: ast.QuerySource, of: Texts) -> str:
    return f"({of(node.query)})"


@renders(ast.UnnestSource)
def _unnest_source(node: ast.UnnestSource, of: Texts) -> str:
    return f"UNNEST({of(node.list)})" + _position(node)


@renders(ast.ValuesSource)
def _values_source(node: ast.ValuesSource, of: Texts) -> str:
    return "VALUES " + ", ".join([f"({of.list(row)})" for row in node.rows])


@renders(ast.Aliased)
def _aliased(node: ast.Aliased, of: Texts) -> str:
    columns = _names(node.columns) if node.columns else ""
    alias = _as(node.alias) + columns
    if isinstance(node.item, ast.UnnestSource):
        return f"UNNEST({of(node.item.list)}){alias}{_position(node.item)}"
    return f"{_operand(node.item, of)}{alias}"


def _operand(item: ast.FromItem, of: Texts) -> str:
    return f"({of(item)})" if isinstance(item, ast.Joined) else of(item)


@renders(ast.Joined)
def _joined(node: ast.Joined, of: Texts) -> str:
    return f"{of(node.left)} {_join(node, of)}"


def _join(node: ast.Joined | ast.Join, of: Texts) -> str:
    words = ["NATURAL"] if node.natural else []
    words += [] if node.kind == "INNER" else [node.kind]
    words += ["JOIN" + _hinted(node, of)]
    words.append(_operand(node.right, of))
    if node.on is not None:
        words.append(f"ON {of(node.on)}")
    if node.using:
        words.append(f"USING {_names(node.using)}")
    return " ".join(words)


def _hinted(node: ast.PipeOperator | ast.Joined, of: Texts) -> str:
    return f" @{{{of.list(node.hints)}}}" if node.hints else ""


@renders(ast.Option)
def _option(node: ast.Option, of: Texts) -> str:
    name = ".".join([identifier_text(part, any_word=True) for part in node.name.split(".")])
    return f"{name} = {of(node.value)}"


@renders(ast.Identifier)
def _identifier(node: ast.Identifier, _: Texts) -> str:
    return identifier_text(node.text)


# ---- operators ---------------------------------------------------------------------------------


@renders(ast.Where)
def _where(node: ast.Where, of: Texts) -> str:
    return f"WHERE{_hinted(node, of)} {of(node.predicate)}{_on_error(node.on_error)}"


@renders(ast.Select)
def _select(node: ast.Select, of: Texts) -> str:
    words = f"SELECT{_hinted(node, of)}" + (" DISTINCT" if node.distinct else "")
    return f"{words} {of.list(node.items)}{_windows(node.windows, of)}{_on_error(node.on_error)}"


@renders(ast.Extend)
def _extend(node: ast.Extend, of: Texts) -> str:
    words = f"EXTEND{_hinted(node, of)}"
    return f"{words} {of.list(node.items)}{_windows(node.windows, of)}{_on_error(node.on_error)}"


@renders(ast.SelectItem)
def _select_item(node: ast.SelectItem, of: Texts) -> str:
    return of(node.expr) + _as(node.alias)


def _windows(windows: tuple[ast.NamedWindow, ...], of: Texts) -> str:
    return f" WINDOW {of.list(windows)}" if windows else ""


@renders(ast.NamedWindow)
def _named_window(node: ast.NamedWindow, of: Texts) -> str:
    return f"{identifier_text(node.name.text)} AS ({of(node.window)})"


@renders(ast.OnError)
def _on_error_node(node: ast.OnError, _: Texts) -> str:
    return _on_error(node).lstrip()


def _on_error(node: ast.OnError | None) -> str:
    if node is None:
        return ""
    into = f" INTO {string_text(node.into)}" if node.into is not None else ""
    limit = f" LIMIT {node.limit}" if node.limit else ""
    return f" ON ERROR {node.action}{into}{limit}"


@renders(ast.Set)
def _set(node: ast.Set, of: Texts) -> str:
    return f"SET{_hinted(node, of)} {of.list(node.assignments)}{_on_error(node.on_error)}"


@renders(ast.Assignment)
def _assignment(node: ast.Assignment, of: Texts) -> str:
    return f"{column_text(node.target)} = {of(node.expr)}"


@renders(ast.Drop)
def _drop(node: ast.Drop, of: Texts) -> str:
    words = f"DROP{_hinted(node, of)}" + (" IF EXISTS" if node.if_exists else "")
    return f"{words} {', '.join([column_text(column) for column in node.columns])}"


@renders(ast.Rename)
def _rename(node: ast.Rename, of: Texts) -> str:
    return f"RENAME{_hinted(node, of)} {of.list(node.renamings)}"


@renders(ast.Renaming)
def _renaming(node: ast.Renaming, _: Texts) -> str:
    return f"{column_text(node.old)} AS {_any(node.new)}"


@renders(ast.As)
def _as_operator(node: ast.As, _: Texts) -> str:
    return f"AS {_any(node.alias)}"


@renders(ast.Aggregate)
def _aggregate(node: ast.Aggregate, of: Texts) -> str:
    parts = [f"AGGREGATE{_hinted(node, of)}"]
    if node.items:
        parts.append(of.list(node.items))
    if node.keys:
        parts.append("GROUP AND ORDER BY" if node.ordered else "GROUP BY")
        parts.append(of.list(node.keys))
    return " ".join(parts)


@renders(ast.AggregateItem)
def _aggregate_item(node: ast.AggregateItem, of: Texts) -> str:
    order = f" {node.order}" if node.order else ""
    return of(node.expr) + _as(node.alias) + order + nulls_text(node.nulls_first)


@renders(ast.Distinct)
def _distinct(node: ast.Distinct, of: Texts) -> str:
    word = f"DISTINCT{_hinted(node, of)}"
    if not node.on:
        return word
    order = f" ORDER BY {of.list(node.order)}" if node.order else ""
    return f"{word} ON ({of.list(node.on)}){order}"


@renders(ast.OrderBy)
def _order_by(node: ast.OrderBy, of: Texts) -> str:
    return f"ORDER{_hinted(node, of)} BY {of.list(node.keys)}"


@renders(ast.Limit)
def _limit(node: ast.Limit, of: Texts) -> str:
    hints = _hinted(node, of)
    if node.count is None:
        return f"OFFSET{hints} {of(node.offset)}" if node.offset is not None else ""
    offset = f" OFFSET {of(node.offset)}" if node.offset is not None else ""
    return f"LIMIT{hints} {of(node.count)}{offset}"


@renders(ast.Join)
def _join_operator(node: ast.Join, of: Texts) -> str:
    return _join(node, of)


@renders(ast.SetOperation)
def _set_operation(node: ast.SetOperation, of: Texts) -> str:
    words = [node.kind]
    if node.all is not None:
        words.append("ALL" if node.all else "DISTINCT")
    words[-1] += _hinted(node, of)
    if node.by_name:
        words.append("BY NAME")
    return " ".join([*words, ", ".join([f"({of(query)})" for query in node.queries])])


@renders(ast.Unnest)
def _unnest(node: ast.Unnest, of: Texts) -> str:
    word = ("LEFT " if node.outer else "") + f"UNNEST{_hinted(node, of)}"
    return f"{word} {of(node.list)}{_as(node.alias)}{_position(node)}"


def _position(node: ast.Unnest | ast.UnnestSource) -> str:
    if node.position is None:
        return ""
    return f" WITH {'ORDINALITY' if node.one_based else 'OFFSET'}{_as(node.position)}"


@renders(ast.MapRows)
def _map_rows(node: ast.MapRows, of: Texts) -> str:
    words = [node.kind + _hinted(node, of)]
    first, *rest = node.function
    name = f'"{first}"' if first.upper() in ("BATCHES", "SHARDS") else identifier_text(first)
    name = ".".join([name, *(identifier_text(part, any_word=True) for part in rest)])
    words.append(name + (f"({of.list(node.args)})" if node.args else ""))
    if node.returns:
        words.append(f"RETURNS ({of.list(node.returns)})")
    return " ".join(words) + _on_error(node.on_error)


@renders(ast.ReturnColumn)
def _return_column(node: ast.ReturnColumn, _: Texts) -> str:
    return f"{identifier_text(node.name, any_word=True)} {node.type}"


@renders(ast.Write)
def _write(node: ast.Write, of: Texts) -> str:
    options = f" OPTIONS ({of.list(node.options)})" if node.options else ""
    return f"WRITE{_hinted(node, of)} {of(node.uri)}{options}"


# ---- several pipes, and what changes the shape -------------------------------------------------


def _subpipe(pipe: ast.Subpipe, of: Texts) -> str:
    return f"({' '.join([f'|> {of(operator)}' for operator in pipe])})"


def _subpipes(pipes: tuple[ast.Subpipe, ...], of: Texts) -> str:
    return ", ".join([_subpipe(pipe, of) for pipe in pipes])


@renders(ast.RecursiveUnion)
def _recursive_union(node: ast.RecursiveUnion, of: Texts) -> str:
    words = ["RECURSIVE UNION"]
    if node.all is not None:
        words.append("ALL" if node.all else "DISTINCT")
    if node.by_name:
        words.append("BY NAME")
    return " ".join([*words, f"({of(node.step)})"]) + _as(node.alias)


@renders(ast.Pivot)
def _pivot(node: ast.Pivot, of: Texts) -> str:
    columns = f"{of.list(node.aggregates)} FOR {of(node.input, SYMBOL)} IN ({of.list(node.values)})"
    return f"PIVOT{_hinted(node, of)} ({columns}){_as(node.alias)}"


@renders(ast.Unpivot)
def _unpivot(node: ast.Unpivot, of: Texts) -> str:
    nulls = " INCLUDE NULLS" if node.include_nulls else ""
    columns = f"{_any(node.value)} FOR {_any(node.name)} IN ({of.list(node.columns)})"
    return f"UNPIVOT{nulls} ({columns}){_as(node.alias)}"


@renders(ast.UnpivotColumn)
def _unpivot_column(node: ast.UnpivotColumn, _: Texts) -> str:
    label = f" AS {string_text(node.label)}" if node.label is not None else ""
    return column_text(node.column) + label


@renders(ast.TableSample)
def _table_sample(node: ast.TableSample, of: Texts) -> str:
    return f"TABLESAMPLE {of(node.sample)}"


def _into_shards(shards: ex.Expr | None, of: Texts) -> str:
    return f" INTO {of(shards)} SHARDS" if shards is not None else ""


@renders(ast.Shuffle)
def _shuffle(node: ast.Shuffle, of: Texts) -> str:
    seed = f" SEED {of(node.seed)}" if node.seed is not None else ""
    return f"SHUFFLE{_hinted(node, of)}{seed}{_into_shards(node.shards, of)}"


@renders(ast.Distribute)
def _distribute(node: ast.Distribute, of: Texts) -> str:
    keys = f" BY {of.list(node.keys)}" if node.keys else ""
    return f"DISTRIBUTE{_hinted(node, of)}{keys}{_into_shards(node.shards, of)}"


@renders(ast.PartitionBy)
def _partition_by(node: ast.PartitionBy, of: Texts) -> str:
    keys = of.list(node.keys)
    return f"PARTITION{_hinted(node, of)} BY {keys} THEN {_subpipe(node.pipe, of)}"


@renders(ast.Switch)
def _switch(node: ast.Switch, of: Texts) -> str:
    words = ["SWITCH"]
    words += [f"WHEN {of(e)} THEN {_subpipe(pipe, of)}" for e, pipe in node.branches]
    return " ".join(words) + _otherwise(node.otherwise, of)


@renders(ast.If)
def _if(node: ast.If, of: Texts) -> str:
    parts = [f"IF {of(e)} THEN {_subpipe(pipe, of)}" for e, pipe in node.branches]
    return " ELSE".join(parts) + _otherwise(node.otherwise, of)


def _otherwise(pipe: ast.Subpipe | None, of: Texts) -> str:
    return f" ELSE {_subpipe(pipe, of)}" if pipe is not None else ""


@renders(ast.Tee)
def _tee(node: ast.Tee, of: Texts) -> str:
    return f"TEE {_subpipes(node.pipes, of)}" if node.pipes else "TEE"


@renders(ast.Fork)
def _fork(node: ast.Fork, of: Texts) -> str:
    return f"FORK {_subpipes(node.pipes, of)}"


@renders(ast.With)
def _with(node: ast.With, of: Texts) -> str:
    return f"WITH {of.list(node.common)}"


@renders(ast.CallTable)
def _call_table(node: ast.CallTable, of: Texts) -> str:
    args = f"({of.list(node.args)})" if node.args else ""
    return f"CALL{_hinted(node, of)} {of(node.function)}{args}{_as(node.alias)}"


@renders(ast.Assert)
def _assert(node: ast.Assert, of: Texts) -> str:
    return f"ASSERT {of.list((node.condition, *node.payload))}"


@renders(ast.DescribeRows)
def _describe_rows(_node: ast.DescribeRows, _: Texts) -> str:
    return "DESCRIBE"


@renders(ast.Finish)
def _finish(_node: ast.Finish, _: Texts) -> str:
    return "FINISH"


@renders(ast.StoreTable)
def _store_table(node: ast.StoreTable, _: Texts) -> str:
    words = "CREATE OR REPLACE TEMP TABLE" if node.replace else "CREATE TEMP TABLE"
    return f"{words} {identifier_text(node.name.text)}"
