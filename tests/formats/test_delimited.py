"""Types and values of CSV and TSV."""

from __future__ import annotations

import csv

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.errors import StorageError, UsageError
from zql.storage import schema_cache

from conftest import opened, read, table, types, write


def put(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


COLUMNS = {
    "BIGINT": ["1", "-5", "0", "9223372036854775807", ""],
    "UBIGINT": ["18446744073709551615", "1"],
    "HUGEINT": ["18446744073709551616", "-1"],
    "DOUBLE": ["1.5", "0.25", "3", "-0.5", "19.90", ""],
    "BOOLEAN": ["true", "false", ""],
}
TEXTS = [
    ["00123", "1"], ["1e5", "2"], ["12E3"], ["3,14"], ["+1"], ["-0"], ["1."], [".5"], ["0x1F"],
    ["1_000"], ["NaN"], ["inf"], ["True"], ["TRUE", "false"], ["yes"], ["2024-01-01"], ["1 "],
    [" 1"], ["1", "x"], ["true", "1"], ["9007199254740993", "0.5"], ["0.1234567890123456789"],
    ["123456789012345678901234567890123456789012"], ["", ""], ["NULL"], ["12345678901234567.5"],
]  # fmt: skip


@pytest.mark.parametrize("type_", COLUMNS)
def test_numbers_that_lose_nothing(engine, tmp_path, type_):
    for values in (COLUMNS[type_], COLUMNS[type_][::-1]):
        path = put(tmp_path / "a.csv", "k,v\n" + "".join(f"x,{v}\n" for v in values))
        schema_cache.forget()
        dataset = opened(engine, path)
        assert types(dataset)["v"] == type_
        for (got,), want in zip(read(engine, dataset, ("v",)), values, strict=True):
            assert got == ({"true": True, "false": False}.get(want) if type_ == "BOOLEAN" else
                           float(want) if want and type_ == "DOUBLE" else
                           int(want) if want else None)  # fmt: skip


@pytest.mark.parametrize("values", TEXTS, ids=str)
def test_all_else_is_text(engine, tmp_path, values):
    path = put(tmp_path / "a.csv", "k,v\n" + "".join(f'x,"{v}"\n' for v in values))
    dataset = opened(engine, path)
    assert types(dataset)["v"] == "VARCHAR"
    assert [v for (v,) in read(engine, dataset, ("v",))] == values


def test_late_text_keeps_every_row(engine, tmp_path):
    path = put(tmp_path / "a.csv", "v\n" + "1\n" * 30_000 + "x\n" + "2\n" * 100)
    dataset = opened(engine, path)
    assert types(dataset) == {"v": "VARCHAR"}
    assert len(read(engine, dataset)) == 30_101


def test_null_and_empty(engine, tmp_path):
    path = put(tmp_path / "a.csv", 'a,b\n"",\n,"NA"\nNA," "\n')
    assert table(engine, path) == [("", None), (None, "NA"), ("NA", " ")]
    kept = table(engine, path, reader="read_csv", nullstr="NA")
    assert kept == [("", ""), ("", "NA"), (None, " ")]


ENDS = {
    "lf": "a,b\n1,x\n2,y\n",
    "crlf": "a,b\r\n1,x\r\n2,y\r\n",
    "cr": "a,b\r1,x\r2,y\r",
    "mixed": "a,b\r\n1,x\n2,y\r\n",
    "mixed, LF first": "a,b\n1,x\r\n2,y\r",
    "no end": "a,b\r\n1,x\r\n2,y",
}


@pytest.mark.parametrize("ends", ENDS)
def test_line_ends(engine, tmp_path, ends):
    assert table(engine, put(tmp_path / "a.csv", ENDS[ends])) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("outside", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", ["\n", "\r\n", "\r", '""\r\n""', "x,\r\n,"])
def test_line_ends_inside_of_quotes_are_data(engine, tmp_path, outside, inside):
    rows = ["a,b", f'1,"{inside}"', '2,"z"', f'3,"p{inside}q"']
    path = put(tmp_path / "a.csv", outside.join([*rows, ""]))
    text = inside.replace('""', '"')
    assert table(engine, path) == [(1, text), (2, "z"), (3, f"p{text}q")]
    path = put(tmp_path / "b.csv", outside.join([f'"{inside}",b', "1,2", "3,4", ""]))
    dataset = opened(engine, path)
    assert dataset.schema.names == (text, "b")
    assert read(engine, dataset) == [(1, 2), (3, 4)]


def test_dialects(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a;b\n1;'x;y'\n2;'it''s'\n")
    assert table(engine, path, delim=";", quote="'") == [(1, "x;y"), (2, "it's")]
    path = put(tmp_path / "b.csv", 'a,b\n1,"x\\"y"\n')
    assert table(engine, path, escape="\\") == [(1, 'x"y')]
    path = put(tmp_path / "c.csv", 'a,b\n1,"x\n')
    assert table(engine, path, quote="") == [(1, '"x')]
    path = put(tmp_path / "d.csv", "1,x\n2,y\n")
    dataset = opened(engine, path, header=False)
    assert dataset.schema.names == ("column0", "column1")
    assert read(engine, dataset) == [(1, "x"), (2, "y")]
    assert table(engine, put(tmp_path / "e.tsv", "a\tb\n1\t2,3\n")) == [(1, "2,3")]
    assert table(engine, tmp_path / "e.tsv", reader="read_csv") == [(1, "2,3")]
    assert table(engine, put(tmp_path / "f.txt", "a,b\n1,2\n"), reader="read_csv") == [(1, 2)]


def test_encodings(engine, tmp_path):
    path = put(tmp_path / "a.csv", "stadt\nKöln\nOrléans\n", "latin-1")
    with pytest.raises(StorageError, match=r"a\.csv, line 2: no UTF-8 at byte 2.*\n.*latin-1"):
        table(engine, path)
    assert table(engine, path, encoding="latin-1") == [("Köln",), ("Orléans",)]
    assert table(engine, path, encoding="ISO-8859-1") == [("Köln",), ("Orléans",)]
    path = put(tmp_path / "b.csv", "größe\n1\n", "latin-1")
    with pytest.raises(StorageError, match="line 1 is no UTF-8"):
        table(engine, path)
    assert types(opened(engine, path, encoding="latin1")) == {"größe": "BIGINT"}
    assert table(engine, put(tmp_path / "c.csv", "\ufeffa,b\n1,é\n")) == [(1, "é")]
    path = put(tmp_path / "d.csv", "a,b\r\n1,é\r\n", "utf-16")
    assert table(engine, path, encoding="utf-16") == [(1, "é")]
    path = put(tmp_path / "e.csv", "a,b\n1,€\r\n2,“x”\n", "cp1252")
    assert table(engine, path, encoding="cp1252") == [(1, "€"), (2, "“x”")]
    with pytest.raises(UsageError, match='unknown encoding "klingon"'):
        table(engine, path, encoding="klingon")


BAD = {
    "short": ("a,b,c\n1,2,3\nd\n", 3, "1 value, but the first line has 3"),
    "long": ("a,b\n1,2\n3,4,5\n", 3, "3 values, but the first line has 2"),
    "short after a quoted line end": ('a,b\n1,"x\ny"\n3\n', 4, "1 value"),
    "open quote": ('a,b\n1,2\n3,"4\n', 3, "quote"),
    "text behind a quote": ('a,b\n1,2\n3,"4"y\n', 3, "quote"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_file_and_line(engine, tmp_path, case):
    text, line, words = BAD[case]
    put(tmp_path / "good.csv", text.split("\n")[0] + "\n")
    put(tmp_path / "bad.csv", text)
    with pytest.raises(StorageError, match=rf"bad\.csv, line {line}: .*{words}"):
        table(engine, tmp_path / "*.csv")


def test_short_rows_may_be_padded(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a,b,c\n1,2,3\nd\n")
    kept = table(engine, path, reader="read_csv", null_padding=True)
    assert kept == [("1", 2, 3), ("d", None, None)]
    with pytest.raises(StorageError, match="4 values"):
        table(engine, put(tmp_path / "b.csv", "a,b,c\n1,2,3,4\n"), null_padding=True)


def test_a_column_twice_is_an_error(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a,b,a\n1,2,3\n")
    with pytest.raises(StorageError, match=r'header of .*a\.csv has the column "a" twice'):
        table(engine, path)
    kept = table(engine, path, reader="read_csv", header=False)
    assert kept == [("a", "b", "a"), ("1", "2", "3")]


def test_long_rows(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a,b\n" + f'"{"x" * 5_000_000}",2\n')
    assert [(len(a), b) for a, b in table(engine, path)] == [(5_000_000, 2)]
    schema_cache.forget()
    with pytest.raises(StorageError, match=r"line 2: a row of .* bytes.*\n.*max_line_bytes"):
        table(engine, path, max_line_size=100_000)


def test_types_and_columns_are_contracts(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a,b,c\n001,2024-01-02,1\n002,x,2\n")
    dataset = opened(engine, path, types={"a": "INTEGER"})
    assert types(dataset) == {"a": "INTEGER", "b": "VARCHAR", "c": "BIGINT"}
    assert read(engine, dataset, ("a",)) == [(1,), (2,)]
    dataset = opened(engine, path, columns={"c": "TINYINT", "a": "VARCHAR"}, on_new_column="ignore")
    assert read(engine, dataset) == [(1, "001"), (2, "002")]
    dataset = opened(engine, path, types={"b": "DATE"})
    with pytest.raises(Exception, match="x") as caught:
        read(engine, dataset)
    explained = dataset.format.explain_failure(dataset.files, dataset.options, str(caught.value))
    assert "a.csv, line 3: column \"b\" holds 'x'" in str(explained)
    with pytest.raises(UsageError, match=r'no file has the column "A".*\n.*did you mean "a"'):
        opened(engine, path, types={"A": "INTEGER"})
    with pytest.raises(StorageError, match='has the column "b", which is no declared'):
        opened(engine, path, columns={"c": "TINYINT", "a": "VARCHAR"})
    assert types(opened(engine, path, all_varchar=True)) == dict.fromkeys("abc", "VARCHAR")


def test_declared_numbers_do_not_round(engine, tmp_path):
    path = put(tmp_path / "a.csv", "a,b\n1.5,0.126\n")
    for declared in ({"a": "BIGINT"}, {"b": "DECIMAL(5,2)"}):
        dataset = opened(engine, path, types=declared)
        with pytest.raises(Exception, match="ZQL-CONTRACT") as caught:
            read(engine, dataset)
        explained = dataset.format.explain_failure(
            dataset.files, dataset.options, str(caught.value)
        )
        assert "a.csv, line 2: column" in str(explained)


def test_files_without_rows_or_without_anything(engine, tmp_path):
    put(tmp_path / "0.csv", "id,v\n")
    put(tmp_path / "1.csv", "v,id\n10,1\n")
    put(tmp_path / "2.csv", "")
    dataset = opened(engine, tmp_path / "*.csv")
    assert types(dataset) == {"id": "BIGINT", "v": "BIGINT"}
    assert read(engine, dataset) == [(1, 10)]


FIELDS = st.text(st.sampled_from("ab1 ,;\"\n\r\\\t'é\0"), max_size=6) | st.none()


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    null=st.sampled_from(["", "NULL", "a"]),
)
def test_python_reads_what_is_written(engine, tmp_path, rows, delimiter, null):
    schema_cache.forget()
    path = tmp_path / "a.csv"
    engine.connection.execute("CREATE OR REPLACE TABLE given (x VARCHAR, y VARCHAR)")
    engine.connection.executemany("INSERT INTO given VALUES (?, ?)", rows)
    options = {"delimiter": delimiter, "null_str": null}
    write(engine, "csv", path, "SELECT * FROM given", options=options)
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file, delimiter=delimiter))
    assert found == [["x", "y"], *[[null if v is None else v for v in row] for row in rows]]
    assert table(engine, path, all_varchar=True, **options) == rows


def test_what_is_not_scalar_is_written_as_json(engine, tmp_path):
    write(engine, "csv", tmp_path / "a.csv", "SELECT [1, NULL] AS a, {'k': 'x'} AS b, 1.50 AS c")
    assert (tmp_path / "a.csv").read_text() == 'a,b,c\n"[1,null]","{""k"":""x""}",1.50\n'


def test_types_are_looked_up_once_per_version(engine, tmp_path):
    import os

    path = put(tmp_path / "a.csv", "a,b\n1,x\n")
    os.utime(path, ns=(10**18, 10**18))
    first = types(opened(engine, path))
    schema_cache.forget()
    asked = len(engine.statements)
    assert types(opened(engine, path)) == first
    assert len(engine.statements) == asked
