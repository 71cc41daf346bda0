"""SET cache: results of stages that stay between runs, and only while they are right."""

import os

import pytest
from zql.errors import StorageError
from zql.execution.cache_folder import CacheFolder
from zql.execution.journal import Journal

UDF = """
import os
from typing import TypedDict
class Total(TypedDict):
    n: int
def note(word):
    with open("calls", "a") as file:
        file.write(word)
def double(a: int) -> int:
    note("d")
    return a * 2
def total(key, rows) -> Total:
    note("t")
    return {"n": sum(row["b"] for row in rows)}
"""
HEAD = "IMPORT PYTHON 'udf.py' AS q; SET cache = 'kept';\n"
SUMS = (
    "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b |> EXTEND a % 3 AS k"
    " |> REDUCE q.total GROUP BY k |> ORDER BY n"
)


@pytest.fixture
def place(place):
    for i in range(4):
        place.rows(f"in{i}.jsonl", [{"a": i * 10 + k} for k in range(10)])
    place.functions(UDF)
    return place


def run(place, text, name="sums.jsonl"):
    """The calls that a script makes, and what it writes."""
    with place.session(1) as session:
        report = session.run(f"{HEAD}{text} |> WRITE '{name}' OPTIONS (mode = 'overwrite')")
    calls = place.folder / "calls"
    made = calls.read_text() if calls.exists() else ""
    calls.unlink(missing_ok=True)
    return (made.count("d"), made.count("t")), report, (place.folder / name).read_bytes()


def test_only_what_an_edit_changed_runs_again(place):
    calls, _, first = run(place, SUMS)
    assert calls == (40, 3)
    calls, report, again = run(place, SUMS)
    assert calls == (0, 0)
    assert again == first
    assert report.counters["tasks_reused"] > 0
    assert run(place, SUMS.replace("ORDER BY n", "ORDER BY n DESC"))[0] == (0, 0)
    assert run(place, SUMS.replace("GROUP BY k", "GROUP BY k ORDER BY b DESC"))[0] == (0, 3)
    place.rows("in2.jsonl", [{"a": 5}])
    assert run(place, SUMS)[0] == (1, 3)


def test_outputs_of_one_file_are_kept_too(place):
    calls, _, first = run(place, "FROM 'in*.jsonl' |> WHERE a > 7", "native.parquet")
    _, report, again = run(place, "FROM 'in*.jsonl' |> WHERE a > 7", "native.parquet")
    assert calls == (0, 0)
    assert first == again
    assert report.counters["tasks_reused"] == 1


def test_an_output_that_was_changed_in_place_is_not_taken_for_a_result(place):
    _, _, first = run(place, SUMS)
    with open("sums.jsonl", "a") as file:
        file.write("{}\n")
    assert run(place, SUMS)[2] == first


def test_what_differs_from_run_to_run_is_made_again(place):
    text = "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b, random() AS r"
    assert run(place, text)[0] == (40, 0)
    assert run(place, text)[0] == (40, 0)
    clock = "FROM 'in*.jsonl' |> EXTEND q.double(a) AS b, current_timestamp AS r"
    assert run(place, clock)[0] == (40, 0)
    assert run(place, clock)[0] == (40, 0)


def test_rejects_and_counters_are_those_of_the_run_that_did_it(place):
    place.functions(
        """
        def half(a: int, ctx) -> int:
            ctx.counter("seen").add()
            if a % 2:
                raise ValueError("odd")
            return a // 2
        """
    )
    text = (
        "IMPORT PYTHON 'udf.py' AS q; SET cache = 'kept';"
        "FROM 'in*.jsonl' |> EXTEND q.half(a) AS h ON ERROR SKIP INTO 'bad.jsonl'"
        " |> WRITE 'out/{shard}.jsonl' OPTIONS (mode = 'overwrite')"
    )
    found = []
    for _ in range(2):
        with place.session(1) as session:
            counters = dict(session.run(text).counters)
        reused = counters.pop("tasks_reused")
        found.append((counters, place.bytes("out/*.jsonl"), place.bytes("bad.jsonl")))
    assert found[0] == found[1]
    assert counters["seen"] == 40
    assert counters["rows_rejected"] == 20
    assert reused >= 4


