"""`mode = 'append'` counts once, whenever a run is killed; folders that another WRITE has made."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from zql import failpoints
from zql.errors import BindError, StorageError

VALUES = "FROM VALUES (1, 'x', 'p'), (2, 'y', 'q'), (3, 'x', NULL) AS t (i, k, z)"
WAYS = {
    "plain": "FROM range(9) AS r (i) |> WRITE 'out/' OPTIONS (format = 'jsonl', {})",
    "folders": "FROM range(9) AS r (i) |> EXTEND i % 3 AS k "
    "|> WRITE 'out/' OPTIONS (format = 'jsonl', partition_by = [k], {})",
    "python": "CREATE TEMP FUNCTION f(i BIGINT) RETURNS BIGINT LANGUAGE python AS $$\n"
    "def f(i): return i\n$$; FROM range(9) AS r (i) |> SELECT f(i) AS i "
    "|> WRITE 'out/' OPTIONS (format = 'jsonl', {})",
}
POINTS = ["before_rename:1", "after_rename:2", "files_named:1", "before_success:1", "run_ended:1"]


def run(folder, text, *options, point=""):
    """The exit code of a run in a process of its own, which may be killed at a fail point."""
    environment = {**os.environ, "ZQL_FAILPOINT": f"{point}:kill" if point else ""}
    command = [sys.executable, "-m", "zql", "run", "-q", "--workers", "1", *options, "-c", text]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode in ((-9,) if point else (0,)), done.stderr


def numbers(folder):
    found = []
    for path in (folder / "out").rglob("*.jsonl"):
        found += [json.loads(line)["i"] for line in path.read_text().splitlines()]
    return sorted(found)


@pytest.mark.parametrize("options", [(), ("--resume",)], ids=["anew", "resumed"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("way", WAYS)
def test_an_addition_counts_once_whenever_it_is_killed(tmp_path, way, point, options):
    shards = "mode = 'append', shards = 3" if way != "python" else "mode = 'append', shards = 2"
    text = WAYS[way].format(shards)
    run(tmp_path, text)
    assert numbers(tmp_path) == list(range(9))
    other = text.replace("range(9)", "range(5)")
    run(tmp_path, other, *options, point=point)
    run(tmp_path, other, *options)
    # Where all was done but for its last word, a run that does not go on there adds the rows again.
    twice = not options and point in ("before_success:1", "run_ended:1")
    assert numbers(tmp_path) == sorted([*range(9), *(list(range(5)) * (2 if twice else 1))])
    assert (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [("[k, z]", "[k]"), ("[k]", "[k, z]"), ("[k]", "[z]"), ("[k]", None), (None, "[k]")],
)
def test_folders_of_other_columns(place, before, after):
    """They are noticed, and replaced when they may be."""

    def write(keys, mode):
        options = f"format = 'jsonl', mode = '{mode}'"
        options += f", partition_by = {keys}" if keys else ""
        place.run(f"{VALUES} |> WRITE 'm/' OPTIONS ({options})")

    write(before, "error")
    with pytest.raises(StorageError, match="exists"):
        write(after, "error")
    write(after, "overwrite")
    rows = place.shared(1).query("FROM 'm/**/*.jsonl' |> SELECT i |> ORDER BY i").to_dicts()
    assert [row["i"] for row in rows] == [1, 2, 3]
    write(after, "overwrite")
    assert len(json.loads((place.folder / "m/_zql_manifest.json").read_text())["targets"]) == 1


def test_a_folder_of_values_that_is_a_link(place):
    (place.folder / "sy").mkdir()
    (place.folder / "target").mkdir()
    (place.folder / "sy/k=x").symlink_to("../target")
    text = "FROM VALUES ({}, 'x') AS t (i, k) |> WRITE 'sy/' OPTIONS (format = 'jsonl', {})"
    for number in (1, 2):
        place.run(text.format(number, "partition_by = [k], mode = 'append'"))
    found = [json.loads(p.read_text())["i"] for p in sorted((place.folder / "target").iterdir())]
    assert found == [1, 2]
    with pytest.raises(StorageError, match="exists"):
        place.run(text.format(7, "partition_by = [k]"))
    place.run(text.format(9, "partition_by = [k], mode = 'overwrite'"))
    assert [json.loads(p.read_text())["i"] for p in (place.folder / "target").iterdir()] == [9]


def test_links_may_lead_in_circles(place):
    (place.folder / "sy").mkdir()
    (place.folder / "sy/k=x").symlink_to(".")
    text = "FROM VALUES (1, 'y') AS t (i, k) |> WRITE 'sy/' OPTIONS (format = 'jsonl', {})"
    place.run(text.format("partition_by = [k]"))
    assert (place.folder / "sy/k=y/part-00000.jsonl").exists()


def test_an_output_in_the_folders_of_another_is_refused(place):
    with pytest.raises(BindError, match="partition_by of another") as error:
        place.run(
            f"{VALUES} |> FORK (|> WRITE 'n/' OPTIONS (format = 'jsonl', partition_by = [k])), "
            "(|> WRITE 'n/k=x/' OPTIONS (format = 'jsonl'))"
        )
    assert error.value.code == "P411"
    assert not (place.folder / "n").exists()


@pytest.mark.parametrize("mode", ["error", "append"])
def test_names_that_cannot_all_be_given_are_taken_back(place, monkeypatch, mode):
    text = "FROM range(9) |> WRITE 'out/' OPTIONS (format = 'jsonl', shards = 3, mode = '{}')"
    if mode == "append":
        place.run(text.format(mode))
    before = place.bytes("out/*")
    failpoints.arm("before_rename:2:raise")
    try:
        with pytest.raises(StorageError):
            place.run(text.format(mode))
    finally:
        failpoints.arm("")
    assert place.bytes("out/*") == before
    place.run(text.format(mode))
    assert len(list((place.folder / "out").glob("*.jsonl"))) == (6 if before else 3)
