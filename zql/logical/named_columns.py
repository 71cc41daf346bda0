"""Which columns of its files a query can name: the only ones whose types must be found.

To know the columns of JSON lines or CSV, every row must be read; a query that names the few it
uses need not pay for the rest.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.syntax import ast
from zql.tree import Node, walk

_ENDS = ast.Select | ast.Aggregate | ast.SelectSource
"""Behind these there are other columns."""


def named_columns(query: ast.Query) -> frozenset[str] | None:
    """Names that a query over one set of files uses; None when it may use all of them.

    Only WHERE and ORDER BY may stand before the SELECT or AGGREGATE that ends what the files'
    columns can reach. Names of modules are among them: a column may be called like one.
    """
    alias = ""
    items: tuple[ast.FromItem, ...] = query.items
    operators: tuple[Node, ...] = query.operators
    if len(items) == 1 and isinstance(items[0], ast.SelectSource):
        # All its clauses see the input, and nothing behind it does.
        whole = replace(items[0], sources=())
        items, operators = items[0].sources, (whole,)
    if len(items) != 1:
        return None
    item = items[0]
    if isinstance(item, ast.Aliased):
        if item.columns:
            return None
        alias = item.alias.text if item.alias else ""
        item = item.item
    if not isinstance(item, ast.PathSource | ast.CallSource | ast.ParameterSource):
        return None
    names: set[str] = set()
    for operator in operators:
        if any(isinstance(n, ast.OnError) and n.into is not None for n in walk(operator)):
            return None  # rejects have all columns
        found = _names(operator, alias)
        if found is None or not isinstance(operator, ast.Where | ast.OrderBy | _ENDS):
            return None
        names |= found
        if isinstance(operator, _ENDS):
            return frozenset(names)
    return None


def _names(operator: Node, alias: str) -> set[str] | None:
    names: set[str] = set()
    variables: set[str] = set()
    for node in walk(operator):
        match node:
            case ex.Subquery() | ex.Star() | ex.Columns():
                return None
            case ex.Lambda():
                variables.update(node.parameters)
            case ex.Comprehension():
                variables.add(node.variable)
            case ex.Name():
                if alias and node.parts[0].casefold() == alias.casefold():
                    if len(node.parts) == 1:
                        return None
                    names.add(node.parts[1])
                else:
                    names.add(node.parts[0])
            case ex.Call() if len(node.name) > 1:
                names.add(node.name[0])
    return names - variables
