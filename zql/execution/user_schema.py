"""The columns of a user's format: said by an annotation or by its `schema`, or seen on rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zql.errors import InternalError, UdfError, UsageError
from zql.execution import kinds
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.observed import NULL, NoType, kind_of, merged, settled
from zql.execution.results import mapping_of
from zql.execution.signature import fields_of
from zql.execution.signature import kind_of as annotated_kind
from zql.schema import DataType
from zql.storage import scan
from zql.storage.format import SqlEngine
from zql.storage.widening import widest

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.user_method import UserMethod
    from zql.execution.user_reading import Reading, Taken


def annotated(reader: UserMethod) -> dict[str, DataType]:
    """The columns that a reader's annotation says: an iterator of a TypedDict, for example."""
    annotation = reader.hints.get("return")
    kind = None if annotation is None or isinstance(annotation, str) else annotated_kind(annotation)
    return {f.name: f.type for f in fields_of(kind) or ()}


def united(files: Iterable[Mapping[str, Kind]]) -> dict[str, DataType]:
    """The columns of several files by name, each of a type for all; VARCHAR where only None was."""
    found: dict[str, Kind] = {}
    for columns in files:
        for name, kind in columns.items():
            found[name] = _common(found.get(name, NULL), kind)
    return {name: str(settled(kind)) for name, kind in found.items()}


def _common(one: Kind, other: Kind) -> Kind:
    try:
        return merged(one, other)
    except NoType:
        return kinds.parse(widest(str(settled(one)), str(settled(other))))


def told(found: Any, name: str, engine: SqlEngine) -> dict[str, Kind]:
    """The columns that a method `schema` gave. Raises `UdfError` for what is no schema."""
    import pyarrow as pa

    if isinstance(found, pa.Schema):
        return {field.name: of_arrow(field.type) for field in found}
    if isinstance(found, Mapping):
        return {str(n): _told_kind(str(n), type_, name, engine) for n, type_ in found.items()}
    fields = fields_of(annotated_kind(found))
    if fields is None:
        raise UdfError(
            f"{name} gave {show(found)}, which is no schema",
            code="R711",
            hint="a dict such as {'id': 'BIGINT'}, a TypedDict, or a schema of pyarrow",
        )
    return {f.name: kinds.parse(f.type) for f in fields}


def _told_kind(column: str, type_: Any, name: str, engine: SqlEngine) -> Kind:
    import pyarrow as pa

    kind = None
    if isinstance(type_, str):
        with suppress(UsageError):
            kind = kinds.parse(scan.canonical_types({column: type_}, engine)[column])
    else:
        kind = of_arrow(type_) if isinstance(type_, pa.DataType) else annotated_kind(type_)
    if kind is None:
        raise UdfError(
            f"{name} gave {show(type_)} for {show(column)}, which is no type",
            code="R711",
            hint="a type as DuckDB writes it ('BIGINT'), or an annotation (int)",
        )
    return kind


def seen(taken: Taken, reading: Reading) -> dict[str, Kind]:
    """The columns of the first rows that a reader gave. Raises `UdfError`."""
    found: dict[str, Kind] = {}
    try:
        for record in taken.records:
            # Column by column: names that differ in case only are fine for columns.
            for name, value in _record(record, reading).items():
                found[name] = merged(found.get(name, NULL), kind_of(value))
    except NoType as error:
        raise UdfError(
            f"{reading.function} on {reading.place} has no one type for a column: {error}",
            code="R711",
            hint="an annotation or the method schema says what the columns are",
        ) from None
    if taken.table is not None:
        for field in taken.table.schema:
            found.setdefault(field.name, of_arrow(field.type))
    return found


def _record(value: Any, reading: Reading) -> Mapping[str, Any]:
    """A row as a mapping; None is no row of any columns."""
    if value is None:
        return {}
    with suppress(Misfit):
        record = mapping_of(value, 0)
        if record is not None:
            return record
    raise UdfError(
        f"{reading.function} on {reading.place} gave {show(value)}, where a reader gives rows",
        code="R711",
        hint="yield dicts, or tables",
    )


def of_arrow(type_: pa.DataType) -> Kind:
    """The type for a column of Arrow; VARCHAR for one that is none of DuckDB's."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return of_arrow(type_.value_type)
    if types.is_struct(type_):
        return Kind("STRUCT", tuple((field.name, of_arrow(field.type)) for field in type_))
    if types.is_map(type_):
        return Kind(
            "MAP", (("key", of_arrow(type_.key_type)), ("value", of_arrow(type_.item_type)))
        )
    if types.is_fixed_size_list(type_):
        return Kind("ARRAY", (("", of_arrow(type_.value_type)),), (type_.list_size,))
    if types.is_list(type_) or types.is_large_list(type_) or types.is_list_view(type_):
        return Kind("LIST", (("", of_arrow(type_.value_type)),))
    if types.is_decimal(type_):
        return Kind("DECIMAL", numbers=(min(type_.precision, 38), type_.scale))
    if types.is_timestamp(type_):
        units = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
        return Kind("TIMESTAMP WITH TIME ZONE" if type_.tz else units[type_.unit])
    return Kind(_scalar(type_))


def _scalar(type_: pa.DataType) -> str:
    from pyarrow import types

    tests = (
        (types.is_boolean, "BOOLEAN"),
        (types.is_date, "DATE"),
        (types.is_time, "TIME"),
        (types.is_null, "NULL"),
        (types.is_duration, "INTERVAL"),
        (types.is_interval, "INTERVAL"),
        (types.is_float16, "FLOAT"),
        (types.is_float32, "FLOAT"),
        (types.is_float64, "DOUBLE"),
    )
    for test, name in tests:
        if test(type_):
            return name
    if any(test(type_) for test in (types.is_binary, types.is_large_binary, types.is_binary_view)):
        return "BLOB"
    if types.is_fixed_size_binary(type_):
        return "BLOB"
    for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
        for prefix in ("", "U"):
            try:
                if kinds.arrow_type(Kind(prefix + name)) == type_:
                    return prefix + name
            except InternalError:
                continue
    return "VARCHAR"
