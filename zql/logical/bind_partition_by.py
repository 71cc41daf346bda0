"""The option `partition_by` of WRITE: which columns name the folders of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zql.errors import BindError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.logical.catalog import WriteTarget
from zql.source import Span

_NESTED = ("STRUCT(", "MAP(", "UNION(")


def by_partition(
    target: WriteTarget,
    names: Sequence[str],
    columns: Sequence[ex.Column],
    places: Mapping[str, Span | None],
) -> WriteTarget:
    """The target with the columns that `partition_by` names as they are called.

    `names` are the users' names of `columns`; `places` has where the script names a column, and
    under `""` the option. Raises `BindError`.
    """
    options = dict(target.options)
    wanted: Sequence[str] = options.get("partition_by", ())
    if not wanted:
        return target
    found: list[str] = []
    for name in wanted:
        place = places.get(name) or places.get("")
        own = _own_name(name, names, columns, place)
        if own in found:
            raise BindError(
                f'partition_by names "{own}" twice',
                code="P450",
                span=place,
                hint="leave one of them away",
            )
        found.append(own)
    if len(found) == len(columns) and not options.get("write_partition_columns"):
        raise BindError(
            "partition_by names all columns, and none is left for the files",
            code="P452",
            span=places.get(""),
            hint="write_partition_columns = true writes them into the files too",
        )
    told = tuple((n, tuple(found) if n == "partition_by" else v) for n, v in target.options)
    return replace(target, options=told)


def items_of(value: ex.Expr) -> Sequence[ex.Expr]:
    """What a list holds; a single value is its own."""
    return value.items if isinstance(value, ex.Array | ex.Row) else (value,)


def check_names(value: ex.Expr) -> None:
    """Raises `BindError` for what is computed: folders are named by columns."""
    for item in items_of(value):
        if isinstance(item, ex.Call) or (isinstance(item, ex.Name) and len(item.parts) > 1):
            raise BindError(
                "partition_by takes names of columns",
                code="P451",
                span=item.span,
                hint="make a column of it first: |> EXTEND .. AS key |> WRITE ..",
            )


def _own_name(
    name: str, names: Sequence[str], columns: Sequence[ex.Column], place: Span | None
) -> str:
    """What the column is called that a script names, in any case, and can partition by."""
    pairs = list(zip(names, columns, strict=True))
    found = [p for p in pairs if p[0] == name]
    found = found or [p for p in pairs if p[0].casefold() == name.casefold()]
    if len(found) != 1:
        guess = nearest(name, list(names))
        raise BindError(
            f'partition_by names "{name}", which is no column of the rows that are written',
            code="P451",
            span=place,
            hint=did_you_mean(guess) or f"the columns are {', '.join(names)}",
            candidates=guess,
        )
    own, column = found[0]
    if column.type.endswith("]") or column.type.startswith(_NESTED):
        raise BindError(
            f'partition_by: the values of "{own}" are {column.type}, which cannot name folders',
            code="P453",
            span=place,
            hint="a text, a number, a date or a BOOLEAN can",
        )
    return own
