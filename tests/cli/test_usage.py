"""Help, version, completion and wrong usage: quick, and with a word on what would be right."""

import subprocess
import sys

import pytest

HEAVY = ("duckdb", "_duckdb", "pyarrow", "numpy", "joblib", "fsspec", "lark", "prompt_toolkit",
         "pygments", "platformdirs", "rich")  # fmt: skip


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (["run", "--help"], {}),
        ([], {"_ZQL_COMPLETE": "bash_complete", "COMP_WORDS": "zql ru", "COMP_CWORD": "1"}),
    ],
)
def test_quick_answers_import_nothing_heavy(args, env, monkeypatch):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code = (
        f"import sys; sys.argv = ['zql', *{args!r}]\n"
        "from zql.cli.main import call\n"
        "try: sys.exit(call())\n"
        "finally: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    ).replace("{HEAVY}", repr(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == "[]\n"
    assert done.stdout
    assert done.returncode == 0


def test_version_and_help(zql):
    assert zql("--version").stdout.startswith("zql 0.")
    text = zql("--help").stdout
    assert [c for c in ("run", "explain", "check", "completion") if f"\n  {c} " not in text] == []


def test_completion_knows_commands_and_options(zql):
    def offered(line):
        words = {"_ZQL_COMPLETE": "bash_complete", "COMP_WORDS": line,
                 "COMP_CWORD": str(len(line.split()) - 1)}  # fmt: skip
        return [entry.split(",")[-1] for entry in zql(env=words).stdout.split()]

    assert offered("zql ru") == ["run", "runs"]
    assert "--format" in offered("zql run --fo")
    assert offered("zql --format ta") == ["table"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_each_shell(zql, shell):
    done = zql("completion", shell)
    assert done.returncode == 0
    assert "_ZQL_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["rum"], 'did you mean "run"?'),
        (["job.zql"], 'did you mean "zql run job.zql"?'),
        (["FROM t |> LIMIT 1"], "a query goes behind -c"),
        (["--fromat", "csv"], "--format"),
        (["-c", "FROM range(1)", "--format", "cvs"], "'csv'"),
        (["run"], "zql run FILE"),
        (["explain"], "zql explain FILE"),
        (["-c", "FROM range(1)", "--csv", "--md"], "exclude each other"),
        (["-c", "FROM range(1)", "--max-rows", "few"], "neither a number"),
        (["-c", "FROM range(1)", "-p", "novalue"], "NAME=VALUE"),
        (["-c", "FROM range(1)", "-o", "out.jsnl"], '".jsonl"'),
        (["-c", "FROM range(1)", "-o", "out"], "no suffix"),
        (["run", "missing.zql"], "No such file"),
        (["run", "job"], "did you mean job.zql?"),
        (["run", "latin1.zql"], "not UTF-8 text: byte 0xe9 on line 2"),
        (["-c", "FROM range(1)", "--params-file", "list.json"], "no JSON object"),
        (["-c", "FROM range(1)", "--params-file", "broken.json"], "params file is a JSON object"),
        (["explain", "-c", "FROM range(1)", "--logical", "--trace"], "one level at a time"),
    ],
)
def test_wrong_usage_exits_2_with_a_hint(zql, tmp_path, args, hint):
    (tmp_path / "job.zql").write_text("FROM range(1);")
    (tmp_path / "latin1.zql").write_bytes(b"-- ok\n-- caf\xe9")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    before = sorted(tmp_path.iterdir())
    done = zql(*args)
    assert done.returncode == 2
    assert hint in done.stderr
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before
