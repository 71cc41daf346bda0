"""Files appear whole or not at all."""

from __future__ import annotations

import os

import pytest
from zql.errors import StorageError
from zql.storage import files, patterns


def test_a_staged_file_lies_beside_its_target_and_is_passed_over(tmp_path):
    target = tmp_path / "new" / "a.jsonl"
    staged = files.staging_path(str(target))
    assert os.path.dirname(staged) == str(target.parent)
    assert patterns.is_hidden(os.path.basename(staged))
    assert files.staging_path(str(target)) != staged
    with open(staged, "w") as file:
        file.write("x")
    target.write_text("old")
    assert files.publish(staged, str(target)) == 1
    assert target.read_text() == "x"
    assert os.listdir(target.parent) == ["a.jsonl"]


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "a"
    target.mkdir()
    (target / "kept").write_text("x")
    staged = files.staging_path(str(target))
    with open(staged, "w"):
        pass
    with pytest.raises(StorageError, match="cannot write"):
        files.publish(staged, str(target))
    assert (target / "kept").read_text() == "x"
    assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(StorageError, match="cannot write"):
        files.staging_path(str(target / "kept" / "b"))


def test_small_files(tmp_path):
    path = str(tmp_path / "d" / "a.json")
    assert files.read_whole(path) is None
    files.write_whole(path, b"1")
    files.write_whole(path, b"2")
    assert files.read_whole(path) == b"2"
    (tmp_path / "d" / ".hidden").write_text("")
    assert [f.path for f in files.list_folder(str(tmp_path / "d"))] == [
        f"{tmp_path}/d/.hidden", path
    ]  # fmt: skip
    assert files.list_folder(str(tmp_path / "none")) == []
    files.remove(path)
    files.remove(path)
    assert files.stat_file(path) is None
    files.discard(path)
