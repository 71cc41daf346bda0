"""Formats of a user's own, which keep the contract as ZQL's formats do."""

import json
from collections.abc import Iterator

import pyarrow as pa
import zql


@zql.format("rows")
class Rows:
    """A dict as JSON on each line, read and written as a stream, whole files only."""

    def read(self, file):
        for line in file:
            yield json.loads(line)

    def write(self, rows, file):
        for row in rows:
            file.write(json.dumps(row).encode() + b"\n")


@zql.format("blocks")
class Blocks:
    """A file of Arrow, read block by block; a block has 16 rows, however they come."""

    def schema(self, path) -> pa.Schema:
        return pa.ipc.open_file(path).schema

    def splits(self, path):
        return list(range(pa.ipc.open_file(path).num_record_batches))

    def read(self, path, part=None):
        file = pa.ipc.open_file(path)
        for number in range(file.num_record_batches) if part is None else [part]:
            yield file.get_batch(number)

    def write(self, rows: Iterator[pa.RecordBatch], path, *, schema):
        found = [row for batch in rows for row in batch.to_pylist(maps_as_pydicts="strict")]
        table = pa.Table.from_pylist(found, schema)  # with the same bytes, however the rows came
        with pa.ipc.new_file(path, schema) as writer:
            writer.write_table(table, max_chunksize=16)
