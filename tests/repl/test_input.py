"""What is typed: where a text ends, when Enter runs it, what Tab offers."""

import os

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from zql.repl.completion import ShellCompleter
from zql.repl.prompt import is_finished, open_history
from zql.repl.scan import place_at_end
from zql.syntax.parser import is_complete


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("", ""),
        ("FROM t;", ""),
        ("FROM t; -- done", "comment"),
        ("FROM t; -- done\n", ""),
        ("FROM t; /* a ; */", ""),
        ("FROM t /* a ;", "comment"),
        ("FROM 'a;", "string"),
        ("FROM 'a'';", "string"),
        ("FROM 'a''b';", ""),
        (r"SELECT E'a\'b;", "string"),
        (r"SELECT E'a\'b';", ""),
        (r"SELECT name'a\';", ""),
        (r"SELECT 'a\';", ""),
        ('FROM "a;', "name"),
        ("FROM `a;", "name"),
        ("AS $$ def f(): ';", "dollar"),
        ("AS $$ x $$;", ""),
        ("AS $py$ $$ ; $py", "dollar"),
        ("AS $py$ $$ ; $py$ ;", ""),
        ("WHERE a > $limit;", ""),
        ("-- it's", "comment"),
        ('SELECT "it\'s";', ""),
    ],
)
def test_the_place_at_the_end(text, inside):
    assert place_at_end(text).inside == inside


@pytest.mark.parametrize(
    "text",
    ["", "  ", ".help", "\\d", "exit", "Quit", "FROM t;", "FROM t |>;", "nonsense;", "FROM t;\n",
     "FROM t\n", "FROM t\n|> LIMIT 1\n  ", "FROM t |>\n\n", "FROM t; -- why", "|> LIMIT 2;"],
)  # fmt: skip
def test_enter_runs(text):
    assert is_finished(text, is_complete)


@pytest.mark.parametrize(
    "text",
    ["FROM t", "FROM t\n|> LIMIT 1", "FROM t |>\n", "FROM 'a;", "FROM 'a\n\n", "AS $$\n;\n\n",
     "/* a\n;", "FROM t -- what;"],
)  # fmt: skip
def test_enter_goes_on(text):
    assert not is_finished(text, is_complete)


def offers(text, names=("docs", "my table"), words=("SELECT", "SET")):
    completer = ShellCompleter(
        lambda before: words if before.endswith("|> ") else (),
        lambda: names,
        lambda: ("half", "texts.shout", "texts.short"),
        lambda command: {".mode": ["csv", "tsv"], ".read": None}.get(command, ()),
        [".mode", ".maxrows", ".read"],
    )
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    return [text[: len(text) + c.start_position] + c.text for c in found]


def test_words_by_place_and_in_the_case_that_is_typed():
    assert offers("FROM t |> S") == ["FROM t |> SELECT", "FROM t |> SET"]
    assert offers("from t |> s") == ["from t |> select", "from t |> set"]
    assert offers("FROM t S") == []


def test_names_are_quoted_where_they_must_be():
    assert offers("FROM d") == ["FROM docs"]
    assert offers("FROM my") == ['FROM "my table"']


def test_functions_alone_and_behind_their_module():
    assert offers("FROM t |> SELECT ha") == ["FROM t |> SELECT half"]
    assert offers("FROM t |> SELECT te") == ["FROM t |> SELECT texts"]
    assert offers("FROM t |> SELECT texts.sho") == [
        "FROM t |> SELECT texts.shout",
        "FROM t |> SELECT texts.short",
    ]
    assert offers("FROM t |> SELECT docs.sho") == []


def test_dot_commands_and_their_arguments():
    assert offers(".m") == [".mode", ".maxrows"]
    assert offers(".mode c") == [".mode csv"]


def test_files_inside_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("data/sub")
    for name in ("data/a.jsonl", "data/it's.csv", "data/.hidden"):
        (tmp_path / name).touch()
    assert offers("FROM 'da") == ["FROM 'data/"]
    assert offers("FROM 'data/") == [
        "FROM 'data/a.jsonl'",
        "FROM 'data/it''s.csv'",
        "FROM 'data/sub/",
    ]
    assert offers("FROM 'data/.") == ["FROM 'data/.hidden'"]
    assert offers(".read data/a") == [".read data/a.jsonl"]
    assert offers("FROM 'nowhere/x") == []
    assert offers("FROM 'data/a' -- da") == []


def test_history_is_for_its_user_only(tmp_path, monkeypatch):
    monkeypatch.setenv("ZQL_HISTORY", str(tmp_path / "deep" / "history"))
    open_history().append_string("FROM t;")
    path = tmp_path / "deep" / "history"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "FROM t;" in path.read_text()
    monkeypatch.setenv("ZQL_HISTORY", str(tmp_path))
    open_history().append_string("no place, no error")