def test_explain_says_what_would_be_reused(place):
    text = f"{HEAD}EXPLAIN {SUMS} |> WRITE 'sums.jsonl' OPTIONS (mode = 'overwrite')"

    def notes():
        with place.session(1) as session:
            query = text.replace("EXPLAIN ", "")
            found = session.explain(source(query))
        return [line.strip() for line in found.splitlines() if "reuse: " in line]

    assert notes()[0] == "reuse: nothing is there of stage 1"
    assert notes()[-1].endswith("depends on the stages before it")
    run(place, SUMS)
    assert all(note.endswith("is there already") for note in notes())
    place.rows("in2.jsonl", [{"a": 5}])
    assert notes()[0] == "reuse: 3 of 4 tasks of stage 1 are there already"
    assert not (place.folder / "calls").exists()


def source(text):
    from zql.source import Source

    return Source("script.zql", text)


def queried(place, text, **settings):
    """The calls that a query makes, and its rows."""
    with place.session(1) as session:
        for name, value in {"cache": "kept", **settings}.items():
            session.set(name, value)
        session.run("IMPORT PYTHON 'udf.py' AS q")
        found = session.query(f"IMPORT PYTHON 'udf.py' AS q; {text}").to_dicts()
    calls = place.folder / "calls"
    made = calls.read_text() if calls.exists() else ""
    calls.unlink(missing_ok=True)
    return (made.count("d"), made.count("t")), found


@pytest.mark.parametrize("inline", [16 << 20, 1], ids=["in this process", "in workers"])
def test_queries_use_it_too(place, monkeypatch, inline):
    monkeypatch.setattr("zql.execution.settings.Settings.inline_bytes", inline, raising=False)
    calls, first = queried(place, SUMS)
    assert calls == (40, 3)
    assert queried(place, SUMS) == ((0, 0), first)
    assert queried(place, SUMS + " |> SELECT n * 2 AS m")[0] == (0, 0), "what is behind changed"
    assert queried(place, SUMS.replace("GROUP BY k", "GROUP BY k ORDER BY b DESC"))[0] == (0, 3)
    place.rows("in2.jsonl", [{"a": 5}])
    assert queried(place, SUMS)[0] == (1, 3)
    assert queried(place, SUMS.replace("a % 3", "random() * 0 + a % 3"))[0][0] == 31
    assert queried(place, SUMS.replace("a % 3", "random() * 0 + a % 3"))[0][0] == 31


def test_queries_and_writes_share_it(place):
    assert run(place, SUMS)[0] == (40, 3)
    assert queried(place, SUMS)[0] == (0, 0)
    assert queried(place, SUMS, cache="")[0] == (40, 3), "none without the setting"


def test_rows_that_are_not_taken_to_their_end(place):
    with place.session(1) as session:
        session.set("cache", "kept")
        text = f"IMPORT PYTHON 'udf.py' AS q; {SUMS}"
        for _ in range(2):
            rows = session.open_rows(session.query(text)._plan)
            rows.close()
    assert (place.folder / "calls").read_text().count("d") == 40
    assert list(place.temp.iterdir()) == []
    assert not list((place.folder / "kept/.users").iterdir())


def test_what_a_dead_run_left_is_not_touched_by_queries(place, monkeypatch):
    left = place.temp / "zqlwork-1-0123456789abcdef"
    left.mkdir()
    (left / "journal").write_text("")
    (left / "lock").write_text("")
    queried(place, SUMS)
    assert (left / "journal").exists()
    for path in left.iterdir():
        path.unlink()
    left.rmdir()


def test_explain_of_a_query(place):
    def notes():
        with place.session(1) as session:
            session.set("cache", "kept")
            found = session.explain(source(f"IMPORT PYTHON 'udf.py' AS q; {SUMS}"))
        return [line.strip() for line in found.splitlines() if "reuse: " in line]

    before = notes()
    assert before[0] == "reuse: nothing is there of stage 1"
    assert len(before) == 3, "the last stage gives its rows, and keeps none"
    queried(place, SUMS)
    after = [f"reuse: stage {n} is there already" for n in (1, 2, 3)]
    assert notes() == after
    assert not (place.folder / "calls").exists()


