"""How big splits and output files are, and that no crumbs are left."""

import gzip
import itertools
import json
import os
import random

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zql.errors import UsageError
from zql.execution import sizes
from zql.execution.settings import MIB, Settings
from zql.storage.manifest import MANIFEST

IMPORT = "IMPORT PYTHON 'udf.py' AS q;\n"


# ---- what is chosen ----------------------------------------------------------------------------


@given(st.integers(0, 1 << 50))
def test_splits_are_chosen_by_the_input_alone(total):
    size = sizes.split_of_tasks(total).size
    count = -(-total // size)
    assert size >= sizes.SMALLEST_SPLIT
    assert count <= sizes.MOST_TASKS
    if total >= sizes.TASKS_WANTED * sizes.SMALLEST_SPLIT:
        assert count > sizes.TASKS_WANTED // 2, "all processors of a machine have something to do"
    assert sizes.split_of_files(total).size >= size


def test_what_is_set_is_taken():
    assert sizes.split_of_tasks(967 * MIB).size == 32 * MIB
    assert sizes.split_of_tasks(967 * MIB, 64 * MIB) == (64 * MIB, "split_size")
    assert sizes.split_of_tasks(967 * MIB, 64 * MIB, tasks=10).size == -(-967 * MIB // 10)
    assert sizes.group_file(0) == sizes.SMALLEST_SPLIT
    assert sizes.group_file(1 << 40) == 256 * MIB
    assert Settings().split_size is None


@given(
    st.lists(st.integers(0, 100), max_size=40),
    st.integers(1, 200),
    st.one_of(st.none(), st.integers(1, 400)),
)
def test_runs_cover_all_parts_in_order(parts, least, most):
    found = sizes.runs(parts, least, most)
    assert [at for start, stop in found for at in range(start, stop)] == list(range(len(parts)))
    for start, stop in found:
        together = sum(parts[start:stop])
        assert most is None or together <= most or stop - start == 1
        assert most is not None or together >= least or len(found) == 1


@given(
    st.integers(0, 500),
    st.integers(0, 10_000),
    st.one_of(st.none(), st.integers(1, 600)),
    st.one_of(st.none(), st.integers(1, 9_000)),
)
def test_cuts_cover_all_rows_in_order(rows, size, most_rows, file_size):
    found = sizes.cuts(rows, size, most_rows, file_size)
    assert found[0][0] == 0
    assert found[-1][-1] == rows
    assert all(one[-1] == other[0] for one, other in itertools.pairwise(found))
    assert all(each == sorted(each) and len(each) > 1 for each in found)
    assert most_rows is None or all(each[-1] - each[0] <= most_rows for each in found)


# ---- files -------------------------------------------------------------------------------------


FILES = [range(i * 10, i * 10 + 10) for i in range(10)]
FILES += [range(i * 50, i * 50 + 50) for i in range(2, 40)]


@pytest.fixture
def crumbs(place):
    """48 files with 2,000 rows, of which a filter leaves those in a few."""
    rng = random.Random(3)
    for i, ids in enumerate(FILES):
        rows = [{"id": n, "keep": i % 10 == 7, "x": rng.random()} for n in ids]
        place.rows(f"in{i:03d}.jsonl", rows)
    place.functions("def twice(x: float) -> float:\n    return 2 * x\n")
    return place


WAYS = {
    "native": "FROM 'in*.jsonl' |> WHERE keep |> SELECT id, x",
    "python": "FROM 'in*.jsonl' |> WHERE keep |> SELECT id, q.twice(x) AS x",
}
KEPT = [n for ids in FILES[7::10] for n in ids]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["jsonl", "parquet", "csv.gz", "jsonl.zst"])
def test_a_filter_that_leaves_little_leaves_few_files(crumbs, way, name):
    found = []
    for workers in (1, 3):
        text = f"{IMPORT}{WAYS[way]} |> WRITE 'w{workers}/{{shard:03d}}-of-{{shards}}.{name}'"
        report = crumbs.run(text, workers=workers)
        assert len(report.outputs) <= sizes.FILES_LEFT
        assert all(file.rows for file in report.outputs)
        assert sum(file.rows for file in report.outputs) == len(KEPT)
        names = [n for n in crumbs.names(f"w{workers}") if not n.startswith("_")]
        count = len(report.outputs)
        assert names == [f"{n:03d}-of-{count}.{name}" for n in range(count)]
        found.append(crumbs.bytes(f"w{workers}/*.{name}"))
        rows = crumbs.shared(1).query(f"FROM 'w{workers}/*.{name}' |> SELECT id").to_arrow()
        assert rows.column("id").to_pylist() == KEPT
    assert found[0] == found[1]


def test_nothing_left_is_one_file(crumbs):
    crumbs.run("FROM 'in*.jsonl' |> WHERE id < 0 |> SELECT id |> WRITE 'out/{shard}.parquet'")
    assert [n for n in crumbs.names("out") if n.endswith("parquet")] == ["0.parquet"]
    assert pq.read_table(crumbs.folder / "out/0.parquet").schema.names == ["id"]


def test_few_files_are_left_as_they_are_but_for_a_setting(crumbs):
    text = "FROM 'in00[0-9].jsonl' |> SELECT id |> WRITE '{}/{{shard}}.jsonl'"
    assert len(crumbs.run(text.format("ten")).outputs) == 10
    with crumbs.session(config={"file_size": "300B"}) as session:
        assert len(session.run(text.format("more")).outputs) == 3
        assert len(session.run(f"SET file_size = auto; {text.format('auto')}").outputs) == 10
    assert [r["id"] for r in crumbs.read("more/*.jsonl")] == list(range(100))


@pytest.mark.parametrize("way", WAYS)
def test_skip_knows_what_was_put_together(crumbs, way):
    text = f"{IMPORT}{WAYS[way]} |> WRITE 'out/{{shard}}.jsonl' OPTIONS (mode = 'skip')"
    first = crumbs.run(text)
    before = crumbs.bytes("out/*.jsonl")
    assert 1 < len(before) <= sizes.FILES_LEFT
    again = crumbs.run(text)
    assert again.counters["records_written"] == 0
    assert again.counters["records_kept"] == len(KEPT)
    (crumbs.folder / "out/1.jsonl").unlink()
    third = crumbs.run(text)
    assert third.counters["records_written"] == first.outputs[1].rows
    assert crumbs.bytes("out/*.jsonl") == before


def listed(crumbs, folder):
    """The files that a manifest lists, with what it says of them."""
    (entry,) = json.loads((crumbs.folder / folder / MANIFEST).read_text())["targets"].values()
    return entry["files"]


def inputs(facts):
    """Names of the inputs of a file; each must be all of one."""
    parts = facts.get("inputs", [facts])
    assert all("range" not in part for part in parts)
    return [os.path.basename(part["input"]) for part in parts]


@pytest.mark.parametrize("way", WAYS)
def test_the_manifest_says_of_what_files_were_put_together(crumbs, way):
    text = f"{IMPORT}{WAYS[way]} |> WRITE 'out/{{shard:02d}}.jsonl' OPTIONS (mode = 'skip')"
    crumbs.run(text)
    files = listed(crumbs, "out")
    assert 1 < len(files) <= sizes.FILES_LEFT
    every = [name for _, facts in sorted(files.items()) for name in inputs(facts)]
    assert every == [f"in{i:03d}.jsonl" for i in range(len(FILES))], "each input once, in order"
    for name, facts in files.items():
        ids = {row["id"] for row in crumbs.read(f"out/{name}")}
        found = {i for i, held in enumerate(FILES) if not ids.isdisjoint(held)}
        assert {f"in{i:03d}.jsonl" for i in found} <= set(inputs(facts))
    crumbs.run(text)
    assert listed(crumbs, "out") == files, "files that stay keep what is said of them"


@pytest.mark.parametrize("way", WAYS)
def test_the_manifest_joins_ranges_of_one_input(crumbs, way):
    rows = "".join(f'{{"id":{n},"x":{n},"keep":true}}\n' for n in range(1000))
    (crumbs.folder / "in000.jsonl").write_text(rows)
    text = WAYS[way].replace("in*", "in000")
    with crumbs.session(config={"file_size": "4KB", "split_size": 1000}) as session:
        session.run(f"{IMPORT}{text} |> WRITE 'out/{{shard}}.jsonl'")
    files = listed(crumbs, "out")
    assert len(files) > 2
    found = sorted(facts["range"] for facts in files.values())
    assert (found[0][0], found[-1][1]) == (0, len(rows))
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    for name, facts in files.items():
        part = rows[slice(*facts["range"])].splitlines()
        assert [json.loads(line)["id"] for line in part] == [
            row["id"] for row in crumbs.read(f"out/{name}")
        ]


# ---- options of WRITE --------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["x", "q.twice(x) AS x"])
def test_files_of_so_many_rows(crumbs, call):
    text = f"{IMPORT}FROM 'in*.jsonl' |> SELECT id, {call}"
    text += " |> WRITE 'out/part-{shard}-{shards}.csv'"
    report = crumbs.run(f"{text} OPTIONS (max_rows_per_file = 750)")
    assert [(f.path, f.rows) for f in report.outputs] == [
        ("out/part-0-3.csv", 750), ("out/part-1-3.csv", 750), ("out/part-2-3.csv", 500)
    ]  # fmt: skip
    assert crumbs.run(f"{text} OPTIONS (max_rows_per_file = 750, mode = 'overwrite')").outputs


@pytest.mark.parametrize("name", ["jsonl", "parquet", "jsonl.gz"])
def test_files_of_about_so_many_bytes(crumbs, name):
    text = f"FROM 'in*.jsonl' |> ORDER BY id |> WRITE 'out/{{shard:02d}}.{name}'"
    report = crumbs.run(f"{text} OPTIONS (file_size_bytes = '20KB')")
    assert len(report.outputs) > 1
    assert all(f.bytes <= 20_000 for f in report.outputs)
    assert sum(f.rows for f in report.outputs) == 2000
    found = []
    for file in report.outputs if name == "jsonl.gz" else ():
        with gzip.open(file.path) as stream:
            found += [json.loads(line)["id"] for line in stream]
    assert found in ([], list(range(2000)))


def test_both_limits_and_no_rows(crumbs):
    text = "FROM 'in*.jsonl' |> WHERE id >= {} |> SELECT id |> WRITE 'out/{{shard}}.jsonl'"
    options = "OPTIONS (max_rows_per_file = 300, file_size_bytes = 2000, mode = 'overwrite')"
    report = crumbs.run(f"{text.format(0)} {options}")
    assert all(f.rows <= 300 and f.bytes <= 2000 for f in report.outputs)
    assert sum(f.rows for f in report.outputs) == 2000
    report = crumbs.run(f"{text.format(5000)} {options}")
    assert [(f.path, f.rows) for f in report.outputs] == [("out/0.jsonl", 0)]


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("out/x.jsonl", "max_rows_per_file = 3", 'is one file, and option "max_rows_per_file"'),
        ("out/", "format = 'jsonl', file_size_bytes = '1MB', shards = 3", "exclude each other"),
        ("out/", "format = 'jsonl', file_size_bytes = 'big'", '"big" is no size'),
        ("out/", "format = 'jsonl', max_rows_per_file = 0", "a whole number above zero"),
    ],
)
def test_what_the_options_refuse(crumbs, target, options, words):
    with pytest.raises(UsageError, match=words):
        crumbs.run(f"FROM 'in000.jsonl' |> WRITE '{target}' OPTIONS ({options})")
