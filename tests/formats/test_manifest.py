"""What a manifest says of files without rows, and what is not believed."""

from __future__ import annotations

import json

import pytest
from zql.schema import InputFile
from zql.storage.manifest import MANIFEST, columns_without_rows


def manifest(folder, columns, rows=0, size=0):
    entry = {"files": {"a.jsonl": {"rows": rows, "bytes": size}}, "columns": columns}
    (folder / MANIFEST).write_text(json.dumps({"version": 1, "targets": {"a.jsonl": entry}}))


def told(engine, folder, size=0):
    found = columns_without_rows([InputFile(f"{folder}/a.jsonl", size, "1")], engine, {})
    return [(f.name, f.type) for f in found]


def test_columns_of_a_file_without_rows(engine, tmp_path):
    types = ["BIGINT", "DECIMAL(15,2)", "VARCHAR[]", 'STRUCT(a INTEGER, "b ""c), (" VARCHAR[])']
    columns = [[f"c{i}", type_] for i, type_ in enumerate(types)]
    manifest(tmp_path, [*columns, ["nothing", '"NULL"']])
    assert told(engine, tmp_path) == [*map(tuple, columns), ("nothing", "JSON")]


@pytest.mark.parametrize("text", ["", "INTEGER), (SELECT 1", "INTEGER, 2", "1", "STRUCT(a INTEGER"])
def test_what_is_no_type_is_not_believed(engine, tmp_path, text):
    manifest(tmp_path, [["id", "BIGINT"], ["s", text]])
    assert told(engine, tmp_path) == []


def test_a_file_that_has_changed_since(engine, tmp_path):
    manifest(tmp_path, [["id", "BIGINT"]])
    assert told(engine, tmp_path, size=9) == []


def test_a_file_with_rows(engine, tmp_path):
    manifest(tmp_path, [["id", "BIGINT"]], rows=1, size=9)
    assert told(engine, tmp_path, size=9) == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2}', '{"version": 1}'])
def test_no_manifest(engine, tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    assert told(engine, tmp_path) == []
