"""ON ERROR: rows that fail are counted, kept and limited, whatever the number of workers."""

from dataclasses import replace

import pytest
import zql

FUNCTIONS = """
def half(n: int) -> int:
    if n % 7 == 0:
        raise ValueError(f"{n} is a multiple of 7")
    return n // 2

def dies(n: int) -> int:
    if n == 3:
        raise SystemExit(3)
    return n
"""
SCRIPT = """
IMPORT PYTHON 'udf.py';
FROM 'in-*.jsonl' |> WHERE n >= 2 |> SELECT n
|> EXTEND udf.half(n) AS h ON ERROR SKIP INTO 'rejects/'
|> WRITE 'out/' OPTIONS (format = 'jsonl');
"""


@pytest.fixture
def numbers(place):
    place.functions(FUNCTIONS)
    for start in (0, 50, 100):
        rows = [{"n": n} for n in range(start, start + 50)]
        place.rows(f"in-{start:03d}.jsonl", rows)
    return place


def expected() -> list[dict]:
    return [
        {
            "n": n,
            "_error": f"ValueError: {n} is a multiple of 7",
            "_operator": "EXTEND udf.half",
            "_file": f"in-{n // 50 * 50:03d}.jsonl",
            "_row": n % 50 + 1,
        }
        for n in range(2, 150)
        if n % 7 == 0
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_rejects_hold_the_input_and_the_error(numbers, workers):
    report = numbers.run(SCRIPT, workers)
    assert numbers.read("rejects/*.jsonl") == expected()
    assert [row["n"] for row in numbers.read("out/*.jsonl")] == [n for n in range(2, 150) if n % 7]
    counters = report.counters
    assert counters["rows_rejected"] == len(expected())
    assert counters["records_written"] == counters["records_out"] == 148 - len(expected())
    (step,) = (s for stage in report.stages for s in stage.steps if s.rejected)
    assert (step.operator, step.rejected) == ("CALL udf.half", len(expected()))
    assert [file.path for file in report.outputs][-1] == "rejects/part-00000.jsonl"


def test_rows_of_a_part_of_a_file(numbers):
    with numbers.session() as session:
        session.settings = replace(session.settings, split_size=200)
        report = session.run(SCRIPT)
    assert numbers.read("rejects/*.jsonl") == expected()
    assert report.counters["tasks"] > 6


def test_nothing_appears_when_the_limit_ends_the_run(numbers):
    before = numbers.names()
    script = SCRIPT.replace("INTO 'rejects/'", "INTO 'rejects/' LIMIT 20")
    with pytest.raises(zql.UdfError, match="more than 20 rows failed in EXTEND") as info:
        numbers.run(script)
    assert info.value.code == "R719"
    assert "half on row " in info.value.notes[0]
    assert ", given " in info.value.notes[0]
    assert numbers.names() == before
    numbers.run(script.replace("LIMIT 20", "LIMIT 21"))
    assert numbers.read("rejects/*.jsonl") == expected()


def test_rejects_go_with_the_mode_of_the_output(numbers):
    script = SCRIPT.replace("format = 'jsonl'", "format = 'jsonl', mode = 'overwrite'")
    numbers.run(script)
    numbers.run(script.replace("n >= 2", "n >= 100"))
    assert numbers.read("rejects/*.jsonl") == [r for r in expected() if r["n"] >= 100]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_rejects_go_with_the_mode_of_the_main_write(numbers, mode):
    script = (
        "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' |> WHERE n >= 2 |> SELECT n "
        "|> TEE (|> WRITE 'side.jsonl') "
        "|> EXTEND udf.half(n) AS h ON ERROR SKIP INTO 'rejects/' "
        f"|> WRITE 'out/' OPTIONS (format = 'jsonl', mode = '{mode}')"
    )
    for _ in range(2):
        numbers.run(script)
        (numbers.folder / "side.jsonl").unlink()
    times = {"overwrite": 1, "append": 2}[mode]
    rejected = [row["n"] for row in numbers.read("rejects/*.jsonl")]
    assert rejected == [row["n"] for row in expected()] * times


def test_rejects_have_options_of_their_own(numbers):
    script = SCRIPT.replace("INTO 'rejects/'", "INTO 'bad.csv' OPTIONS (mode = 'append')")
    with pytest.raises(zql.UsageError, match="append"):
        numbers.run(script)  # one file cannot get more rows
    script = script.replace("'bad.csv'", "'bad/'").replace("'append'", "'append', format = 'csv'")
    numbers.run(script)
    numbers.run(script.replace("'out/'", "'out2/'"))
    assert [path.read_text().splitlines()[0] for path in numbers.folder.glob("bad/*.csv")] == [
        "n,_error,_operator,_file,_row"
    ] * 2
    assert "rejects" not in numbers.names()


def test_rejects_without_an_output_of_files(numbers):
    script = "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' |> SELECT n |> WHERE n >= 2 "
    script += "|> EXTEND udf.half(n) AS h ON ERROR SKIP INTO 'bad.jsonl' |> FINISH"
    numbers.run(script)
    with pytest.raises(zql.StorageError, match=r"bad\.jsonl exists") as info:
        numbers.run(script)
    assert "OPTIONS (mode = 'overwrite')" in info.value.hint
    numbers.run(script.replace("'bad.jsonl'", "'bad.jsonl' OPTIONS (mode = 'overwrite')"))
    assert numbers.read("bad.jsonl") == expected()


def test_outputs_that_are_kept_keep_their_rejects(numbers):
    script = SCRIPT.replace("format = 'jsonl'", "format = 'jsonl', mode = 'skip'")
    numbers.run(script)
    report = numbers.run(script)
    assert (report.counters["python_calls"], report.counters["records_written"]) == (0, 0)
    assert numbers.read("rejects/*.jsonl") == expected()


def test_what_is_no_exception_of_a_row_ends_the_run(numbers):
    script = SCRIPT.replace("udf.half", "udf.dies")
    with pytest.raises(zql.UdfError, match="SystemExit") as info:
        numbers.run(script)
    assert info.value.code == "R710"


def test_a_query_counts_what_it_has_read_only(numbers):
    with numbers.session() as session:
        session.settings = replace(session.settings, split_size=200, inline_bytes=0)
        query = session.query(
            "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' |> EXTEND udf.half(n) AS h ON ERROR NULL "
            "|> WHERE h IS NULL |> SELECT n |> LIMIT 2"
        )
        assert query.to_dicts() == [{"n": 0}, {"n": 7}]


def test_many_failures_of_many_rows(place):
    place.functions("def f(n: int) -> int:\n    return 'x' if n % 2 else n\n", "g.py")
    place.rows("big.jsonl", [{"n": n} for n in range(20_000)])
    report = place.run(
        "IMPORT PYTHON 'g.py'; FROM 'big.jsonl' "
        "|> EXTEND g.f(n) AS x ON ERROR NULL INTO 'bad.jsonl' "
        "|> WHERE x IS NULL |> WRITE 'out.jsonl'"
    )
    assert report.counters["rows_rejected"] == 10_000
    rejected = place.read("bad.jsonl")
    assert [r["_row"] for r in rejected] == [n + 1 for n in range(1, 20_000, 2)]
    assert rejected[0]["_error"] == "gave 'x', which does not fit BIGINT: it is of the type str"


@pytest.mark.parametrize(
    "steps",
    [
        "LIMIT 120",
        "ORDER BY n DESC |> LIMIT 120",
        "EXTEND row_number() OVER () AS place",
        "WHERE n IN (FROM range(0, 120) AS r(x)) |> AS t",
        "ORDER BY n DESC |> EXTEND udf.dies(n + 4) AS same |> SELECT n",
        "SELECT *, filename, file_row_number |> ORDER BY n DESC",
    ],
)
@pytest.mark.parametrize(
    "operator",
    [
        "EXTEND udf.half(n) AS h ON ERROR NULL",
        "WHERE udf.half(n) > 0 ON ERROR SKIP",
        "MAP udf.halves ON ERROR SKIP",
        "MAP BATCHES udf.batch ON ERROR SKIP",
    ],
)
def test_rejects_know_their_file_wherever_their_rows_come_from_it(numbers, steps, operator):
    more = """
def halves(row):
    return {"h": half(row["n"])}

def batch(rows):
    return [halves(row) for row in rows]
"""
    numbers.functions(FUNCTIONS + more)
    numbers.run(
        f"IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' |> {steps} |> {operator} INTO 'bad.jsonl' "
        "|> WRITE 'out.jsonl'"
    )
    found = numbers.read("bad.jsonl")
    assert len(found) >= 17
    for row in found:
        n = row["n"]
        assert (row["_file"], row["_row"]) == (f"in-{n // 50 * 50:03d}.jsonl", n % 50 + 1)


LOOKED_AT = """
import zql

def bad(n):
    if n % 7 == 3:
        raise ValueError(n)
    return n

def scalar(n):
    return bad(n) / 2

@zql.udf(batch_size=1000)
def lists(numbers):
    return [bad(n) / 2 for n in numbers]

def record(row):
    return {"n": row["n"], "x": bad(row["n"]) / 2}

def batch(rows):
    return [record(row) for row in rows]

def table(rows: "pa.Table"):
    for n in rows["n"].to_pylist():
        bad(n)
    return rows

def group(key, rows):
    return {"x": sum(bad(row["n"]) for row in rows) / 2}

def early(n):
    if n < 120:
        raise ValueError(n)
    return n
"""
GOOD = [n for n in range(150) if n % 7 != 3]


@pytest.fixture
def looked_at(numbers):
    numbers.functions("import pyarrow as pa\n" + LOOKED_AT, "seen.py")
    return numbers


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ("EXTEND seen.scalar(n) AS x ON ERROR SKIP", len(GOOD)),
        ("EXTEND seen.lists(n) AS x ON ERROR SKIP", len(GOOD)),
        ("EXTEND TRY(seen.scalar(n)) AS x |> WHERE x IS NOT NULL", len(GOOD)),
        ("EXTEND TRY(seen.lists(n)) AS x |> WHERE x IS NOT NULL", len(GOOD)),
        ("MAP seen.record ON ERROR SKIP", len(GOOD)),
        ("MAP BATCHES seen.batch ON ERROR SKIP", len(GOOD)),
        ("MAP BATCHES seen.table ON ERROR SKIP |> SELECT n / 2 AS x", len(GOOD)),
        ("REDUCE seen.group GROUP BY n % 7 AS key ON ERROR SKIP", 6),
    ],
)
def test_a_failure_in_the_first_rows_does_not_hide_the_type(looked_at, steps, rows):
    with looked_at.session(1) as session:
        result = session.query(
            f"IMPORT PYTHON 'seen.py'; FROM 'in-*.jsonl' |> {steps} "
            "|> AGGREGATE count(*) AS rows, sum(x) AS x"
        ).to_dicts()
    assert result == [{"rows": rows, "x": sum(GOOD) / 2}]


def test_a_type_that_no_call_tells_is_not_guessed(looked_at):
    # VARCHAR would let all the numbers go that come later.
    script = "IMPORT PYTHON 'seen.py'; FROM 'in-*.jsonl' |> EXTEND seen.early(n) AS x ON ERROR SKIP"
    with looked_at.session(1) as session:
        with pytest.raises(zql.BindError, match=r"seen\.early fails for all of the first rows"):
            session.query(script).to_dicts()
        few = script.replace("|> EXTEND", "|> LIMIT 99 |> EXTEND")
        assert session.query(few).to_dicts() == []


def test_row_numbers_are_those_of_the_file(numbers):
    with numbers.session(2) as session:
        session.settings = replace(session.settings, split_size=100)
        report = session.run(
            "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' "
            "|> EXTEND udf.dies(n + 4) - 4 AS same, file_row_number AS row |> WHERE same = n "
            "|> SELECT n, row |> WRITE 'out.jsonl'"
        )
    assert report.counters["tasks"] > 6
    assert [(r["n"], r["row"]) for r in numbers.read("out.jsonl")] == [
        (n, n % 50) for n in range(150)
    ]
