"""The grammar: its conflicts are known, its words are the dictionary's, its tables are safe."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lark
import pytest
from zql import user_cache
from zql.syntax import tables
from zql.syntax.keywords import KEYWORDS, NON_RESERVED, OPERATORS, RESERVED, UNITS

CONFLICTS = {
    # `FROM VALUES (1), (2)`: a comma goes on with the rows, not with the next FROM item.
    ("COMMA", "values"): 2,
    # `VALUES (` begins rows; a function of that name is called in quotes.
    ("LPAR", "common_keyword"): 1,
    # `((query))` is a query in parentheses twice, not a scalar one in parentheses: the same rows.
    ("RPAR", "complex"): 1,
    # `x::INTEGER[3]` is an array type, as in DuckDB; an index needs parentheses.
    ("LSQB", "complex"): 2,
    # `SET a = 1, on = 2`: a comma goes on with the list, so none stands before ON ERROR.
    ("ON", "assignments"): 2,
}
"""Shift/reduce conflicts, all resolved as shift: (terminal, rule not reduced) and how many."""


@pytest.fixture(scope="module")
def grammar():
    return tables.grammar_path().read_text()


def test_conflicts_are_the_known_ones(grammar, caplog):
    level = lark.logger.level
    lark.logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG, logger="lark"):
            lark.logger.addHandler(caplog.handler)
            lark.Lark(
                grammar, parser="lalr", lexer="basic", start=list(tables.STARTS), debug=True,
                maybe_placeholders=False,
            )  # fmt: skip
    finally:
        lark.logger.removeHandler(caplog.handler)
        lark.logger.setLevel(level)
    text = "\n".join(record.getMessage() for record in caplog.records)
    found = re.findall(r"Shift/Reduce conflict for terminal (\w+): .*?\n \* <(\w+) :", text)
    assert Counter(found) == CONFLICTS


def test_the_grammar_declares_the_words_of_the_dictionary(grammar):
    declared = {
        word
        for line in re.findall(r"^%declare (.*)$", grammar, re.MULTILINE)
        for word in line.split()
    }
    assert declared == KEYWORDS | {"WITH_TIME"}


def alternatives(grammar, rule):
    body = re.search(rf"^!{rule}: ((?:.|\n +\|)*)", grammar, re.MULTILINE).group(1)
    return set(body.replace("|", " ").split())


def test_words_are_names_as_the_dictionary_says(grammar):
    assert alternatives(grammar, "reserved") == RESERVED
    names = alternatives(grammar, "common_keyword") | alternatives(grammar, "map_keyword")
    assert names == NON_RESERVED
    assert alternatives(grammar, "interval_unit") == set(UNITS)


def test_every_operator_word_begins_an_operator():
    found = tables.load()
    first = {found.terminals[t] for t in found.first["operator"]}
    assert first == set(OPERATORS)


# ---- the tables on disk ------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "_read_shipped", lambda key: None)
    return tmp_path / "cache" / "zql"


def built(monkeypatch):
    """Count the builds, and make them cheap."""
    data = {**json.loads(json.dumps(BUILT[0]))}
    calls = []

    def build(grammar):
        calls.append(grammar)
        return data

    monkeypatch.setattr(tables, "build", build)
    return calls


BUILT = []


@pytest.fixture(autouse=True, scope="module")
def _one_build(grammar):
    BUILT.append(tables.build(grammar))
    yield
    BUILT.clear()


def load():
    return tables.load.__wrapped__()


def test_tables_are_kept_privately(home, monkeypatch):
    calls = built(monkeypatch)
    first = load()
    (stored,) = home.glob("*")
    assert stored.stat().st_mode & 0o077 == 0
    assert home.stat().st_mode & 0o077 == 0
    second = load()
    assert len(calls) == 1
    assert first.terminals == second.terminals
    assert all(first.row(s) == second.row(s) for s in (0, 1, 50))


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize("who", ["file", "folder", "link"])
def test_what_others_can_write_is_not_read(home, monkeypatch, who, tmp_path):
    calls = built(monkeypatch)
    load()
    (stored,) = home.glob("*")
    if who == "file":
        stored.chmod(0o666)
    elif who == "folder":
        home.chmod(0o777)
    else:
        real = tmp_path / "planted.json"
        stored.rename(real)
        real.chmod(0o666)
        stored.symlink_to(real)
    load()
    assert len(calls) == 2


def test_damaged_or_foreign_tables_are_built_again(home, monkeypatch):
    calls = built(monkeypatch)
    load()
    (stored,) = home.glob("*")
    for text in ("", "{}", "[1]", '{"key": "another"}', stored.read_text()[:1000], "\x00"):
        stored.write_text(text)
        load()
    assert len(calls) == 7


def test_old_tables_are_removed(home, monkeypatch):
    built(monkeypatch)
    home.mkdir(parents=True, mode=0o700)
    old = home / "grammar-0123456789abcdef.json"
    old.write_text("{}")
    other = home / "schemas.json"
    other.write_text("{}")
    load()
    assert not old.exists()
    assert other.exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(tables, "_read_shipped", lambda key: None)
    calls = built(monkeypatch)
    load()
    load()
    assert len(calls) == 2


def test_without_a_home_there_is_no_folder(monkeypatch):
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    assert user_cache.cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/path")
    assert user_cache.cache_folder() is None


def test_parsing_with_kept_tables_imports_no_lark(tmp_path):
    code = (
        "import sys; from zql.source import Source; from zql.syntax.parser import parse_script;"
        "parse_script(Source('x', 'FROM t |> WHERE a > 1')); print('lark' in sys.modules)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    outputs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[1] == "False\n"


def test_building_needs_nothing_of_the_package():
    """The wheel's build hook loads the module by its path, where the package is not installed:
    only `load` may import of it."""
    text = Path(tables.__file__).read_text()
    assert not re.findall(r"^(?:from|import) zql", text, re.MULTILINE)


def test_stored_tables_are_what_lark_built():
    data = json.loads(json.dumps(BUILT[0]))
    again = tables.Tables(data)
    assert again.patterns == tables.Tables(BUILT[0]).patterns
    assert again.rules == tables.Tables(BUILT[0]).rules
