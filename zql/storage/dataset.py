"""Files as a table: their format, their options checked, and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from zql.errors import StorageError, UsageError
from zql.schema import Field, InputFile, Schema
from zql.storage import hive, listing, manifest, registry, scan
from zql.storage import options as option_names
from zql.storage.format import Format, ReadColumn, SqlEngine
from zql.tree import node

VIRTUAL = {"filename": "VARCHAR", "file_row_number": "BIGINT"}
"""Columns that every table of files has on demand, unless the files have their own."""


@node
class Dataset:
    """Files of one format. `schema` holds the columns of the files, then those of the folders.

    `provisional`: the types come from a look at the heads of the files, not from every row. Scans
    with these options verify them. When that fails (`is_surprise` of DuckDB's message), the script
    must be bound again to a dataset that is not provisional; when a scan has read every row,
    `confirm` keeps what is known now. Columns that were not asked for may be missing.
    """

    format: Format
    files: tuple[InputFile, ...] = field(repr=False)
    options: Mapping[str, Any]
    schema: Schema
    folder_columns: tuple[str, ...] = ()
    provisional: bool = False

    def read_column(self, name: str, alias: str) -> ReadColumn:
        """How to read a column of the schema or a virtual one; KeyError when there is none."""
        for column in self.schema:
            if column.name == name:
                kind = "hive" if name in self.folder_columns else "data"
                return ReadColumn(alias, name, column.type, kind)
        return ReadColumn(alias, name, VIRTUAL[name], scan.VIRTUAL[name])

    def confirm(self) -> None:
        """Tells the cache that a scan over every row has verified a provisional schema."""
        if self.provisional:
            data = {f.name: f.type for f in self.schema if f.name not in self.folder_columns}
            self.format.confirm(self.files, self.options, data)


def open_dataset(
    paths: Sequence[str],
    given: Mapping[str, Any],
    engine: SqlEngine,
    *,
    reader: str | None = None,
    columns: Sequence[str] | None = None,
    provisional: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    own: registry.OwnFormats = registry.NO_OWN,
) -> Dataset:
    """The table behind paths and patterns, with the options as the user gave them.

    `reader` is `read_json`, `read_csv`, `read_parquet` or that of one of the user's `own` formats,
    or None to go by the suffix. With `columns` only these need be found: all words of the script
    that may name one. With `provisional` the schema may be. Raises `StorageError` and `UsageError`.
    """
    chosen = registry.by_reader(reader, own) if reader else None
    suffixes = registry.suffixes([chosen] if chosen else [*registry.FORMATS, *own.listed()])
    inputs = listing.expand(paths, suffixes=suffixes, storage_options=storage_options)
    # `read_csv` on files that are all .tsv takes the tab; its options are the same.
    if chosen is None or (
        chosen.name == "csv"
        and {registry.format_of(f.path) for f in inputs} == {registry.by_name("tsv")}
    ):
        chosen = registry.format_of_all(inputs, own)
    options = option_names.check(given, chosen.read_options, reader or f"a {chosen.name} file")
    quick = chosen.sample(inputs, options, columns) if provisional and columns else None
    exact = columns if quick is None else quick.unsure
    schema = Schema()
    if exact is None or exact:
        with chosen.opened(inputs, options) as source:
            schema = _explained(chosen, scan.files_of(source), options, engine, exact)
    if options.get("sample_size", -1) > 0:
        # What a sample says is from now on a contract, as if the script had written it.
        options["columns"] = {f.name: f.type for f in schema}
        with chosen.opened(inputs, options) as source:
            schema = _explained(chosen, scan.files_of(source), options, engine, None)
    options |= chosen.hints(inputs, options)
    if quick is not None:
        fields = tuple(Field(name, type_) for name, type_ in quick.types.items())
        schema = Schema(fields + schema.fields)
        options.setdefault("max_line_bytes", quick.line_bytes)
        if not quick.verified:
            options["sampled"] = tuple(quick.types)
            options |= {"absent": quick.absent, "as_json": quick.as_json}
    if manifest.may_tell_more(schema.fields, inputs, given):
        known = manifest.columns_without_rows(inputs, engine, storage_options or {})
        wanted = None if columns is None else {name.casefold() for name in columns}
        told = tuple(f for f in known if wanted is None or f.name.casefold() in wanted)
        schema = Schema(told) if known else schema
    schema = Schema(schema.fields + _asked(options, schema))
    folders = Schema()
    if options.get("hive_partitioning", True):
        folders = hive.folder_schema(inputs, schema.names)
    return Dataset(
        chosen,
        tuple(inputs),
        options,
        Schema(schema.fields + folders.fields),
        folders.names,
        quick is not None and not quick.verified,
    )


def _explained(
    chosen: Format,
    inputs: Sequence[InputFile],
    options: Mapping[str, Any],
    engine: SqlEngine,
    columns: Sequence[str] | None,
) -> Schema:
    try:
        return chosen.schema(inputs, options, engine, columns)
    except (StorageError, UsageError):
        raise
    except Exception as error:
        explained = chosen.explain_failure(inputs, options, getattr(error, "message", str(error)))
        if explained is None:
            raise
        raise explained from None


def _asked(options: Mapping[str, Any], schema: Schema) -> tuple[Field, ...]:
    """The columns that options such as `filename => true` put behind those of the files."""
    for name in VIRTUAL:
        if options.get(name) and name in schema.names:
            raise UsageError(
                f'the files have a column "{name}" of their own',
                code="U616",
                hint=f"leave the option {name} out",
            )
    return tuple(Field(name, type_) for name, type_ in VIRTUAL.items() if options.get(name))
