"""ON ERROR of FROM: lines that cannot be read are passed over, counted, limited and kept."""

import gzip
import json
from dataclasses import replace

import pytest
import zql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUNCTIONS = """
def half(n: int) -> int:
    if n % 7 == 0:
        raise ValueError(f"{n} is a multiple of 7")
    return n // 2
"""
ROWS = 120
BAD = {4: "{bad", 5: "[1, 2]", 50: '{"n": 50} {"n": 51}', 51: "", 119: '{"n": 1, "n": 2}'}


def line(n: int) -> str:
    return BAD.get(n, json.dumps({"n": n, "text": "x" * (n % 20)}))


@pytest.fixture
def lines(place):
    place.functions(FUNCTIONS)
    for start in range(0, ROWS, 40):
        text = "".join(line(n) + "\n" for n in range(start, start + 40))
        (place.folder / f"in-{start:03d}.jsonl").write_text(text)
    return place


SCRIPT = (
    "FROM 'in-*.jsonl' ON ERROR SKIP INTO 'rejects/' "
    "|> WRITE 'out/' OPTIONS (format = 'jsonl', mode = 'overwrite')"
)
CALLING = "IMPORT PYTHON 'udf.py'; " + SCRIPT.replace(
    "|> WRITE", "|> EXTEND udf.half(n) AS h ON ERROR SKIP INTO 'failed/' |> WRITE"
)
GOOD = [n for n in range(ROWS) if n not in BAD]
REJECTED = [n for n in BAD if n != 51]  # a blank line is none at all


def places(numbers):
    return [(f"in-{n // 40 * 40:03d}.jsonl", n % 40 + 1) for n in numbers]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("split_size", [64 << 20, 300])
def test_lines_are_rejected_once_wherever_files_are_cut(lines, workers, split_size):
    with lines.session(workers) as session:
        session.settings = replace(session.settings, split_size=split_size)
        report = session.run(CALLING)
    found = lines.read("rejects/*.jsonl")
    assert [row["_line"] for row in found] == [BAD[n] for n in REJECTED]
    assert [(row["_file"], row["_row"]) for row in found] == places(REJECTED)
    assert {row["_operator"] for row in found} == {"FROM"}
    assert [row["_error"].split(":")[0] for row in found] == [
        "no JSON, column 2",
        "no JSON object but a list",
        "no JSON, column 11",
        'the key "n" twice in one object',
    ]
    failed = lines.read("failed/*.jsonl")
    assert [row["n"] for row in failed] == [n for n in GOOD if n % 7 == 0]
    # Rows count without blank lines, and with those that are passed over.
    assert [row["_row"] for row in failed] == [
        n % 40 + 1 - (51 < n < 80) for n in GOOD if n % 7 == 0
    ]
    out = lines.read("out/*.jsonl")
    assert [row["n"] for row in out] == [n for n in GOOD if n % 7]
    assert len(out) + len(failed) + len(found) == ROWS - 1
    assert report.counters["rows_rejected"] == len(found) + len(failed)


def test_without_python(lines):
    report = lines.run(SCRIPT)
    assert [row["n"] for row in lines.read("out/*.jsonl")] == GOOD
    assert len(lines.read("rejects/*.jsonl")) == report.counters["rows_rejected"] == 4
    # The mode is that of the main output.
    lines.run(SCRIPT)
    assert len(lines.read("rejects/*.jsonl")) == 4


def test_rejects_are_read_again(lines):
    with lines.session() as session:
        session.run(SCRIPT)
        query = session.query("FROM 'rejects/*.jsonl' |> AGGREGATE count(*) AS n GROUP BY _file")
        assert {tuple(row.values()) for row in query.to_dicts()} == {
            ("in-000.jsonl", 2),
            ("in-040.jsonl", 1),
            ("in-080.jsonl", 1),
        }


