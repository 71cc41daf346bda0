"""Runs from the command line: results, formats, files, summaries, exit codes."""

import gzip
import json
import os
import subprocess
import sys

import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

ROWS = "FROM (VALUES (1, 'a', [1, 2]), (2, NULL, [])) AS t(n, s, l)"

AS_TEXT = {
    "csv": 'n,s,l\n1,a,"[1,2]"\n2,,[]\n',
    "tsv": "n\ts\tl\n1\ta\t[1,2]\n2\t\t[]\n",
    "json": '[\n  {"n":1,"s":"a","l":[1,2]},\n  {"n":2,"s":null,"l":[]}\n]\n',
    "jsonl": '{"n":1,"s":"a","l":[1,2]}\n{"n":2,"s":null,"l":[]}\n',
    "markdown": "| n | s | l |\n|--:|---|---|\n| 1 | a | [1, 2] |\n| 2 |  | [] |\n",
    "table": (
        "┌─────────┬─────────┬───────────┐\n"
        "│    n    │    s    │     l     │\n"
        "│ integer │ varchar │ integer[] │\n"
        "├─────────┼─────────┼───────────┤\n"
        "│       1 │ a       │ [1, 2]    │\n"
        "│       2 │ NULL    │ []        │\n"
        "└─────────┴─────────┴───────────┘\n"
        "  2 rows              3 columns\n"
    ),
}


@pytest.mark.parametrize("format", AS_TEXT)
def test_formats_in_a_pipe(zql, format):
    done = zql("-c", ROWS, "--format", format)
    assert (done.stdout, done.stderr, done.returncode) == (AS_TEXT[format], "", 0)


def test_jsonl_is_what_a_pipe_gets_and_shortcuts_say_otherwise(zql):
    assert zql("-c", ROWS).stdout == AS_TEXT["jsonl"]
    assert zql("--csv", "-c", ROWS).stdout == AS_TEXT["csv"]
    assert zql("-c", ROWS, "--md").stdout == AS_TEXT["markdown"]


def test_binary_formats():
    code = (
        "from pyarrow.ipc import open_stream as o; print(*o(open(0, 'rb')).read_all().to_pylist())"
    )
    command = f'{sys.executable} -m zql -c "{ROWS}" --format arrow | {sys.executable} -c "{code}"'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "{'n': 1, 's': 'a', 'l': [1, 2]} {'n': 2, 's': None, 'l': []}\n"
    two = [sys.executable, "-m", "zql", "-c", ROWS, "-c", ROWS, "--format", "arrow"]
    assert b"one query at a time" in subprocess.run(two, capture_output=True, check=False).stderr


def test_several_results_in_their_order_with_an_empty_line_between(zql, tmp_path):
    (tmp_path / "two.zql").write_text(
        "FROM range(2) |> SELECT 22 AS f |> LIMIT 1; EXPLAIN FROM range(1)"
    )
    done = zql(
        "-c", "FROM range(1) |> SELECT 1 AS a", "-f", "two.zql", "-c", "FROM range(1)", "--csv"
    )
    first, second, plan, last = done.stdout.split("\n\n", 3)
    assert (first, second) == ("a\n1", "f\n22")
    assert "range" in plan
    assert done.stdout.endswith("\n\nrange\n0\n")
    assert last


def test_statements_of_one_session(zql):
    done = zql(
        "-c", "CREATE TEMP VIEW v AS FROM range(3)", "-c", "FROM v |> AGGREGATE count(*) AS n"
    )
    assert done.stdout == '{"n":3}\n'


def test_stdin_is_a_script(zql):
    assert zql(input="FROM range(1);\n").stdout == '{"range":0}\n'
    assert zql("run", "-", "--csv", input="FROM range(1)").stdout == "range\n0\n"
    assert zql("-f", "-", input="FROM range(1)").stdout == '{"range":0}\n'
    assert zql(input="").returncode == 0


def test_options_stand_before_and_behind_the_command(zql, tmp_path):
    (tmp_path / "s.zql").write_text("FROM range(1)")
    assert (
        zql("--csv", "run", "s.zql").stdout == zql("run", "s.zql", "--csv").stdout == "range\n0\n"
    )


