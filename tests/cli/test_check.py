"""`zql check`: all mistakes of all scripts, for people, editors and CI."""

import json

SCRIPT = """FROM range(3) |> WHERE rnage > 1;
FROM range(3) |> SELECT lenght('a') AS n;
"""


def test_a_script_without_mistakes(zql, tmp_path):
    (tmp_path / "good.zql").write_text("FROM range(3) |> WHERE range > 1")
    done = zql("check", "good.zql")
    assert (done.stdout, done.stderr, done.returncode) == ("", "no mistakes in 1 script\n", 0)
    assert zql("check", "good.zql", "-q").stderr == ""
    assert zql("check", "good.zql", "--format", "json").stdout == "[]\n"


def test_mistakes_in_names_are_all_found(zql, tmp_path):
    (tmp_path / "bad.zql").write_text(SCRIPT)
    done = zql("check", "bad.zql")
    assert done.returncode == 1
    assert done.stdout.count("^^^^^") >= 2
    assert "bad.zql:1:24" in done.stdout
    assert "bad.zql:2:25" in done.stdout
    assert done.stderr == "2 mistakes in 1 script\n"


def test_the_first_twenty_mistakes_are_shown_and_all_counted(zql, tmp_path):
    names = ", ".join(f"x{i}" for i in range(25))
    (tmp_path / "bad.zql").write_text(f"FROM range(3) |> SELECT {names}")
    done = zql("check", "bad.zql")
    assert done.stdout.count("ZQL-N201") == 20
    assert done.stdout.endswith("\n\n... and 5 more\n")
    assert done.stderr == "25 mistakes in 1 script\n"
    assert len(json.loads(zql("check", "bad.zql", "--format", "json").stdout)) == 25


def test_mistakes_as_json_and_for_github(zql, tmp_path):
    (tmp_path / "bad.zql").write_text("FROM range(3)\n|> WHERE rnage > 1;")
    (tmp_path / "worse.zql").write_text("FROM range(3) |> SELCT range")
    done = zql("check", "bad.zql", "worse.zql", "--format", "json")
    first, second = json.loads(done.stdout)
    assert (first["file"], first["line"], first["column"], first["end_column"]) == (
        "bad.zql",
        2,
        10,
        15,
    )
    assert first["code"].startswith("ZQL-N")
    assert second["file"] == "worse.zql"
    assert (done.returncode, done.stderr) == (1, "")
    lines = zql("check", "bad.zql", "worse.zql", "--format", "github").stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "::error file=bad.zql",
        "::error file=worse.zql",
    ]


def test_nothing_runs(zql, tmp_path):
    (tmp_path / "w.zql").write_text(
        "FROM range(3) |> WRITE 'o.csv'; FROM 'o.csv' |> WHERE range > 1;"
    )
    assert zql("check", "w.zql").returncode == 0
    assert not (tmp_path / "o.csv").exists()


def test_a_script_that_cannot_be_read(zql):
    assert zql("check", "missing.zql").returncode == 2
