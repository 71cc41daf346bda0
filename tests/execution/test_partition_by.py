"""WRITE .. OPTIONS (partition_by = ..): folders of values, and nothing beside the rows changes."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from zql.errors import BindError, RunError, StorageError, UdfError, UsageError
from zql.execution.dealt_folders import folders_of
from zql.storage import hive
from zql.storage.manifest import MANIFEST, SUCCESS

SCRIPT = "IMPORT PYTHON 'udf.py' AS q;\n"
LANGS = ["en", "de", None, "fr"]


@pytest.fixture
def place(place):
    for i in range(3):
        rows = [{"id": i * 100 + k, "lang": LANGS[k % 4], "a": k % 7} for k in range(100)]
        place.rows(f"in{i}.jsonl", rows)
    place.functions(
        """
        def double(a: int) -> int:
            return a * 2
        def bad(a: int) -> int:
            if a == 6:
                raise ValueError("no 6")
            return a
        """
    )
    return place


def run(place, text, workers=2):
    return place.run(SCRIPT + text, workers)


def write(options, rows="FROM 'in*.jsonl'", to="out/", kind="parquet"):
    return f"{rows} |> WRITE '{to}' OPTIONS (format = '{kind}', {options})"


def back(place, pattern="out/**/*.parquet", order="id"):
    return place.shared(2).query(f"FROM '{pattern}' |> ORDER BY {order}").to_dicts()


def tree(place, folder="out"):
    """The files below a folder with their bytes."""
    top = place.folder / folder
    return {str(p.relative_to(top)): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}


def data(place, folder="out"):
    return {n: b for n, b in tree(place, folder).items() if not n.startswith("_")}


def test_folders_of_values(place):
    report = run(place, write("partition_by = [lang]"))
    assert [f.path for f in report.outputs] == [
        f"out/lang={value}/part-00000.parquet"
        for value in ("__HIVE_DEFAULT_PARTITION__", "de", "en", "fr")
    ]
    assert report.counters["records_written"] == 300
    import pyarrow.parquet as pq

    assert pq.read_schema("out/lang=en/part-00000.parquet").names == ["id", "a"]
    ids = pq.read_table("out/lang=en/part-00000.parquet", partitioning=None)["id"].to_pylist()
    assert ids == [i for i in range(300) if i % 4 == 0], "rows keep their order"
    assert back(place) == sorted(place.read("in*.jsonl"), key=lambda r: r["id"])


def test_duckdb_reads_the_same(place):
    run(place, write("partition_by = [a, lang]"))
    import duckdb

    query = "SELECT id, a, lang FROM read_parquet('out/**/*.parquet', hive_partitioning = true)"
    with duckdb.connect() as connection:
        found = connection.execute(f"{query} ORDER BY id").fetchall()
    wanted = place.read("in*.jsonl")
    assert found == [(row["id"], row["a"], row["lang"]) for row in wanted]


FORMS = [
    ("parquet", "", "parquet"),
    ("parquet", "compression = 'snappy',", "parquet"),
    ("jsonl", "", "jsonl"),
    ("jsonl", "compression = 'zstd',", "jsonl.zst"),
    ("jsonl", "compression = 'xz',", "jsonl.xz"),
    ("csv", "compression = 'gzip',", "csv.gz"),
    ("csv", "compression = 'bzip2',", "csv.bz2"),
    ("tsv", "", "tsv"),
]


@pytest.mark.parametrize(("kind", "more", "suffix"), FORMS)
@pytest.mark.parametrize("rows", ["FROM 'in*.jsonl'", "FROM 'in*.jsonl' |> WHERE false"])
def test_every_format_comes_back(place, kind, more, suffix, rows):
    report = run(place, write(f"{more} partition_by = [lang, a]", rows, kind=kind))
    assert all(f.path.endswith(f"/part-00000.{suffix}") for f in report.outputs)
    query = place.shared(2).query(f"FROM 'out/**/*.{suffix}' |> ORDER BY id")
    wanted = place.read("in*.jsonl") if "false" not in rows else []
    assert query.to_dicts() == [{**row, "a": str(row["a"])} for row in wanted]
    assert query.columns == ["id", "lang", "a"]


def test_with_the_columns_in_the_files_types_stay(place):
    extend = "FROM 'in*.jsonl' |> EXTEND DATE '2024-01-01' + CAST(a AS INTEGER) AS day"
    run(place, write("partition_by = [day, a], write_partition_columns = true", extend))
    query = place.shared(2).query("FROM 'out/**/*.parquet'")
    assert dict(zip(query.columns, query.types, strict=True)) == {
        "id": "BIGINT",
        "lang": "VARCHAR",
        "a": "BIGINT",
        "day": "DATE",
    }
    assert (place.folder / "out/day=2024-01-03/a=2").is_dir()
    assert len(query.to_dicts()) == 300


_NASTY = ["", "..", ".", "/", "a/../../b", "\0", "__HIVE_DEFAULT_PARTITION__", "%2F", "=", "\\"]
_texts = st.one_of(st.none(), st.sampled_from(_NASTY), st.text(st.characters(codec="utf-8")))


@given(st.lists(st.tuples(_texts, _texts), max_size=8))
@example([(value, value) for value in [*_NASTY, None, "é✓ ", "\u202e", " ", "~", "\n"]])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_value_stays_inside_and_comes_back(pairs):
    """Folders are one name each, and say which values they are of."""
    found = {}
    for values in pairs:
        try:
            folders = folders_of(["a b", "_x"], values)
        except RunError as error:
            if error.code != "R756":
                raise
            continue
        assert found.setdefault(folders, values) == values, "two values share a folder"
        with tempfile.TemporaryDirectory() as top:
            os.makedirs(os.path.join(top, folders))
            real = Path(os.path.realpath(os.path.join(top, folders)))
            assert real.parent.parent == Path(os.path.realpath(top))
            assert not real.parent.name.startswith((".", "_"))
        assert hive.folder_values(f"{folders}x.csv") == {"a b": values[0], "_x": values[1]}


def test_values_that_are_no_names_come_back(place):
    texts = [*_NASTY, None, "é✓ ", "x" * 200, "\n", "é" * 40]
    place.rows("in0.jsonl", [{"id": i, "_name": text} for i, text in enumerate(texts)])
    run(place, write("partition_by = [_name]", "FROM 'in0.jsonl'"))
    assert {row["id"]: row["_name"] for row in back(place)} == dict(enumerate(texts))
    assert place.names() == ["in0.jsonl", "in1.jsonl", "in2.jsonl", "out", "tmp", "udf.py"]


def test_a_value_that_is_too_long_is_named(place):
    place.rows("in0.jsonl", [{"id": 1, "name": "é" * 50}])
    with pytest.raises(RunError, match="makes the name of a folder of 305 bytes") as caught:
        run(place, write("partition_by = [name]", "FROM 'in0.jsonl'"))
    assert caught.value.code == "R756"
    assert "out" not in place.names()


def test_too_many_folders_name_the_setting(place):
    with place.session() as session, pytest.raises(RunError) as caught:
        session.run("SET max_partitions = 20;" + write("partition_by = [lang, id]"))
    assert caught.value.code == "R755"
    assert 'more than 20 folders: so far there are 4 of "lang", 300 of "id"' in str(caught.value)
    assert "SET max_partitions" in caught.value.hint
    assert "out" not in place.names()
    with place.session() as session:
        session.run("SET max_partitions = 300;" + write("partition_by = [id]"))
    assert len(data(place)) == 300


WRITES = {
    "sql": write("partition_by = [lang]"),
    "python": write("partition_by = [lang]", "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b"),
    "by python": write("partition_by = [b]", "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b"),
    "reduced": write(
        "partition_by = [n]",
        "FROM 'in*.jsonl' |> AGGREGATE count(*) AS n, min(id) AS i GROUP BY lang, a |> ORDER BY i",
    ),
    "rows": write("partition_by = [lang], max_rows_per_file = 10"),
    "bytes": write("partition_by = [lang], file_size_bytes = 400", kind="jsonl"),
    "shards": write("partition_by = [lang], shards = 3"),
    "shuffled": write("partition_by = [lang]", "FROM 'in*.jsonl' |> SHUFFLE SEED 7 INTO 3 SHARDS"),
    "distributed": write(
        "partition_by = [lang]", "FROM 'in*.jsonl' |> DISTRIBUTE BY a INTO 3 SHARDS", kind="jsonl"
    ),
    "named": write("partition_by = [lang]", to="out/x-{shard:02d}.parquet"),
}


@pytest.mark.parametrize("name", WRITES)
def test_the_same_bytes_for_any_number_of_workers(place, name):
    found = []
    for workers in (1, 4):
        report = run(place, WRITES[name].replace("out/", f"w{workers}/"), workers)
        found.append(data(place, f"w{workers}"))
        assert report.counters["records_written"] == sum(f.rows for f in report.outputs)
    assert found[0] == found[1]
    assert len(found[0]) > 1


def test_how_files_in_folders_are_cut(place):
    run(place, WRITES["rows"])
    names = sorted(p.name for p in (place.folder / "out/lang=en").iterdir())
    assert names == [f"part-{n:05d}.parquet" for n in range(8)]
    run(place, WRITES["bytes"].replace("out/", "small/"))
    sizes = [len(content) for content in data(place, "small").values()]
    assert max(sizes) <= 400
    assert len(sizes) > 8
    run(place, WRITES["shards"].replace("out/", "three/"))
    assert len(data(place, "three")) == 12
    run(place, WRITES["distributed"].replace("out/", "dealt/"))
    shards = {}
    for name, content in data(place, "dealt").items():
        for line in content.splitlines():
            shards.setdefault(json.loads(line)["a"], set()).add(name[-len("0.jsonl") :])
    assert all(len(found) == 1 for found in shards.values()), "equal keys share a shard"
    run(place, WRITES["named"].replace("out/", "named/"))
    assert "lang=en/x-00.parquet" in data(place, "named")


def test_big_partitions_have_several_files(place):
    with place.session(1) as session:
        session.set("split_size", 1000)
        session.run(write("partition_by = [lang]"))
    assert len(data(place)) > 4
    assert back(place) == place.read("in*.jsonl")


def test_the_manifest_lists_files_below_folders(place):
    run(place, write("partition_by = [lang]"))
    assert (place.folder / "out" / SUCCESS).exists()
    entry = json.loads((place.folder / "out" / MANIFEST).read_text())["targets"]
    (listed,) = entry.values()
    assert list(entry) == ["lang=*/part-{shard:05d}.parquet"]
    assert listed["files"]["lang=fr/part-00000.parquet"]["rows"] == 75
    assert [name for name, _ in listed["columns"]] == ["id", "a"]


def test_mode_error_sees_files_in_folders(place):
    run(place, write("partition_by = [lang]"))
    before = tree(place)
    with pytest.raises(StorageError, match="exists, and 3 more"):
        run(place, write("partition_by = [lang]"))
    (place.folder / "other").mkdir()
    (place.folder / "other/x.parquet").write_text("mine")
    with pytest.raises(StorageError, match=r"other/x\.parquet exists"):
        run(place, write("partition_by = [lang]", to="other/"))
    assert tree(place) == before


def test_overwrite_takes_away_values_that_are_gone(place):
    run(place, write("partition_by = [lang, a]"))
    (place.folder / "out/lang=fr/note.txt").write_text("mine")
    only = "FROM 'in*.jsonl' |> WHERE lang = 'en'"
    run(place, write("partition_by = [lang, a], mode = 'overwrite'", only))
    assert place.names("out") == [SUCCESS, MANIFEST, "lang=en", "lang=fr"]
    assert place.names("out/lang=fr") == ["note.txt"]
    assert {row["lang"] for row in back(place)} == {"en"}


def test_append_adds_behind(place):
    for name in ("in0", "in1", "in2"):
        run(place, write("partition_by = [lang], mode = 'append'", f"FROM '{name}.jsonl'"))
    assert place.names("out/lang=en") == [f"part-0000{n}.parquet" for n in range(3)]
    assert back(place) == place.read("in*.jsonl")


def test_append_of_a_resumed_run_is_not_added_twice(place):
    with place.session(1) as session:
        session.set("resume", True)
        text = write("partition_by = [lang], mode = 'append'", "FROM 'in0.jsonl'")
        session.run(text)
        session.run(text)
    assert len(data(place)) == 4
    assert back(place) == place.read("in0.jsonl")


def test_columns_that_are_called_like_those_of_the_run(place):
    place.rows("in0.jsonl", [{"folder 0": i, "Folder 1": "x", "k": i % 2} for i in range(6)])
    run(place, write('partition_by = [k, "Folder 1"]', "FROM 'in0.jsonl'"))
    assert back(place, order='"folder 0"') == [
        {"folder 0": i, "k": str(i % 2), "Folder 1": "x"} for i in range(6)
    ]


@pytest.mark.parametrize("name", ["sql", "python", "bytes"])
def test_skip_keeps_what_is_whole(place, name):
    text = WRITES[name].replace("OPTIONS (", "OPTIONS (mode = 'skip', ")
    first = run(place, text)
    before = data(place)
    again = run(place, text)
    assert again.counters["records_written"] == 0
    assert again.counters["records_kept"] == 300
    assert [f.path for f in again.outputs] == [f.path for f in first.outputs]
    gone = first.outputs[1]
    os.unlink(gone.path)
    third = run(place, text)
    assert third.counters["records_written"] == gone.rows
    assert data(place) == before
    place.rows("in2.jsonl", [{"id": 1, "a": 1, "lang": "en"}])
    with pytest.raises(StorageError, match="not what this plan makes"):
        run(place, text)


def test_a_failed_run_leaves_what_was_there(place):
    rows = "FROM 'in*.jsonl' |> EXTEND q.bad(a) AS b"
    with pytest.raises(UdfError, match="no 6"):
        run(place, write("partition_by = [lang]", rows))
    assert "out" not in place.names()
    run(place, write("partition_by = [lang]"))
    before = tree(place)
    with pytest.raises(UdfError, match="no 6"):
        run(place, write("partition_by = [lang], mode = 'overwrite'", rows))
    assert tree(place) == before


def test_a_resumed_run_takes_up_what_is_kept(place):
    text = SCRIPT + write("partition_by = [b]", "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b")
    os.mkdir("out")
    os.chmod("out", 0o700)
    with place.session(1) as session:
        session.set("resume", True)
        session.set("max_partitions", 3)
        with pytest.raises(RunError):
            session.run(text)
        session.set("max_partitions", 30)
        report = session.run(text)
    assert report.counters["tasks_reused"] >= 3
    assert len(back(place)) == 300


def test_rejects_have_folders_too(place):
    text = (
        "FROM 'in*.jsonl' |> EXTEND q.bad(a) AS b ON ERROR SKIP INTO 'bad/' OPTIONS"
        " (format = 'jsonl', partition_by = [lang]) |> WRITE 'good.jsonl'"
    )
    report = run(place, text)
    assert report.counters["rows_rejected"] == 42
    found = back(place, "bad/**/*.jsonl")
    assert [row["id"] for row in found] == [r["id"] for r in place.read("in*.jsonl") if r["a"] == 6]
    assert {row["lang"] for row in found} == set(LANGS)


def test_several_outputs_of_one_statement(place):
    text = (
        "FROM 'in*.jsonl' |> FORK"
        " (|> WRITE 'out/' OPTIONS (format = 'parquet', partition_by = [a])),"
        " (|> WRITE 'more/' OPTIONS (format = 'csv', partition_by = [lang]))"
    )
    run(place, text)
    assert len(data(place)) == 7
    assert len(data(place, "more")) == 4


def test_from_python(place):
    query = place.shared(2).query("FROM 'in*.jsonl'")
    query.write("out/", format="parquet", partition_by=["LANG", "a"])
    assert len(back(place)) == 300
    query.write("two/", format="jsonl", partition_by="lang", write_partition_columns=True)
    assert "lang" in place.read("two/lang=en/*.jsonl")[0]
    with pytest.raises(BindError, match='names "nope"'):
        query.write("three/", format="parquet", partition_by=["nope"])
    with pytest.raises(UsageError, match="must be names of columns"):
        query.write("three/", format="parquet", partition_by=3)


def test_a_format_of_ones_own(place):
    place.functions(
        """
        import zql
        @zql.format("lines", suffixes=[".lines"])
        class Lines:
            def read(self, path):
                for line in open(path):
                    yield {"text": line.strip()}
            def write(self, rows, file):
                for row in rows:
                    file.write(("|".join(str(v) for v in row.values()) + "\\n").encode())
        """
    )
    run(place, write("partition_by = [lang]", kind="lines"))
    assert (place.folder / "out/lang=de/part-00000.lines").read_text().startswith("1|1\n5|5\n")


def test_a_store_elsewhere(place):
    import fsspec

    store = fsspec.filesystem("memory")
    try:
        run(place, write("partition_by = [lang]", to="memory://bucket/out/"))
        assert back(place, "memory://bucket/out/**/*.parquet") == place.read("in*.jsonl")
        again = write("partition_by = [lang], mode = 'overwrite'", "FROM 'in0.jsonl'")
        run(place, again.replace("'out/'", "'memory://bucket/out/'"))
        assert len(back(place, "memory://bucket/out/**/*.parquet")) == 100
    finally:
        store.rm("/bucket", recursive=True)


def test_check_knows_what_comes_back(place):
    text = (
        write("partition_by = [lang]")
        + "; FROM 'out/**/*.parquet' |> SELECT id, upper(lang) AS l |> WRITE 'l.csv';"
    )
    from zql.source import Source

    assert place.shared(2).check(Source("s.zql", text)) == []
    assert "out" not in place.names()


def test_the_output_is_not_read_by_the_next_run(place):
    os.makedirs("out/lang=xx")
    run(place, "FROM 'in0.jsonl' |> WRITE 'out/lang=xx/a.parquet'")
    with pytest.raises(BindError, match="the next run would read it"):
        run(place, write("partition_by = [lang], mode = 'append'", "FROM 'out/*/*.parquet'"))