@pytest.mark.parametrize(
    "reader",
    [
        "read_json('in-*.jsonl', on_error => 'skip', rejects => 'rejects/')",
        "read_json('in-*.jsonl', ON_ERROR => 'SKIP', rejects => 'rejects/', error_limit => 4)",
        "read_json('in-*.jsonl', on_error => 'skip', rejects => 'rejects/', error_limit => '4 %')",
        "read_json('in-*.jsonl') AS d ON ERROR SKIP INTO 'rejects/' LIMIT 4",
        "['in-000.jsonl', 'in-040.jsonl', 'in-080.jsonl'] ON ERROR SKIP INTO 'rejects/'",
    ],
)
def test_options_and_the_clause_are_the_same(lines, reader):
    lines.run(f"FROM {reader} |> WRITE 'out/' OPTIONS (format = 'jsonl')")
    assert [row["n"] for row in lines.read("out/*.jsonl")] == GOOD
    assert len(lines.read("rejects/*.jsonl")) == 4


def test_the_limit_ends_the_run(lines):
    before = lines.names()
    for limit, told in (
        ("3", "more than 3 rows failed in FROM, and its ON ERROR allows 3"),
        ("3 PERCENT", r"4 of 119 rows \(3.36 %\) failed in FROM, and its ON ERROR allows 3 PERC"),
    ):
        with pytest.raises(zql.UdfError, match=told) as info:
            lines.run(SCRIPT.replace("INTO 'rejects/'", f"INTO 'rejects/' LIMIT {limit}"))
        assert info.value.code == "R719"
        assert info.value.notes[0].startswith(
            "one of them: in-000.jsonl, line 5: no JSON, column 2"
        )
    assert lines.names() == before
    lines.run(SCRIPT.replace("INTO 'rejects/'", "INTO 'rejects/' LIMIT 4"))


def test_a_query_counts_too(lines):
    with lines.session() as session:
        query = session.query("FROM 'in-*.jsonl' ON ERROR SKIP |> AGGREGATE count(*) AS n")
        assert query.to_dicts() == [{"n": len(GOOD)}]
        report = session.run("FROM 'in-*.jsonl' ON ERROR SKIP |> LIMIT 1 |> WRITE 'one.jsonl'")
        assert report.counters["rows_rejected"] == 4
        with pytest.raises(zql.UdfError, match="more than 2 rows"):
            session.query("FROM 'in-*.jsonl' ON ERROR SKIP LIMIT 2 |> LIMIT 1").to_dicts()


def test_in_views_and_subqueries(lines):
    report = lines.run(
        "CREATE TEMP VIEW good AS FROM 'in-*.jsonl' ON ERROR SKIP INTO 'rejects/';"
        "FROM range(200) AS r(n) |> WHERE n IN (FROM good |> SELECT n) "
        "|> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"
    )
    assert [row["n"] for row in lines.read("out.jsonl")] == GOOD
    assert len(lines.read("rejects/*.jsonl")) == report.counters["rows_rejected"] == 4


def test_declared_types(place):
    rows = ['{"a": 1, "b": "x"}', '{"a": 1.5, "b": "y"}', '{"a": "2", "b": 3}', '{"a": true}']
    (place.folder / "in.jsonl").write_text("\n".join([*rows, '{"b": "z"}', '{"a": [1]}']) + "\n")
    reader = "read_json('in.jsonl', columns => {a: 'int', b: 'varchar'})"
    place.run(f"FROM {reader} ON ERROR SKIP INTO 'bad.jsonl' |> SELECT b |> WRITE 'out.jsonl'")
    # Also when the column that does not fit is not asked for.
    assert [row["b"] for row in place.read("out.jsonl")] == ["x", "3", "z"]
    assert [(row["_row"], row["_error"]) for row in place.read("bad.jsonl")] == [
        (2, 'column "a" holds 1.5, which is no INTEGER'),
        (4, 'column "a" holds true, which is no INTEGER'),
        (6, 'column "a" holds [1], which is no INTEGER'),
    ]


