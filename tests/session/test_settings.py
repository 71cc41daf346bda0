"""SET and the settings of a session."""

from __future__ import annotations

import pytest
from zql.errors import UsageError
from zql.settings_text import parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5 kB", 1500),
        ("7", 7),
        (9, 9),
        ("2tib", 2 * 2**40),
    ],
)
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1MB", "0", "1XB", "4GB extra", True])
def test_what_is_no_size(text):
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_a_setting_is_changed_by_a_script(check, session):
    assert check("SET workers = 3; SET memory = '1GB';") == []
    assert session.settings.workers == 3
    assert session.settings.memory == 10**9


def test_an_unknown_setting_has_a_place_and_a_neighbour(check):
    (error,) = check("SET worker = 3;")
    assert (error.line, error.column) == (1, 5)
    assert 'did you mean "workers"' in error.hint


def test_rules_can_be_switched_off(explain):
    text = "FROM 'docs.jsonl' |> EXTEND upper(lang) AS u |> WHERE id > 1 |> SELECT id"
    assert "push_filters_down" in explain(text, "TRACE")
    assert "push_filters_down" not in explain(
        "SET disabled_rules = ['push_filters_down']; " + text, "TRACE"
    )
    assert "(no rule changed the plan)" in explain("SET optimizer = false; " + text, "TRACE")


def test_an_unknown_rule_is_an_error(check):
    (error,) = check("SET disabled_rules = ['push_filter_down'];")
    assert "push_filters_down" in error.hint