def test_a_shuffle_with_a_seed_is_dealt_once(place, monkeypatch):
    for name in ("_WORTH_BYTES", "_PARTITION_BYTES"):
        monkeypatch.setattr(f"zql.optimizer.rules.partition_shuffles.{name}", 1 << 6)
    with place.session(1) as session:
        session.run("FROM 'in*.jsonl' |> WRITE 'in.parquet'")
        session.set("cache", "kept")
        text = "FROM 'in.parquet' |> SHUFFLE SEED {} |> SELECT a"
        assert "Exchange" in session.explain(source(text.format(3)))
        first = session.query(text.format(3)).to_dicts()
        assert "stage 1 is there already" in session.explain(source(text.format(3)))
        assert "nothing is there of stage 1" in session.explain(source(text.format(4)))
        assert session.query(text.format(3)).to_dicts() == first
        write = text.format(3) + " |> WRITE 'x.jsonl'"
        assert session.run(write).counters["tasks_reused"] == 1
        assert place.read("x.jsonl") == first
        assert session.query(text.format(4)).to_dicts() != first


# ---- how big it may get ------------------------------------------------------------------------


def kept(place):
    """The entries of the cache with their bytes."""
    top = place.folder / "kept"
    return {
        path.name: sum(f.stat().st_size for f in path.iterdir())
        for path in top.iterdir()
        if not path.name.startswith(".")
    }


def aged(place, seconds):
    """Lets all entries have been used that long ago."""
    for name in kept(place):
        path = place.folder / "kept" / name
        when = path.stat().st_mtime - seconds
        os.utime(path, (when, when))


def test_what_was_not_used_for_longest_goes(place):
    texts = [f"FROM 'in{i}.jsonl' |> EXTEND q.double(a) AS b" for i in range(4)]
    for text in texts[:3]:
        queried(place, text)
        aged(place, 100)
    size = max(kept(place).values())
    queried(place, texts[0])  # used again, so the second is the oldest
    aged(place, 100)
    queried(place, texts[3], cache_size=f"{3 * size + size // 2}B")
    assert len(kept(place)) == 3
    found = [queried(place, text)[0][0] for text in (texts[0], texts[2], texts[3], texts[1])]
    assert found == [0, 0, 0, 10]


def test_a_run_that_is_bigger_than_the_cache_leaves_nothing_above_it(place):
    queried(place, SUMS, cache_size="1B")
    assert kept(place) == {}
    run(place, SUMS.replace("EXTEND a", "EXTEND  a"), "x.jsonl")
    assert kept(place)
    queried(place, SUMS, cache_size="none")
    assert kept(place)


def test_what_a_run_uses_that_lives_stays(place):
    text = "FROM 'in0.jsonl' |> EXTEND q.double(a) AS b"
    queried(place, text)
    with place.session(1) as session:
        session.set("cache", "kept")
        rows = session.open_rows(session.query(f"IMPORT PYTHON 'udf.py' AS q; {text}")._plan)
        before = set(kept(place))
        queried(place, text.replace("in0", "in1"), cache_size="1B")
        assert set(kept(place)) == before
        assert not list(CacheFolder("kept").old(0)), "zql clean leaves it, too"
        rows.close()
    queried(place, text.replace("in0", "in2"), cache_size="1B")
    assert kept(place) == {}


def test_users_that_are_dead_hold_nothing(place):
    text = "FROM 'in0.jsonl' |> EXTEND q.double(a) AS b"
    queried(place, text)
    users = place.folder / "kept/.users"
    users.mkdir(exist_ok=True)
    (key,) = kept(place)
    dead = Journal(str(users / "1-dead"))
    dead.add({"key": key})
    dead.close()
    queried(place, text.replace("in0", "in1"), cache_size="1B")
    assert kept(place) == {}
    assert list(users.iterdir()) == []


def test_a_cache_that_others_can_write_is_refused(place):
    os.mkdir("kept")
    os.chmod("kept", 0o777)
    with pytest.raises(StorageError, match="others can write there"):
        run(place, SUMS)
