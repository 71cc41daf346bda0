"""What stands under the name of an output: links, pipes, modes; and options of compressions."""

from __future__ import annotations

import os

import pytest
from zql.errors import StorageError, UsageError
from zql.session import Session


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session(workers=1) as session:
        yield session.run


WRITE = "FROM range(2) AS t (x) |> WRITE '{}' OPTIONS (mode = 'overwrite'{})"


def test_a_link_stays_and_its_file_is_written(run, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    run(WRITE.format("link.csv", ""))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "x\n0\n1\n"
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_no_target(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(StorageError, match="a device or a pipe"):
        run(WRITE.format("pipe.csv", ""))
    assert [p.name for p in tmp_path.iterdir()] == ["pipe.csv"]


@pytest.mark.parametrize(
    "options", [", compression = 'zstd'", ", compression_level = 99", ", compression_level = -1"]
)
def test_options_that_do_not_fit_the_name(run, tmp_path, options):
    with pytest.raises(UsageError) as caught:
        run(WRITE.format("o.csv.gz", options))
    assert caught.value.line == 1
    assert list(tmp_path.iterdir()) == []


def test_parts_of_one_packed_file_are_packed_once(run, tmp_path):
    import gzip

    (tmp_path / "f.py").write_text("def same(x: int) -> int:\n    return x\n")
    for k in range(3):
        run(f"FROM range({k}, {k + 1}) AS t (x) |> WRITE 'in{k}.parquet'")
    run("IMPORT PYTHON 'f.py' AS f; FROM 'in*.parquet' |> SET x = f.same(x) |> WRITE 'o.jsonl.gz'")
    assert gzip.decompress((tmp_path / "o.jsonl.gz").read_bytes()) == b'{"x":0}\n{"x":1}\n{"x":2}\n'
