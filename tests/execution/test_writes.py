"""What a WRITE leaves: names, modes, all or nothing, the same bytes for any number of workers."""

import json
from dataclasses import replace

import pytest
from zql.errors import StorageError, UdfError, UsageError
from zql.execution import sink
from zql.execution.sink import check_target
from zql.storage.manifest import MANIFEST, SUCCESS

SCRIPT = "IMPORT PYTHON 'udf.py' AS q;\n"


@pytest.fixture
def place(place):
    for i in range(3):
        place.rows(f"in{i}.jsonl", [{"id": i * 100 + k, "a": k} for k in range(100)])
    place.functions(
        """
        def double(a: int) -> int:
            return a * 2
        def bad(a: int) -> int:
            if a == 42:
                raise ValueError("no 42")
            return a
        """
    )
    return place


def run(place, text, workers=2):
    return place.run(SCRIPT + text, workers)


WRITES = {
    "python shards": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'out/{shard:02d}.jsonl'",
    "python one": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'out/all.jsonl'",
    "python one packed": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'out/all.jsonl.gz'",
    "python cut": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b"
    " |> WRITE 'out/{shard}-{shards}.csv' OPTIONS (shards = 4)",
    "python parquet": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WRITE 'out/'"
    " OPTIONS (format = 'parquet')",
    "native shards": "FROM 'in*.jsonl' |> WHERE a > 3 |> WRITE 'out/{shard}.jsonl'",
    "native one": "FROM 'in*.jsonl' |> ORDER BY a, id |> WRITE 'out/all.parquet'",
    "native cut": "FROM 'in*.jsonl' |> ORDER BY a, id |> WRITE 'out/{shard}.csv'"
    " OPTIONS (shards = 7)",
    "python twice": "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> WHERE b > 7"
    " |> EXTEND q.double(b) AS c |> ORDER BY c DESC, id |> WRITE 'out/all.jsonl'",
}


@pytest.mark.parametrize("name", WRITES)
def test_the_same_bytes_for_any_number_of_workers(place, name):
    found = []
    for workers in (1, 2, 4):
        report = run(place, WRITES[name].replace("out/", f"w{workers}/"), workers=workers)
        found.append(place.bytes(f"w{workers}/*"))
        assert report.counters["records_in"] == 300
        assert report.counters["records_written"] == sum(f.rows for f in report.outputs)
    assert found[0]
    assert found[0] == found[1] == found[2]


def test_batches_of_any_size_give_the_same_bytes(place):
    run(place, WRITES["python parquet"])
    with place.session() as session:
        session.settings = replace(session.settings, batch_rows=7)
        session.run(SCRIPT + WRITES["python parquet"].replace("out/", "small/"))
    assert place.bytes("small/*") == place.bytes("out/*")


def test_rows_come_in_input_order_each_once(place):
    run(place, WRITES["python one"])
    assert [row["id"] for row in place.read("out/all.jsonl")] == list(range(300))
    assert all(row["b"] == 2 * row["a"] for row in place.read("out/all.jsonl"))
    assert place.names("out") == ["all.jsonl"]


def test_cuts_are_contiguous_and_equal(place):
    report = run(place, WRITES["native cut"])
    assert [file.rows for file in report.outputs] == [42, 43, 43, 43, 43, 43, 43]
    report = run(place, WRITES["native cut"].replace("out/", "more/").replace("= 7", "= 11"))
    assert [file.path for file in report.outputs] == [f"more/{i}.csv" for i in range(11)]


def test_a_failed_run_leaves_what_was_there(place):
    text = "FROM 'in*.jsonl' |> EXTEND q.bad(a) AS b |> WRITE 'out/{shard}.jsonl'"
    with pytest.raises(UdfError) as caught:
        run(place, text)
    assert "q.bad" not in caught.value.message  # the file's own name is shown
    assert "udf.bad on row 43 of in" in caught.value.message
    assert "no 42" in caught.value.message
    assert caught.value.notes[0].startswith('File "udf.py", line 6, in bad')
    assert "out" not in place.names()


def test_a_failed_run_keeps_the_old_outputs(place):
    run(place, WRITES["python shards"])
    before = place.bytes("out/*")
    text = "FROM 'in*.jsonl' |> EXTEND q.bad(a) AS b |> WRITE 'out/{shard:02d}.jsonl'"
    with pytest.raises(UdfError):
        run(place, text + " OPTIONS (mode = 'overwrite')")
    assert place.bytes("out/*") == before


