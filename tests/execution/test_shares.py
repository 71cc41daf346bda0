"""Rows of SQL whose number is not known before, in as many files as they fill."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from zql import failpoints
from zql.errors import RunError, StorageError
from zql.expr.expression import Column, SortKey
from zql.logical.plan import Sort
from zql.storage.manifest import MANIFEST

SMALL = "SET split_size = '2KiB';\n"
ROWS = 400
TEXT = "some text that takes a little room "
STAGES = {
    "join": "FROM 'in.jsonl' |> JOIN 'more.jsonl' USING (id) |> WRITE '{}'",
    "left join": "FROM 'in.jsonl' |> LEFT JOIN 'more.jsonl' USING (id) |> WRITE '{}'",
    "aggregate": "FROM 'in.jsonl' |> AGGREGATE max(s) AS s, sum(a) AS n GROUP BY id |> WRITE '{}'",
    "distinct": "FROM 'in.jsonl' |> SELECT id, s |> DISTINCT |> WRITE '{}'",
    "union": "FROM 'in.jsonl' |> UNION ALL (FROM 'in.jsonl') |> WRITE '{}'",
    "window": "FROM 'in.jsonl' |> EXTEND row_number() OVER (PARTITION BY a ORDER BY id) AS r"
    " |> SELECT id, s, r |> WRITE '{}'",
    "cte": "WITH big AS (FROM 'in.jsonl' |> WHERE id >= 0) FROM big"
    " |> WHERE id IN (FROM big |> SELECT id) |> WRITE '{}'",
    "limit": "FROM 'in.jsonl' |> LIMIT 300 |> WRITE '{}'",
    "values": "FROM range(400) AS r (id) |> SELECT id, repeat('x', 30) AS s |> WRITE '{}'",
}
COUNTS = {"union": 2 * ROWS, "limit": 300}
IN_ORDER = ("union", "limit", "window")
FORMS = ("{shard:03d}.parquet", "{shard:03d}.jsonl", "{shard:03d}.csv", "{shard:03d}.jsonl.gz")


@pytest.fixture
def place(place):
    place.rows(
        "in.jsonl", [{"id": k, "a": k % 7, "s": TEXT + str(k * 7919 % 10007)} for k in range(ROWS)]
    )
    place.rows("more.jsonl", [{"id": k, "b": "more " + str(k)} for k in range(ROWS)])
    return place


def whole(place, name, form):
    """The same rows in one file."""
    target = form.replace("{shard:03d}", "whole")
    place.run(STAGES[name].format(target))
    return place.folder / target


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("form", FORMS)
def test_rows_go_into_files_by_size(place, name, form):
    report = place.run(SMALL + STAGES[name].format(f"out/{form}"))
    files = sorted((place.folder / "out").glob("0*"))
    assert len(files) > 4
    assert sum(file.rows for file in report.outputs) == COUNTS.get(name, ROWS)
    assert [file.path.rpartition("/")[2] for file in report.outputs] == [f.name for f in files]
    assert [s.rows for s in report.stages][-1] == COUNTS.get(name, ROWS)
    manifest = json.loads((place.folder / "out" / MANIFEST).read_text())
    (entry,) = manifest["targets"].values()
    assert sorted(entry["files"]) == [file.name for file in files]
    place.run(STAGES[name].format(form.replace("{shard:03d}", "whole")))
    suffix = form.replace("{shard:03d}", "")
    both = f"FROM 'out/*{suffix}' |> {{}} ALL (FROM 'whole{suffix}')"
    place.run(f"{both.format('EXCEPT')} |> WRITE 'gone.jsonl'")
    back = f"FROM 'whole{suffix}' |> EXCEPT ALL (FROM 'out/*{suffix}')"
    place.run(f"{back} |> WRITE 'lost.jsonl'")
    assert place.read("gone.jsonl") == place.read("lost.jsonl") == []


@pytest.mark.parametrize("name", IN_ORDER)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_bytes_for_any_number_of_threads(place, name, form):
    found = []
    for threads in (1, 2, 4):
        with place.session(threads=threads) as session:
            session.run(SMALL + STAGES[name].format(f"t{threads}/{form}"))
        found.append(place.bytes(f"t{threads}/0*"))
    assert len(found[0]) > 4
    assert found[0] == found[1] == found[2]


def test_files_of_lines_one_behind_the_other_are_the_one_file(place):
    place.run("SET split_size = '4KiB';" + STAGES["union"].format("out/{shard:03d}.jsonl"))
    place.run(STAGES["union"].format("whole.jsonl"))
    files = place.bytes("out/0*")  # no more than 16, so that none are put together
    assert b"".join(files.values()) == (place.folder / "whole.jsonl").read_bytes()
    *full, last = files.values()
    for file in full:  # the last row is the one that fills it
        assert len(file) >= 4096 > len(file) - len(file.splitlines(keepends=True)[-1])
    assert last


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", IN_ORDER)
def test_few_rows_are_one_file_as_without_shards(place, name, form):
    place.run(STAGES[name].format(f"out/{form}"))
    one = whole(place, name, form)
    assert list(place.bytes("out/0*").values()) == [one.read_bytes()]


@pytest.mark.parametrize("form", FORMS)
def test_no_rows_are_one_file(place, form):
    text = "FROM 'in.jsonl' |> JOIN 'more.jsonl' USING (id) |> WHERE id < 0 |> WRITE '{}'"
    place.run(SMALL + text.format(f"out/{form}"))
    place.run(text.format(form.replace("{shard:03d}", "whole")))
    (one,) = (p for p in place.folder.glob("whole*") if p.is_file())
    assert list(place.bytes("out/0*").values()) == [one.read_bytes()]


def test_a_folder_is_cut_too_and_what_says_how_it_is_cut_goes_first(place):
    place.run(SMALL + STAGES["join"].format("out/") + " OPTIONS (format = 'jsonl')")
    assert len(list((place.folder / "out").glob("part-*.jsonl"))) > 4
    place.run(SMALL + STAGES["join"].format("three/{shard}.jsonl") + " OPTIONS (shards = 3)")
    assert len(list((place.folder / "three").glob("*.jsonl"))) == 3
    place.run(SMALL + STAGES["join"].format("one.jsonl"))
    assert len(place.read("one.jsonl")) == ROWS


def test_an_order_that_is_asked_for_stays(place):
    text = "FROM 'in.jsonl' |> AGGREGATE max(s) AS s GROUP BY id |> ORDER BY id DESC"
    place.run(SMALL + text + " |> WRITE 'out/{shard:03d}.jsonl'")
    assert len(place.bytes("out/*.jsonl")) > 4
    assert [row["id"] for row in place.read("out/*.jsonl")] == list(range(ROWS))[::-1]


def test_a_join_that_makes_much_of_little(place):
    """It is seen when the one file is there, which a small input was thought to give."""
    place.rows("few.jsonl", [{"n": k} for k in range(40)])
    text = "FROM 'few.jsonl' AS a |> CROSS JOIN 'few.jsonl' AS b |> SELECT a.n AS x, b.n AS y"
    report = place.run(f"SET split_size = '4KiB';\n{text} |> WRITE 'out/{{shard:02d}}.jsonl'")
    files = place.bytes("out/*.jsonl")
    assert [len(lines) >= 4096 for lines in files.values()][:-1] == [True] * (len(files) - 1)
    assert len(files) > 4
    assert [stage.rows for stage in report.stages] == [1600]
    assert place.names("out") == sorted([*files, MANIFEST, "_SUCCESS"])


def test_much_input_is_the_same_for_any_number_of_threads(place):
    """Rows of many row groups, which several threads read; Parquet, whose batches have bitmaps."""
    place.run(
        "FROM range(300000) AS r (id) |> SELECT id, CASE WHEN id % 50021 = 7 THEN NULL"
        " ELSE 'text ' || id % 977 END AS s, [id, id + 1] AS l,"
        " {'x': id % 3, 'y': id::VARCHAR} AS t"
        " |> WRITE 'big.parquet'"
    )
    text = "FROM 'big.parquet' |> UNION ALL (FROM 'big.parquet' |> WHERE id % 3 > 0)"
    found = []
    for threads in (1, 2, 4):
        with place.session(threads=threads) as session:
            for form in ("parquet", "csv"):
                session.run(
                    f"SET split_size = '3MiB'; {text} |> WRITE 't{threads}/{{shard:02d}}.{form}'"
                )
        found.append(place.bytes(f"t{threads}/[0-9]*"))
    assert len([name for name in found[0] if name.endswith(".parquet")]) > 6
    assert found[0] == found[1] == found[2]


def numbers(place, pattern="out/*.jsonl"):
    return sorted(row["id"] for row in place.read(pattern))


JOIN = SMALL + "FROM 'in.jsonl' |> JOIN 'more.jsonl' USING (id) |> WRITE 'out/{shard:03d}.jsonl'"


def test_modes(place):
    place.run(JOIN)
    with pytest.raises(StorageError, match="exists"):
        place.run(JOIN)
    many = len(place.bytes("out/*.jsonl"))
    place.run(JOIN + " OPTIONS (mode = 'append')")
    assert len(place.bytes("out/*.jsonl")) == 2 * many
    assert numbers(place) == sorted([*range(ROWS)] * 2)
    place.run(JOIN.replace("2KiB", "20KiB") + " OPTIONS (mode = 'overwrite')")
    assert 1 < len(place.bytes("out/*.jsonl")) < many
    assert numbers(place) == list(range(ROWS))
    place.run(
        JOIN.replace("|> WRITE", "|> WHERE id < 3 |> WRITE") + " OPTIONS (mode = 'overwrite')"
    )
    assert list(place.bytes("out/*.jsonl")) == ["000.jsonl"]


@pytest.mark.parametrize("text", [JOIN, JOIN.replace("2KiB", "1GiB")], ids=["many", "one"])
def test_skip_keeps_what_is_there(place, text):
    text += " OPTIONS (mode = 'skip')"
    first = place.run(text)
    again = place.run(text)
    assert again.counters["records_written"] == 0
    assert again.counters["records_kept"] == ROWS
    assert [f.path for f in again.outputs] == [f.path for f in first.outputs]
    (place.folder / first.outputs[-1].path).unlink()
    third = place.run(text)
    assert third.counters["records_written"] == ROWS, "the rows may come in another order now"
    assert numbers(place) == list(range(ROWS))


@pytest.mark.parametrize("how", ["", ", max_rows_per_file = 30"], ids=["by size", "by rows"])
def test_skip_makes_all_files_anew_of_rows_in_another_order(place, monkeypatch, how):
    """What another order does is done by hand here: chance shows it only with many rows."""
    from zql.execution.native import NativeStage

    order, keep = NativeStage.write_shares, NativeStage.keep
    text = (
        "FROM 'in.jsonl' |> SELECT id, s |> DISTINCT |> WRITE 'out/{shard:03d}.parquet'"
        f" OPTIONS (mode = 'skip'{how})"
    )
    place.run(SMALL + text)
    before = sorted((place.folder / "out").glob("*.parquet"))
    assert len(before) > 4

    def turned(made):
        def do(self, *args, **kwargs):
            by = (SortKey(Column("id", "BIGINT"), descending=True),)
            self._plan = Sort(self._plan, by)
            return made(self, *args, **kwargs)

        return do

    monkeypatch.setattr(NativeStage, "write_shares", turned(order))
    monkeypatch.setattr(NativeStage, "keep", turned(keep))
    before[1].unlink()
    report = place.run(SMALL + text)
    assert report.counters["records_written"] == ROWS
    after = sorted((place.folder / "out").glob("*.parquet"))
    rows = [row for path in after for row in pq.read_table(path).to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(ROWS))
    assert place.run(SMALL + text).counters["records_written"] == 0


def test_skip_removes_files_that_are_too_many_now(place):
    text = "FROM 'in.jsonl' |> DISTINCT |> WRITE 'out/{shard}.jsonl' OPTIONS (mode = 'skip')"
    report = place.run(SMALL + text)
    folder, more = place.folder / "out", f"{len(report.outputs)}.jsonl"
    manifest = json.loads((folder / MANIFEST).read_text())
    (target,) = manifest["targets"].values()
    target["files"][more] = target["files"]["1.jsonl"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / more).write_bytes((folder / "1.jsonl").read_bytes())
    (folder / "2.jsonl").unlink()
    place.run(SMALL + text)
    assert not (folder / more).exists()
    assert sorted(row["id"] for row in place.read("out/*.jsonl")) == list(range(ROWS))


def test_names_say_how_many_there_are_in_the_end(place):
    text = JOIN.replace("{shard:03d}", "{shard:03d}-of-{shards}") + " OPTIONS (mode = 'skip')"
    for written in (ROWS, 0):
        assert place.run(text).counters["records_written"] == written
        names = sorted(place.bytes("out/*.jsonl"))
        assert names == [f"{n:03d}-of-{len(names)}.jsonl" for n in range(len(names))]
        assert len(names) > 4


def test_the_cache_has_one_file_and_several(place):
    head = "SET cache = 'kept'; "
    over = " OPTIONS (mode = 'overwrite')"
    for text in (JOIN, JOIN.replace("2KiB", "1GiB"), JOIN.replace("{shard:03d}", "whole")):
        found = []
        for expected in (0, 1):
            with place.session(1) as session:
                told = session.explain(head + text + over) if expected else ""
                report = session.run(head + text + over)
            assert report.counters["tasks_reused"] == expected
            assert ("reuse" in str(told)) == bool(expected)
            assert sum(file.rows for file in report.outputs) == ROWS
            found.append(place.bytes("out/*.jsonl"))
        assert found[0] == found[1]


def test_several_outputs(place):
    place.run(
        SMALL + "FROM 'in.jsonl' |> JOIN 'more.jsonl' USING (id)"
        " |> TEE (|> AGGREGATE max(s) AS s GROUP BY id |> WRITE 'groups/{shard:02d}.csv')"
        " |> WRITE 'out/{shard:03d}.jsonl'"
    )
    assert len(place.bytes("groups/*.csv")) > 4
    assert len(place.bytes("out/*.jsonl")) > 4
    assert numbers(place) == list(range(ROWS))


def left_of(place):
    return [path for path in place.folder.rglob("*") if "out" in path.parts and path.is_file()]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_failure_in_the_midst_leaves_nothing(place, monkeypatch, form, resume):
    """The file that fails is the last of many: by then the first ones are whole."""
    place.run(
        "FROM range(100000) AS r (id) |> SELECT id, CASE WHEN id = 99000 THEN 'no number'"
        " ELSE id::VARCHAR END AS s |> WRITE 'long.parquet'"
    )
    synced = []
    monkeypatch.setattr("zql.execution.writing.hit", synced.append)
    text = (
        "FROM 'long.parquet' |> UNION ALL (FROM 'long.parquet')"
        f" |> SELECT id, CAST(s AS BIGINT) AS n |> WRITE 'out/{form}'"
    )
    text = f"SET split_size = '20KiB'; SET resume = {str(resume).lower()}; {text}"
    with place.session(threads=1) as session, pytest.raises(RunError, match="no number") as error:
        session.run(text)
    assert error.value.code == "R730"
    assert error.value.span is not None
    assert text[error.value.span.start : error.value.span.end].startswith("CAST(s")
    assert synced.count("file_synced") > 3
    assert [path for path in left_of(place) if path.suffix == ".tmp"] == []
    assert resume or not left_of(place)
    place.run(f"FROM VALUES (1) AS t (i) |> WRITE 'out/{form}'")  # what was noted goes
    assert place.names("out") == [form.replace("{shard:03d}", "000"), "_SUCCESS", MANIFEST]


@pytest.mark.parametrize("point", ["file_begun:3", "file_synced:2"])
def test_a_disk_that_fails(place, point):
    failpoints.arm(f"{point}:raise")
    try:
        with pytest.raises(StorageError, match="cannot write"):
            place.run(JOIN)
    finally:
        failpoints.arm("")
    assert left_of(place) == []


def test_ctrl_c_ends_it(place):
    """A join that never ends, in a process of its own."""
    text = (
        "SET split_size = '1MiB'; FROM range(3000000) AS a (x)"
        " |> CROSS JOIN range(3000000) AS b (y) |> WRITE 'out/{shard}.jsonl'"
    )
    command = [sys.executable, "-m", "zql", "run", "--temp-dir", str(place.temp), "-c", text]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        end = time.monotonic() + 60
        while len(left_of(place)) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130, told
    assert left_of(place) == []
    assert os.listdir(place.temp) == []
