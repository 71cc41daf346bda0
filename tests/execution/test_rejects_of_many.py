"""ON ERROR of functions of many rows: batches, shards and groups go as a whole or not at all."""

from dataclasses import replace

import pytest
import zql

FUNCTIONS = """
import zql

def batch(rows):
    for row in rows:
        if row["n"] % 7 == 0:
            raise ValueError(f"{row['n']} is a multiple of 7")
        yield {"n": row["n"], "half": row["n"] // 2}

def table(rows):
    return [{"n": row["n"], "half": "odd" if row["n"] % 2 else row["n"] // 2} for row in rows]

@zql.udf(volatile=True)
def once(rows):
    with open("calls.txt", "a") as file:
        file.write("x")
    return batch(rows)

def ends(rows):
    for row in rows:
        if row["n"] == 7:
            raise SystemExit(3)
    return []

def group(key, rows):
    total = 0
    for row in rows:
        if row["n"] == 77:
            raise ValueError("77 came")
        total += row["n"]
        yield {"key": key, "total": total}
    if key == 2:
        yield {"key": key, "total": "no number"}

def same(row):
    return {"n": row["n"]}

def next(n: int) -> int:
    return n + 1

def shard(rows):
    for row in rows:
        if row["n"] == 60:
            raise ValueError("60 came")
        yield {"n": row["n"]}

def lazy(rows):
    for row in rows:
        if row["n"] % 50 == 3:
            return
        yield {"n": row["n"]}

def empty(key, rows):
    return [{"n": max(row["n"] for row in rows)}]
"""
ROWS = 150


@pytest.fixture
def numbers(place):
    place.functions(FUNCTIONS)
    for start in range(0, ROWS, 50):
        place.rows(f"in-{start:03d}.jsonl", [{"n": n} for n in range(start, start + 50)])
    return place


def script(operator: str, policy: str = "SKIP INTO 'rejects/'") -> str:
    return (
        "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' "
        f"|> {operator} ON ERROR {policy} "
        "|> WRITE 'out/' OPTIONS (format = 'jsonl', mode = 'overwrite')"
    )


