"""SET cache: results of stages that stay between runs, and only while they are right."""

import os

import pytest
from zql.errors import StorageError

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


def test_a_cache_that_others_can_write_is_refused(place):
    os.mkdir("kept")
    os.chmod("kept", 0o777)
    with pytest.raises(StorageError, match="others can write there"):
        run(place, SUMS)