def test_parameters_are_typed_by_declare_by_json_or_are_text(zql, tmp_path):
    (tmp_path / "p.zql").write_text(
        "DECLARE d DATE; DECLARE s VARCHAR;"
        "FROM range(1) |> SELECT $d AS d, $s AS s, $n AS n, $t AS t"
    )
    done = zql("run", "p.zql", "-p", "d=2024-02-29", "-p", "s=007", "-p", "n=7", "--param", "t=a=b")
    assert json.loads(done.stdout) == {"d": "2024-02-29", "s": "007", "n": 7, "t": "a=b"}
    (tmp_path / "p.json").write_text('{"d": "2024-02-29", "s": "x", "n": 7.5, "t": null}')
    done = zql("run", "p.zql", "--params-file", "p.json", "-p", "s=y")
    assert json.loads(done.stdout) == {"d": "2024-02-29", "s": "y", "n": 7.5, "t": None}


def test_a_parameter_must_be_used_by_one_of_the_scripts(zql):
    queries = ["-c", "FROM range(1) |> SELECT $a AS a", "-c", "FROM range(1) |> SELECT $b AS b"]
    assert zql(*queries, "-p", "a=1", "-p", "b=2").stdout == '{"a":1}\n\n{"b":2}\n'
    done = zql(*queries, "-p", "a=1", "-p", "b=2", "-p", "aa=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'parameter "aa"' in done.stderr
    assert zql("-c", "FROM range(1)", "-p", "x=1").returncode == 2
    assert zql("-c", "FROM range(1) |> SELECT $x AS x").returncode == 2


@pytest.mark.parametrize(
    "name", ["o.csv", "o.tsv", "o.json", "o.jsonl", "o.ndjson", "o.md", "o.txt"]
)
def test_a_file_has_the_format_of_its_suffix(zql, tmp_path, name):
    done = zql("-c", ROWS, "-o", name)
    form = {"md": "markdown", "ndjson": "jsonl", "txt": "table"}.get(name[2:], name[2:])
    assert done.stdout == ""
    assert (tmp_path / name).read_text() == AS_TEXT[form]
    assert done.stderr.startswith(f"wrote {name}: 2 rows, ")
    assert os.listdir(tmp_path) == [name]


def test_rows_of_show_go_into_a_file_and_warnings_to_stderr(zql, tmp_path):
    zql("-c", "SHOW SETTINGS |> WHERE name = 'retries' |> SELECT name", "-o", "s.csv")
    assert (tmp_path / "s.csv").read_text() == "name\nretries\n"
    body = "FROM t |> EXTEND 1 AS k |> SELECT k AS v"
    done = zql(
        "-c", f"CREATE TEMP TABLE FUNCTION f(t TABLE, k EXPR) AS {body}; FROM f(range(1), 2)"
    )
    assert done.stdout == '{"v":2}\n'
    assert done.stderr.startswith('warning: f: "k" is a parameter and a column made here: ')


def test_binary_and_packed_files(zql, tmp_path):
    rows = [{"n": 1, "s": "a", "l": [1, 2]}, {"n": 2, "s": None, "l": []}]
    zql("-c", ROWS, "-o", "o.parquet")
    assert pq.read_table("o.parquet").to_pylist() == rows
    zql("-c", ROWS, "-o", "o.arrow")
    assert pyarrow.ipc.open_file("o.arrow").read_all().to_pylist() == rows
    zql("-c", ROWS, "-o", "o.csv.gz")
    assert gzip.decompress((tmp_path / "o.csv.gz").read_bytes()).decode() == AS_TEXT["csv"]
    zql("-c", ROWS, "--csv", "-o", "odd.name")
    assert (tmp_path / "odd.name").read_text() == AS_TEXT["csv"]


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.parquet"])
def test_a_file_is_what_write_makes(zql, tmp_path, name):
    zql("-c", ROWS, "-o", f"a-{name}")
    zql("-c", f"{ROWS} |> WRITE 'b-{name}'")
    assert (tmp_path / f"a-{name}").read_bytes() == (tmp_path / f"b-{name}").read_bytes()


@pytest.mark.parametrize("name", ["o.csv", "o.json"])
def test_a_link_stays_a_link(zql, tmp_path, name):
    (tmp_path / name).symlink_to("real")
    zql("-c", "FROM range(1)", "-o", name)
    assert (tmp_path / name).is_symlink()
    assert (tmp_path / "real").read_text()


def test_standard_output_is_a_place_too(zql):
    assert zql("-c", "FROM range(1)", "-o", "-", "--csv").stdout == "range\n0\n"
    command = f'{sys.executable} -m zql -c "FROM range(2)" --csv -o'
    for place in ("/dev/stdout", "/dev/fd/1", ">(cat)"):
        done = subprocess.run(
            ["bash", "-c", f"{command} {place} | cat"], capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == ("range\n0\n1\n", "")


def test_an_empty_result_is_a_file_with_its_columns(zql):
    zql("-c", ROWS + " |> WHERE n > 5", "-o", "o.parquet")
    assert pq.read_schema("o.parquet").names == ["n", "s", "l"]
    assert zql("-c", ROWS + " |> WHERE n > 5", "--json").stdout


@pytest.mark.parametrize(
    "args",
    [["-c", "FROM range(1)", "-c", "FROM range(2)"], ["-c", "DECLARE a BIGINT DEFAULT 1"],
     ["-c", "FROM range(1); FROM nowhere"], ["-c", "FROM range(3) |> SELECT error('no') AS x"]],
)  # fmt: skip
def test_a_file_takes_exactly_one_result_or_stays_as_it_was(zql, tmp_path, args):
    (tmp_path / "o.csv").write_text("before")
    done = zql(*args, "-o", "o.csv")
    assert done.returncode in (1, 2)
    assert (tmp_path / "o.csv").read_text() == "before"
    assert os.listdir(tmp_path) == ["o.csv"]


def test_a_file_in_a_folder_that_is_not_there(zql):
    done = zql("-c", "FROM range(1)", "-o", "no/o.json")
    assert done.returncode == 1
    assert "cannot write no/o.json: No such file or directory" in done.stderr


def test_what_was_written_is_told_on_stderr(zql, tmp_path):
    done = zql("-c", "FROM range(7) |> WRITE 'o.csv'; FROM range(1)", "--csv")
    assert done.stdout == "range\n0\n"
    assert done.stderr.startswith("wrote o.csv: 7 rows, ")
    quiet = zql("-c", "FROM range(7) |> WRITE 'p.csv'", "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert (tmp_path / "p.csv").exists()


def test_the_record_of_a_run(zql):
    done = zql("-c", "FROM range(7) |> WRITE 'o.csv'; FROM range(2) |> WRITE 'p.jsonl'", "--json")
    record = json.loads(done.stdout)
    assert record["ok"] is True
    assert [os.path.basename(o["path"]) for o in record["outputs"]] == ["o.csv", "p.jsonl"]
    assert [o["rows"] for o in record["outputs"]] == [7, 2]
    assert record["counters"]["records_written"] == 9
    assert record["elapsed"] > 0
    assert [s["kind"] for s in record["statements"]] == ["written", "written"]
    assert done.stderr == ""


def test_the_record_holds_rows_and_the_error(zql):
    done = zql("-c", "FROM range(3); FROM nowhere", "--json", "--max-rows", "2")
    record = json.loads(done.stdout)
    assert record["ok"] is False
    assert record["statements"][0]["rows"] == [{"range": 0}, {"range": 1}]
    assert record["statements"][0]["truncated"] is True
    assert record["errors"][0]["message"] in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("name", ["o.json", "o.jsonl"])
def test_a_record_beside_a_file(zql, tmp_path, name):
    done = zql("-c", "FROM range(3)", "-o", name, "--json")
    assert json.loads(done.stdout)["ok"] is True
    assert '{"range":2}' in (tmp_path / name).read_text()


def test_errors_stand_on_stderr_with_a_caret(zql):
    done = zql("-c", "FROM range(3)\n|> WHERE rnage > 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--> <command line>:2:10" in done.stderr
    assert "^^^^^" in done.stderr
    assert 'did you mean "range"?' in done.stderr


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("FROM range(1)", 0),
        ("FROM range(1) |> SELECT error('no') AS x", 1),
        ("FROM 'no.csv'", 1),
        ("FROM range(1) |> SELCT range", 2),
        ("FROM range(1) |> WHERE x > 1", 2),
    ],
)
def test_exit_codes(zql, query, code):
    done = zql("-c", query)
    assert done.returncode == code
    assert (done.stderr == "") == (code == 0)


def test_what_data_says_does_not_reach_a_table_raw(zql):
    query = "FROM range(1) |> SELECT chr(27) || ']52;c;aGk=' || chr(7) AS a, chr(8238) AS b"
    table = zql("-c", query, "--format", "table").stdout
    assert "\\x1b]52;c;aGk=\\x07" in table
    assert "\\u202e" in table
    assert not {"\x1b", "\x07", "\u202e"} & set(table)
    assert json.loads(zql("-c", query).stdout)["a"] == "\x1b]52;c;aGk=\x07"


def test_all_rows_of_a_table_when_asked(zql):
    def numbers(*more):
        lines = zql("-c", "FROM range(100)", "--format", "table", *more).stdout.splitlines()
        return [int(line.strip("│ ")) for line in lines if line.strip("│ ").isdecimal()]

    assert numbers() == [*range(20), *range(80, 100)]
    assert numbers("--max-rows", "3") == [0, 1, 99]
    assert numbers("--max-rows", "all") == list(range(100))


def test_dry_run_writes_nothing(zql, tmp_path):
    done = zql("-c", "FROM range(7) |> WRITE 'o.csv'", "--dry-run")
    assert done.returncode == 0
    assert "o.csv" in done.stdout
    assert os.listdir(tmp_path) == []


def test_explain_at_its_levels(zql, tmp_path):
    (tmp_path / "s.zql").write_text("FROM range(7) |> WHERE range > 2")
    texts = {zql("explain", "s.zql", *more).stdout for more in ([], ["--logical"], ["--trace"])}
    assert len(texts) == 3
    assert all("range" in text for text in texts)
    assert (
        zql("explain", "-c", "FROM range(7) |> WHERE range > 2", "--level", "logical").stdout
        in texts
    )


def test_settings(zql):
    assert zql("-c", "FROM range(1)", "--workers", "1", "--threads", "1", "--memory", "1GB",
               "--temp-dir", "t", "--set", "optimizer=false").returncode == 0  # fmt: skip
    done = zql("-c", "FROM range(1)", "--set", "optimiser=false")
    assert done.returncode == 2
    assert 'did you mean "optimizer"?' in done.stderr
    assert zql("-c", "FROM range(1)", "--memory", "much").returncode == 2


def test_the_columns_of_files(zql, tmp_path):
    (tmp_path / "it's.csv").write_text("id,name\n1,x\n")
    done = zql("schema", "it's.csv")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["id", "BIGINT"],
        ["name", "VARCHAR"],
    ]


def test_explain_in_each_level_and_format(zql, tmp_path):
    (tmp_path / "a.zql").write_text("FROM range(3) |> WHERE range > 1; FROM range(2)")
    assert zql("explain", "a.zql", "--level", "syntax").stdout == (
        "FROM range(3)\n|> WHERE range > 1\n\nFROM range(2)\n"
    )
    assert "2 rows out" in zql("explain", "a.zql", "--analyze").stdout
    first, second = json.loads(zql("explain", "a.zql", "--format", "json").stdout)
    assert first["level"] == second["level"] == "stages"
    charts = zql("explain", "a.zql", "--trace", "--format", "mermaid").stdout
    assert charts.count("flowchart TD") == 2
    both = zql("explain", "a.zql", "--trace", "--analyze")
    assert (both.returncode, both.stdout) == (2, "")
    assert "one level at a time" in both.stderr