BATCHES = script("MAP BATCHES udf.batch RETURNS (n BIGINT, half BIGINT)")
SHARDS = script("MAP SHARDS udf.shard RETURNS (n BIGINT)")
GROUPS = script("REDUCE udf.group GROUP BY n % 5 AS key RETURNS (key BIGINT, total BIGINT)")


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rows_of_a_batch_that_fail_alone(numbers, workers):
    report = numbers.run(BATCHES, workers)
    bad = [n for n in range(ROWS) if n % 7 == 0]
    assert numbers.read("rejects/*.jsonl") == [
        {
            "n": n,
            "_error": f"ValueError: {n} is a multiple of 7",
            "_operator": "MAP BATCHES udf.batch",
            "_file": f"in-{n // 50 * 50:03d}.jsonl",
            "_row": n % 50 + 1,
        }
        for n in bad
    ]
    good = [n for n in range(ROWS) if n % 7]
    assert numbers.read("out/*.jsonl") == [{"n": n, "half": n // 2} for n in good]
    assert report.counters["rows_rejected"] == len(bad)


def test_values_of_a_batch_that_do_not_fit(numbers):
    numbers.run(script("MAP BATCHES udf.table RETURNS (n BIGINT, half BIGINT)"))
    assert [row["n"] for row in numbers.read("rejects/*.jsonl")] == list(range(1, ROWS, 2))
    assert [row["n"] for row in numbers.read("out/*.jsonl")] == list(range(0, ROWS, 2))


def test_a_volatile_function_gets_a_batch_once(numbers):
    numbers.run(
        script("MAP BATCHES @{batch_size = 10} udf.once RETURNS (n BIGINT, half BIGINT)"), 1
    )
    assert numbers.read("out/*.jsonl") == []  # each ten has a multiple of seven
    assert [row["n"] for row in numbers.read("rejects/*.jsonl")] == [*range(ROWS)]
    assert (numbers.folder / "calls.txt").read_text() == "x" * (ROWS // 10)


def test_what_is_no_exception_of_a_batch_ends_the_run(numbers):
    with pytest.raises(zql.UdfError, match="SystemExit") as info:
        numbers.run(script("MAP BATCHES udf.ends RETURNS (n BIGINT)"))
    assert info.value.code == "R710"
    assert "out" not in numbers.names()


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("batch_bytes", [4 << 20, 1])
def test_a_group_that_fails_gives_nothing(numbers, workers, batch_bytes):
    with numbers.session(workers) as session:
        # With one byte all that waits goes to files.
        session.settings = replace(session.settings, batch_bytes=batch_bytes)
        report = session.run(GROUPS)
    found = numbers.read("rejects/*.jsonl")
    assert [row["n"] for row in found] == [*range(2, ROWS, 5)]  # 77 is one of these
    assert {row["_error"] for row in found} == {"ValueError: 77 came"}
    assert {row["_operator"] for row in found} == {"REDUCE udf.group"}
    assert [(row["_file"], row["_row"]) for row in found] == [
        (f"in-{n // 50 * 50:03d}.jsonl", n % 50 + 1) for n in range(2, ROWS, 5)
    ]
    out = numbers.read("out/*.jsonl")
    assert [row["key"] for row in out] == [key for key in (0, 1, 3, 4) for _ in range(ROWS // 5)]
    assert out[-1]["total"] == sum(range(4, ROWS, 5))
    assert report.counters["rows_rejected"] == ROWS // 5
    (step,) = (s for stage in report.stages for s in stage.steps if s.rejected)
    assert (step.operator, step.rejected) == ("REDUCE udf.group", ROWS // 5)
    assert numbers.names("tmp") == []


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_of_groups_know_their_files(numbers, workers):
    steps = "|> WHERE n > 13 |> MAP udf.same |> EXTEND udf.next(n) AS m |> ORDER BY m DESC |> AS t"
    text = GROUPS.replace("FROM 'in-*.jsonl'", f"FROM 'in-*.jsonl' {steps}")
    with numbers.session(workers) as session:
        session.settings = replace(session.settings, split_size=200)
        session.run(text)
    found = numbers.read("rejects/*.jsonl")
    assert sorted(row["n"] for row in found) == [*range(17, ROWS, 5)]
    for row in found:
        n = row["n"]
        assert (row["_file"], row["_row"]) == (f"in-{n // 50 * 50:03d}.jsonl", n % 50 + 1)


def test_rows_of_groups_that_are_of_no_one_file(numbers):
    steps = "|> AGGREGATE count(*) AS c GROUP BY n |> WHERE c > 0"
    numbers.run(GROUPS.replace("FROM 'in-*.jsonl'", f"FROM 'in-*.jsonl' {steps}"))
    found = numbers.read("rejects/*.jsonl")
    assert len(found) == ROWS // 5
    assert {(row["_file"], row["_row"]) for row in found} == {(None, None)}


def test_a_group_that_gives_what_does_not_fit(numbers):
    numbers.run(GROUPS.replace("FROM 'in-*.jsonl'", "FROM 'in-*.jsonl' |> WHERE n <> 77"))
    found = numbers.read("rejects/*.jsonl")
    assert [row["n"] for row in found] == [n for n in range(2, ROWS, 5) if n != 77]
    assert found[0]["_error"].startswith("gave 'no number', which does not fit")


def test_a_limit_counts_the_rows_of_a_group(numbers):
    before = numbers.names()
    limited = GROUPS.replace("INTO 'rejects/'", f"INTO 'rejects/' LIMIT {ROWS // 5 - 1}")
    with pytest.raises(zql.UdfError, match="more than 29 rows failed in REDUCE") as info:
        numbers.run(limited)
    assert info.value.code == "R719"
    assert "udf.group on the group 2 raised ValueError: 77 came" in info.value.notes[0]
    assert numbers.names() == before
    numbers.run(limited.replace("LIMIT 29", "LIMIT 30"))
    with pytest.raises(zql.UdfError, match=r"30 of 150 rows \(20 %\) failed in REDUCE"):
        numbers.run(limited.replace("LIMIT 29", "LIMIT 19 PERCENT"))
    numbers.run(limited.replace("LIMIT 29", "LIMIT 20 PERCENT"))


def test_all_rows_are_one_group(numbers):
    report = numbers.run(script("REDUCE udf.group RETURNS (key BIGINT, total BIGINT)"))
    assert numbers.read("out/*.jsonl") == []
    assert len(numbers.read("rejects/*.jsonl")) == report.counters["rows_rejected"] == ROWS


def test_a_call_for_no_rows_cannot_be_let_go(numbers):
    of_none = script("REDUCE udf.empty RETURNS (n BIGINT)")
    numbers.run(of_none)
    with pytest.raises(zql.UdfError, match="ValueError") as info:
        numbers.run(of_none.replace("FROM 'in-*.jsonl'", "FROM 'in-*.jsonl' |> WHERE n < 0"))
    assert info.value.code == "R710"


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("batch_bytes", [4 << 20, 1])
def test_a_shard_that_fails_goes_as_a_whole(numbers, workers, batch_bytes):
    with numbers.session(workers) as session:
        session.settings = replace(session.settings, batch_bytes=batch_bytes)
        report = session.run(SHARDS)
    found = numbers.read("rejects/*.jsonl")
    assert [row["n"] for row in found] == [*range(50, 100)]
    assert {row["_file"] for row in found} == {"in-050.jsonl"}
    assert [row["_row"] for row in found] == [*range(1, 51)]
    assert [r["n"] for r in numbers.read("out/*.jsonl")] == [*range(50), *range(100, 150)]
    assert report.counters["rows_rejected"] == 50
    assert numbers.names("tmp") == []


def test_a_share_of_rows_that_a_shard_has_not_looked_at(numbers):
    # All rows of a shard count, whether the function takes them or not.
    lazy = script("MAP SHARDS udf.lazy RETURNS (n BIGINT)", "SKIP LIMIT 0 PERCENT")
    report = numbers.run(lazy)
    assert [row["n"] for row in numbers.read("out/*.jsonl")] == [0, 1, 2, 50, 51, 52, 100, 101, 102]
    assert report.counters["rows_rejected"] == 0


@pytest.mark.parametrize("text", [BATCHES, GROUPS, SHARDS])
def test_no_row_is_lost(numbers, text):
    with numbers.session() as session:
        session.settings = replace(session.settings, split_size=150)
        report = session.run(text)
        query = session.query("FROM 'rejects/*.jsonl' |> AGGREGATE count(*) AS n")
        rejected = query.to_dicts()[0]["n"]
    assert report.counters["tasks"] > 6
    assert rejected == report.counters["rows_rejected"]
    assert rejected + report.counters["records_out"] == ROWS


def test_calls_among_the_arguments(numbers):
    numbers.functions(
        "def half(n: int) -> int:\n"
        "    if n % 50 == 49:\n        raise ValueError('49')\n    return n // 2\n"
        "def each(values):\n    return [{'x': v} for v in values]\n"
        "def fails(values):\n"
        "    for v in values:\n        if v == 40:\n            raise ValueError('40')\n"
        "        yield {'x': v}\n",
        "args.py",
    )
    text = script("MAP SHARDS args.fails(args.half(n)) RETURNS (x BIGINT)")
    report = numbers.run(text.replace("'udf.py'", "'args.py'"))
    found = numbers.read("rejects/*.jsonl")
    # Of the middle shard one row fails by itself, the others with the shard.
    assert sorted(row["n"] for row in found) == [49, *range(50, 100), 149]
    assert {row["_file"] for row in found if 50 <= row["n"] < 100} == {"in-050.jsonl"}
    assert report.counters["rows_rejected"] == 52


@pytest.mark.parametrize(
    ("operator", "returns"),
    [
        ("MAP BATCHES udf.batch", "(n BIGINT, half BIGINT)"),
        ("MAP SHARDS udf.shard", "(n BIGINT)"),
        ("REDUCE udf.group GROUP BY n % 2 AS key", "(key BIGINT, total BIGINT)"),
    ],
)
def test_calls_that_fail_when_types_are_looked_for(numbers, operator, returns):
    numbers.run(script(f"{operator} RETURNS {returns}"))
    said = numbers.read("out/*.jsonl"), numbers.read("rejects/*.jsonl")
    numbers.run(script(operator))
    assert (numbers.read("out/*.jsonl"), numbers.read("rejects/*.jsonl")) == said
    assert said[1]


def test_when_all_calls_fail_no_type_can_be_seen(numbers):
    numbers.functions("def never(key, rows):\n    raise ValueError('never')\n")
    with pytest.raises(zql.ZqlError, match="raised ValueError: never"):
        numbers.run(script("REDUCE udf.never GROUP BY n % 5 AS key"))
