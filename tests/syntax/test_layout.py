"""Documents on lines: what stays together, what breaks, and how far to the right it stands."""

from __future__ import annotations

from zql.syntax.layout import (
    BLANK,
    HARD,
    LINE,
    SOFT,
    SPACE,
    Aside,
    block,
    fill,
    group,
    indent,
    items_of,
    join,
    lay_out,
    one_line,
)


def lines(doc, width=20):
    return lay_out(items_of(doc), width).split("\n")


WORDS = join((",", LINE), ["alpha", "beta", "gamma"])


def test_a_group_that_fits_is_one_line():
    assert lines(block("(", WORDS, ")")) == ["(alpha, beta, gamma)"]
    assert one_line(block("(", WORDS, ")")) == "(alpha, beta, gamma)"


def test_a_group_that_does_not_fit_breaks_everywhere():
    assert lines(block("(", WORDS, ")"), 19) == ["(", "  alpha,", "  beta,", "  gamma", ")"]


def test_what_cannot_leave_the_line_counts():
    assert lines((block("(", WORDS, ")"), ";")) == ["(", "  alpha,", "  beta,", "  gamma", ");"]
    assert lines((group("a", LINE, "b"), SOFT, "c" * 20)) == ["a b", "c" * 20]


def test_groups_inside_decide_for_themselves():
    inner = block("[", WORDS, "]")
    assert lines(block("f(", (inner, ",", LINE, "delta"), ")"), 24) == [
        "f(", "  [alpha, beta, gamma],", "  delta", ")",
    ]  # fmt: skip


def test_outside_groups_every_break_ends_the_line():
    assert lines(("a", LINE, "b", SPACE, "c")) == ["a", "b c"]


def test_a_hard_break_breaks_the_groups_around_it():
    assert lines(group("a", indent(LINE, group("b", HARD, "c")), LINE, "d")) == [
        "a", "  b", "  c", "d",
    ]  # fmt: skip
    assert lines((group("a", LINE, "b"), BLANK, group("c", LINE, "d"))) == ["a b", "", "c d"]


def test_asides_weigh_nothing():
    assert lines((group("a", LINE, "b"), Aside(" -- " + "c" * 30))) == ["a b -- " + "c" * 30]


def test_filled_lines_take_what_fits():
    assert lines(fill([str(number) for number in range(8, 15)]), 12) == [
        "8, 9, 10,", "11, 12, 13,", "14",
    ]  # fmt: skip


def test_a_text_with_a_line_feed_ends_its_line():
    text = "'a\n" + "b" * 30 + "'"
    assert lines(group("f(", LINE, text, LINE, ")")) == ["f( 'a", "b" * 30 + "' )"]
    assert lines((text, group("c", LINE, "d")), 40) == ["'a", "b" * 30 + "'c d"]


def test_depth_does_not_matter():
    doc = "x"
    for _ in range(2000):
        doc = block("(", doc, ")")
    assert len(one_line(doc)) == 4001
    assert len(lines(doc)) == 4001