def test_user_errors_are_not_tried_again(place):
    place.functions(
        """
        import os
        def f(a: int) -> int:
            with open("calls", "a") as file:
                file.write("x")
            raise ValueError
        """
    )
    with pytest.raises(UdfError):
        run(place, "FROM 'in0.jsonl' |> EXTEND q.f(a) AS b |> WRITE 'out.jsonl'")
    assert (place.folder / "calls").read_text() == "x"


def test_mode_error_refuses_what_exists_before_any_work(place):
    (place.folder / "out").mkdir()
    (place.folder / "out" / "07.jsonl").write_text("mine")
    with pytest.raises(StorageError, match=r"07\.jsonl exists"):
        run(place, WRITES["python shards"])
    assert place.names("out") == ["07.jsonl"]


def test_mode_error_refuses_a_folder_with_other_data(place):
    (place.folder / "out").mkdir()
    (place.folder / "out" / "other.parquet").write_text("mine")
    with pytest.raises(StorageError, match=r"other\.parquet exists"):
        run(place, WRITES["python parquet"])


def test_overwrite_removes_stale_shards(place):
    run(place, WRITES["python shards"])
    text = "FROM 'in0.jsonl' |> WRITE 'out/{shard:02d}.jsonl' OPTIONS (mode = 'overwrite')"
    run(place, text)
    assert place.names("out") == ["00.jsonl", SUCCESS, MANIFEST]
    assert len(place.read("out/*.jsonl")) == 100


def test_append_goes_on_behind_the_last_shard(place):
    run(place, "FROM 'in0.jsonl' |> WRITE 'out/{shard}.jsonl'")
    run(place, "FROM 'in1.jsonl' |> WRITE 'out/{shard}.jsonl' OPTIONS (mode = 'append')")
    assert place.names("out") == ["0.jsonl", "1.jsonl", SUCCESS, MANIFEST]
    assert [row["id"] for row in place.read("out/*.jsonl")] == list(range(200))


@pytest.mark.parametrize("name", ["python shards", "native shards", "python one", "native cut"])
def test_skip_keeps_what_this_plan_made(place, name):
    text = WRITES[name]
    if "OPTIONS" in text:
        text = text.replace("OPTIONS (", "OPTIONS (mode = 'skip', ")
    else:
        text += " OPTIONS (mode = 'skip')"
    first = run(place, text)
    before = place.bytes("out/*")
    again = run(place, text)
    assert again.counters["records_written"] == 0
    assert again.counters["records_kept"] == first.counters["records_written"]
    assert [f.path for f in again.outputs] == [f.path for f in first.outputs]
    missing = again.outputs[-1].path
    (place.folder / missing).unlink()
    third = run(place, text)
    assert third.counters["records_written"] > 0
    data = {n: b for n, b in place.bytes("out/*").items() if n != MANIFEST}
    assert data == {n: b for n, b in before.items() if n != MANIFEST}


@pytest.mark.parametrize("change", ["function", "input", "script"])
def test_skip_never_passes_off_what_another_plan_made(place, change):
    text = WRITES["python shards"] + " OPTIONS (mode = 'skip')"
    run(place, text)
    if change == "function":
        place.functions("def double(a: int) -> int:\n    return a * 20\n")
    elif change == "input":
        place.rows("in1.jsonl", [{"id": 1, "a": 1}])
    else:
        text = text.replace("q.double(a)", "q.double(a + 1)")
    with pytest.raises(StorageError, match="not what this plan makes"):
        run(place, text)


def test_writing_onto_the_input(place):
    run(place, "FROM 'in0.jsonl' |> WHERE a > 97 |> WRITE 'in0.jsonl' OPTIONS (mode='overwrite')")
    assert [row["a"] for row in place.read("in0.jsonl")] == [98, 99]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_empty_result_is_a_readable_file(place, kind):
    run(place, f"FROM 'in*.jsonl' |> WHERE a < 0 |> EXTEND q.double(a) AS b |> WRITE 'o.{kind}'")
    query = place.shared(2).query(f"FROM 'o.{kind}'")
    assert query.to_dicts() == []
    if kind != "jsonl":
        assert query.columns == ["id", "a", "b"]