def test_the_schema_is_that_of_the_lines_that_are_read(place):
    (place.folder / "in.jsonl").write_text('{"a": 1}\n{"a": "x", "b": 2\n["c"]\n{"a": 2}\n')
    with place.session() as session:
        query = session.query("FROM 'in.jsonl' ON ERROR SKIP")
        assert [(f.name, str(f.type)) for f in query.schema] == [("a", "int64")]
        assert query.to_dicts() == [{"a": 1}, {"a": 2}]


def test_packed_files(place):
    text = '{"a": 1}\n{bad\n{"a": 2}\n'
    (place.folder / "in.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    place.run("FROM 'in.jsonl.gz' ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'out.jsonl'")
    assert place.read("out.jsonl") == [{"a": 1}, {"a": 2}]
    assert [row["_line"] for row in place.read("bad.jsonl")] == ["{bad"]


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.csv.gz"])
def test_a_damaged_file_is_no_row(place, name):
    text = "".join(f'{{"a": {n}}}\n' for n in range(20_000))
    (place.folder / name).write_bytes(gzip.compress(text.encode())[:-2000])
    before = place.names()
    with pytest.raises(zql.ZqlError, match="cannot be unpacked as gzip"):
        place.run(f"FROM '{name}' ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'out.jsonl'")
    assert place.names() == before


def test_a_line_that_is_too_long_is_no_bad_one(place):
    (place.folder / "in.jsonl").write_text('{"a": "' + "x" * (40 << 20) + '"}\n{"a": "y"}\n{bad\n')
    place.run("FROM 'in.jsonl' ON ERROR SKIP |> SELECT length(a) AS n |> WRITE 'out.jsonl'")
    assert place.read("out.jsonl") == [{"n": 40 << 20}, {"n": 1}]


# ---- delimited text ------------------------------------------------------------------------------

CSV = 'a,b\n1,x\n2\n3,"two\nlines"\n\n4,y,z\n5,"not closed\n6,"a ""quoted"" b"\n"7"x,y\n8,z\n'


def rejected(place, name="bad.jsonl"):
    return [(r["_line"], r["_row"], r["_error"].split(" (")[0]) for r in place.read(name)]


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_of_csv(place, workers):
    (place.folder / "in.csv").write_text(CSV)
    place.functions(FUNCTIONS)
    report = place.run(
        "IMPORT PYTHON 'udf.py'; FROM 'in.csv' ON ERROR SKIP INTO 'bad.jsonl' "
        "|> EXTEND udf.half(a) AS h, file_row_number AS row |> WRITE 'out.jsonl'",
        workers,
    )
    assert [(r["a"], r["b"], r["row"]) for r in place.read("out.jsonl")] == [
        (1, "x", 0),
        (3, "two\nlines", 2),
        (6, 'a "quoted" b', 5),
        (8, "z", 7),
    ]
    quoted = "a quote that is not closed or not doubled"
    assert rejected(place) == [
        ("2", 3, "1 value, but the first line has 2"),
        ("4,y,z", 7, "3 values, but the first line has 2"),
        ('5,"not closed', 8, quoted),
        ('"7"x,y', 10, quoted),
    ]
    assert report.counters["rows_rejected"] == 4


def test_a_quote_without_an_end_does_not_take_the_file(place):
    rows = "".join(f"{n},x\n" for n in range(5000))
    (place.folder / "in.csv").write_text('a,b\n0,"open\n' + rows)
    place.run("FROM 'in.csv' ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'out.jsonl'")
    assert len(place.read("out.jsonl")) == 5000
    assert [row[:2] for row in rejected(place)] == [('0,"open', 2)]


def test_declared_types_of_csv(place):
    (place.folder / "in.csv").write_text("a,b,c\n1,x,1\n1.5,y,no\n,z,3\nx\n2,w,4\n")
    place.run(
        "FROM read_csv('in.csv', types => {a: 'INTEGER'}) ON ERROR SKIP INTO 'bad.jsonl' "
        "|> SELECT b, c |> WRITE 'out.jsonl'"
    )
    # The types of other columns are those of the rows that are read.
    assert place.read("out.jsonl") == [
        {"b": "x", "c": 1},
        {"b": "z", "c": 3},
        {"b": "w", "c": 4},
    ]
    assert rejected(place) == [
        ("1.5,y,no", 3, "column \"a\" holds '1.5', which is no INTEGER"),
        ("x", 5, "1 value, but the first line has 3"),
    ]


LATIN = "read_csv('in.csv', encoding => 'latin-1')"
PADDED = "read_csv('in.csv', null_padding => true)"


@pytest.mark.parametrize(
    ("name", "data", "reader", "good", "bad"),
    [
        ("utf8", b"a,b\n1,\xff\n2,y\n", "'in.csv'", [("y",)], [("1,\\xff", 2)]),
        ("latin", b"a,b\n1,\xe9\n2\n", LATIN, [("é",)], [("2", 3)]),
        ("crlf", b"a,b\r\n1,x\r\n2\r\n", "'in.csv'", [("x",)], [("2", 3)]),
        ("mixed", b"a,b\r1,x\r\n2\n3,z\n", "'in.csv'", [("x",), ("z",)], [("2", 3)]),
        ("mark", b"\xef\xbb\xbfa,b\n1,x\n2\n", "'in.csv'", [("x",)], [("2", 3)]),
        ("padded", b"a,b\n1\n2,x,y\n", PADDED, [(None,)], [("2,x,y", 3)]),
        ("headless", b"1,x\n2\n", "read_csv('in.csv', header => false)", [("x",)], [("2", 2)]),
        ("none", b"a,b\n1,x", "'in.csv'", [("x",)], []),
        ("empty", b"a,b\n", "'in.csv'", [], []),
    ],
)  # fmt: skip
def test_kinds_of_csv(place, name, data, reader, good, bad):
    (place.folder / "in.csv").write_bytes(data)
    second = "column1" if name == "headless" else "b"
    place.run(
        f"FROM {reader} ON ERROR SKIP INTO 'bad.jsonl' |> SELECT {second} AS b |> WRITE 'out.jsonl'"
    )
    assert [(row["b"],) for row in place.read("out.jsonl")] == good
    assert [row[:2] for row in rejected(place)] == bad


def test_one_column(place):
    (place.folder / "in.csv").write_text("a\n1\n\n2,3\n")
    place.run("FROM 'in.csv' ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'out.jsonl'")
    assert place.read("out.jsonl") == [{"a": 1}, {"a": None}]
    assert [row[:2] for row in rejected(place)] == [("2,3", 4)]


# ---- what always holds ---------------------------------------------------------------------------

_LINES = st.lists(
    st.sampled_from(
        ['{"n": 1}', '{"n": "x"}', "{", "", "  ", "[]", "null", '{"n": 1}x', '{"m": {"k": 1}}']
    ),
    max_size=30,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=_LINES, ends=st.booleans(), limit=st.integers(0, 5))
def test_each_line_is_read_or_rejected(place, lines, ends, limit):
    (place.folder / "in.jsonl").write_text("\n".join(lines) + ("\n" if ends else ""))
    full = [(n, text) for n, text in enumerate(lines, 1) if text.strip()]
    good = [text for _, text in full if text.startswith("{") and text.endswith("}")]
    bad = [(n, text) for n, text in full if text not in good]
    script = (
        f"FROM 'in.jsonl' ON ERROR SKIP INTO 'bad.jsonl' LIMIT {limit} "
        "|> AGGREGATE count(*) AS n |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"
    )
    if not good:
        return  # a table without columns
    if len(bad) > limit:
        with pytest.raises(zql.UdfError, match=r"failed in FROM"):
            place.run(script)
        return
    report = place.run(script)
    assert place.read("out.jsonl") == [{"n": len(good)}]
    assert [(row["_row"], row["_line"]) for row in place.read("bad.jsonl")] == bad
    assert report.counters["rows_rejected"] == len(bad)
