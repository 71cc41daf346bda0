"""Disks that are full or cannot be written: an error with the path, and nothing half made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from check_out import data_files, hidden_files, rows_in, sums

SMALL = 60_000
"""Bytes that a file may have in the runs below, unless it is said otherwise."""
MANY = 4000
WRITES = {
    "by SQL": "FROM 'big.jsonl' |> WRITE 'out/one.jsonl' OPTIONS (mode = 'overwrite')",
    "by tasks": "IMPORT PYTHON 'udf.py' AS q; FROM 'big.jsonl' |> EXTEND q.half(id) AS b"
    " |> WRITE 'out/{shard}.jsonl' OPTIONS (mode = 'overwrite')",
    "as Parquet": "FROM 'big.jsonl' |> SELECT id, md5(pad || id) AS h, md5(id::VARCHAR) AS g"
    " |> WRITE 'out/one.parquet'",
    "packed": "FROM 'big.jsonl' |> SELECT id, md5(pad || id) AS h |> WRITE 'out/one.csv.zst'",
}
KEEPS = {
    "for several outputs": "FROM 'big.jsonl' |> FORK (|> LIMIT 1 |> WRITE 'out/a.jsonl'),"
    " (|> AGGREGATE count(*) AS n |> WRITE 'out/b.jsonl')",
    "in a table": "CREATE TEMP TABLE t AS FROM 'big.jsonl'; FROM t |> WRITE 'out/a.jsonl'",
    "of tasks": "IMPORT PYTHON 'udf.py' AS q; FROM 'big.jsonl' |> EXTEND q.half(id) AS b"
    " |> ORDER BY b, id |> LIMIT 3 |> WRITE 'out/a.jsonl'",
}


@pytest.fixture
def big(clean):
    text = "".join(f'{{"id":{i},"pad":"{"x" * 30}"}}\n' for i in range(MANY))
    (clean.folder / "big.jsonl").write_text(text)
    return clean


def fails(place, script, **more) -> str:
    """The error of a run that can write files of so many bytes; nothing is left of it."""
    before = sums(place.out)
    more.setdefault("settings", {})["split_size"] = 1 << 20
    pid = place.go(script, **{"file_bytes": SMALL, **more})
    assert place.wait(pid) == 1, place.errors()
    assert sums(place.out) == before
    assert not hidden_files(place.folder)
    assert list(place.temp.glob(f"zql-{pid}-*")) == []
    return place.errors()


@pytest.mark.parametrize("how", WRITES)
def test_an_output_that_does_not_fit(how, big):
    told = fails(big, WRITES[how])
    assert "File too large" in told
    assert "out" in told


def test_what_was_there_stays(big):
    big.here("FROM 'in/0.jsonl' |> WRITE 'out/{shard}.jsonl'")
    kept = rows_in(big.out)
    assert kept
    fails(big, WRITES["by tasks"])
    assert rows_in(big.out) == kept


@pytest.mark.parametrize("what", KEEPS)
def test_rows_that_do_not_fit_between_stages(what, big):
    told = fails(big, KEEPS[what])
    assert "File too large" in told
    assert "temp_dir" in told
    assert str(big.temp) in told
    assert data_files(big.out) == []


def test_spilled_rows_that_do_not_fit(big):
    """What DuckDB spills: the error names the setting."""
    script = (
        "FROM range(3000000) AS t (x) |> SELECT x, md5(x::VARCHAR) AS h |> ORDER BY h"
        " |> WRITE 'out/a.parquet'"
    )
    told = fails(big, script, settings={"memory": "64MB", "threads": 1})
    assert "temp_dir" in told
    assert str(big.temp) in told


def mounted(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="file systems of Linux")
@pytest.mark.parametrize("options", ["size=64k", "ro"])
def test_a_disk_that_is_full_or_read_only(options, big, tmp_path):
    if not mounted(tmp_path, options):
        pytest.skip("only root can mount")
    try:
        told = fails(big, f"FROM 'big.jsonl' |> WRITE '{tmp_path}/out/one.jsonl'", file_bytes=-1)
        assert ("Read-only file system" if options == "ro" else "No space left") in told
        assert str(tmp_path) in told
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