def test_no_input_rows_at_all_still_gives_a_shard(place):
    place.rows("none.jsonl", [])
    text = "FROM read_json('none.jsonl', columns => {a: 'BIGINT'}) |> EXTEND q.double(a) AS b"
    report = run(place, text + " |> WRITE 'out/{shard}.parquet'")
    assert [file.rows for file in report.outputs] == [0]


def test_the_manifest_names_the_files(place):
    run(place, WRITES["python shards"])
    manifest = json.loads((place.folder / "out" / MANIFEST).read_text())
    entry = manifest["targets"]["{shard:02d}.jsonl"]
    assert entry["finished"] is True
    assert entry["files"]["00.jsonl"]["rows"] == 100


TARGETS = [
    ("out/{shard:05d}.parquet", {}, "out/00007.parquet"),
    ("a/{shard}-of-{shards:03d}.jsonl.gz", {}, "a/7-of-012.jsonl.gz"),
    ("out/", {"format": "csv", "compression": "zstd"}, "out/part-00007.csv.zst"),
    ("out/", {"format": "parquet"}, "out/part-00007.parquet"),
    ("{shard}/x.csv", {}, "7/x.csv"),
    ("{{x}}{shard}.csv", {}, "{x}7.csv"),
]


def test_names_in_folders_of_values():
    target = check_target("{{a}}/{shard:02d}.csv", {"partition_by": ["k", "a b"]})
    path = target.path(7, 12, "k=x/a%20b=1/")
    assert path == "{a}/k=x/a%20b=1/07.csv"
    assert target.shard_of(path) == 7
    assert target.behind(path, 5) == "{a}/k=x/a%20b=1/12.csv"
    assert target.root == "{a}/"
    assert target.entry == "k=*/a%20b=*/{shard:02d}.csv"
    for other in (
        "{a}/07.csv",
        "{a}/k=x/07.csv",
        "{a}/a%20b=1/k=x/07.csv",
        "{a}/k=x/y/a%20b=1/07.csv",
    ):
        assert target.shard_of(other) is None


@pytest.mark.parametrize(("uri", "options", "expected"), TARGETS)
def test_names_of_shards(uri, options, expected):
    target = check_target(uri, options)
    assert target.path(7, 12) == expected
    assert target.shard_of(expected) == 7
    assert target.shard_of("else") is None


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("out/{lang}.jsonl", {}, "partition_by"),
        ("out/{shard!r}.jsonl", {}, "no format|pattern"),
        ("out/{shard:x}.jsonl", {}, "no format"),
        ("out/{shards}.jsonl", {}, "no {shard}"),
        ("out/{shard.jsonl", {}, "no pattern"),
        ("out", {}, "does not tell a format"),
        ("out/", {}, "does not tell a format"),
        ("a.csv", {"mode": "owerwrite"}, "mode"),
        ("a.csv", {"shards": 3}, "one file"),
        ("a.csv", {"mode": "append"}, "append"),
        ("a.csv", {"manifest": True}, "not supported yet"),
        ("a.csv", {"partition_by": "x"}, "is one file"),
        ("a/{shard}/{shard}.csv", {"partition_by": "x"}, "may have one {shard}"),
        ("a/{shard}/b.csv", {"partition_by": "x"}, "in the name of the file"),
        ("a/{shard}-{shards}.csv", {"partition_by": "x"}, "may have one {shard}"),
        ("a/", {"format": "csv", "partition_by": []}, "must be names of columns"),
        ("a/", {"format": "csv", "write_partition_columns": True}, "no meaning without"),
        ("a.csv", {"delimter": ","}, "delimiter"),
        ("", {}, "needs a path"),
    ],
)
def test_targets_that_are_refused(uri, options, said):
    with pytest.raises(UsageError, match=said):
        check_target(uri, options)


def test_files_of_a_pattern_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1.csv", "a/10.csv", "a/x.csv", "a/b/2.csv", "3.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sink.existing(check_target("a/{shard}.csv", {}), {}) == {"a/1.csv": 1, "a/10.csv": 10}
    assert sink.existing(check_target("{shard}.csv", {}), {}) == {"3.csv": 3}
    assert sink.existing(check_target("a/x.csv", {}), {}) == {"a/x.csv": 0}
    assert sink.existing(check_target("nowhere/{shard}.csv", {}), {}) == {}
