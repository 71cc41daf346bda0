"""Tables: golden looks, and a shape that holds for any content and any width."""

import re
import textwrap

import pytest
from fake_rows import Rows
from hypothesis import example, given
from hypothesis import strategies as st
from zql.display.box import ASCII, render_box
from zql.display.preview import COUNTED_ROWS, read_preview
from zql.display.style import Style
from zql.display.text import is_numeric, width


def box(names, types, rows, limit=80, max_rows=40, **more):
    return render_box(read_preview(Rows(names, types, rows), max_rows), limit=limit, **more)


def looks(text, expected):
    assert text.split("\n") == textwrap.dedent(expected).strip("\n").split("\n")


def test_numbers_right_text_left_null_and_escapes():
    rows = [("1", "日本語"), ("2", None), ("300", "a\nb\x1b[31m")]
    looks(
        box(["i", "name"], ["BIGINT", "VARCHAR"], rows),
        r"""
        ┌────────┬──────────────┐
        │   i    │     name     │
        │ bigint │   varchar    │
        ├────────┼──────────────┤
        │      1 │ 日本語       │
        │      2 │ NULL         │
        │    300 │ a\nb\x1b[31m │
        └────────┴──────────────┘
          3 rows      2 columns
        """,
    )


def test_no_rows():
    looks(
        box(["a"], ["INTEGER"], []),
        """
        ┌─────────┐
        │    a    │
        │ integer │
        └─────────┘
          0 rows   1 column
        """,
    )


def test_the_middle_of_a_long_result_is_left_out():
    looks(
        box(["n"], ["BIGINT"], [(str(i),) for i in range(100)], max_rows=5),
        """
        ┌────────┐
        │   n    │
        │ bigint │
        ├────────┤
        │      0 │
        │      1 │
        │      2 │
        │      · │
        │      · │
        │      · │
        │     98 │
        │     99 │
        └────────┘
          100 rows (5 shown)   1 column
        """,
    )


def test_a_result_too_long_to_count_is_not_read_to_its_end():
    rows = Rows(["n"], ["BIGINT"], ((str(i),) for i in range(10**9)))
    preview = read_preview(rows, 3)
    assert rows.read == COUNTED_ROWS + 1
    looks(
        render_box(preview, limit=80),
        """
        ┌────────┐
        │   n    │
        │ bigint │
        ├────────┤
        │      0 │
        │      1 │
        │      2 │
        │      · │
        │      · │
        │      · │
        └────────┘
          more than 9,999 rows (3 shown)   1 column
        """,
    )


def test_columns_in_the_middle_make_room():
    names = [f"column_{i}" for i in range(20)]
    looks(
        box(names, ["VARCHAR"] * 20, [["v" * 12] * 20], limit=60),
        """
        ┌──────────────┬──────────────┬───┬──────────────┐
        │   column_0   │   column_1   │ … │  column_19   │
        │   varchar    │   varchar    │   │   varchar    │
        ├──────────────┼──────────────┼───┼──────────────┤
        │ vvvvvvvvvvvv │ vvvvvvvvvvvv │ … │ vvvvvvvvvvvv │
        └──────────────┴──────────────┴───┴──────────────┘
          1 row                     20 columns (3 shown)
        """,
    )


def test_wide_columns_are_cut_and_narrow_ones_kept():
    kind = "STRUCT(a VARCHAR, b BIGINT, c DOUBLE[], dddd BIGINT)"
    looks(
        box(["id", "a", "b"], ["BIGINT", "VARCHAR", kind], [("7", "x" * 300, "日" * 99)], 60),
        """
        ┌────────┬────────────────────────┬────────────────────────┐
        │   id   │           a            │           b            │
        │ bigint │        varchar         │ struct(a varchar, b b… │
        ├────────┼────────────────────────┼────────────────────────┤
        │      7 │ xxxxxxxxxxxxxxxxxxxxx… │ 日日日日日日日日日日…  │
        └────────┴────────────────────────┴────────────────────────┘
          1 row                                          3 columns
        """,
    )


def test_a_stream_without_box_characters_gets_plain_ones():
    looks(
        box(["a", "b"], ["DOUBLE", "VARCHAR"], [("1.5", "x")], chars=ASCII),
        """
        +--------+---------+
        |   a    |    b    |
        | double | varchar |
        +--------+---------+
        |    1.5 | x       |
        +--------+---------+
          1 row   2 columns
        """,
    )


def test_colours_do_not_move_anything():
    def table(style):
        return box(["a", "b"], ["BIGINT", "VARCHAR"], [("1", None)] * 50, max_rows=4, style=style)

    painted = table(Style(color=True))
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == table(Style())


@pytest.mark.parametrize(
    ("kind", "numeric"),
    [("BIGINT", True), ("UTINYINT", True), ("DECIMAL(10,2)", True), ("DOUBLE", True),
     ("VARCHAR", False), ("INTEGER[]", False), ("STRUCT(a BIGINT)", False), ("DATE", False)],
)  # fmt: skip
def test_which_types_are_numbers(kind, numeric):
    assert is_numeric(kind) is numeric


cells = st.none() | st.text(max_size=40)
tables = st.integers(min_value=1, max_value=12).flatmap(
    lambda n: st.tuples(
        st.lists(st.text(min_size=1, max_size=20), min_size=n, max_size=n),
        st.lists(
            st.sampled_from(["BIGINT", "VARCHAR", "STRUCT(long_name VARCHAR, other BIGINT[])"]),
            min_size=n,
            max_size=n,
        ),
        st.lists(st.lists(cells, min_size=n, max_size=n), max_size=12),
    )
)


@example((["\U0001112c"], ["BIGINT"], []), None, 0)  # a mark that takes room behind a space
@given(tables, st.none() | st.integers(min_value=30, max_value=200), st.integers(0, 10))
def test_any_table_is_a_rectangle_that_fits(table, limit, max_rows):
    names, types, rows = table
    *lines, footer = box(names, types, rows, limit=limit, max_rows=max_rows).split("\n")
    widths = {width(line) for line in lines}
    assert len(widths) == 1
    if limit is not None:
        assert widths.pop() <= limit
        assert width(footer) <= limit
    # A cell may hold any character, those of the frame too.
    frame = [line for line in lines if not line.startswith("│")]
    bars = {tuple(i for i, char in enumerate(line) if char in "┬┼┴") for line in frame}
    assert len([b for b in bars if b]) <= 1
    body = [line for line in lines if line.startswith("│")]
    shown = min(len(rows), max_rows)
    assert len(body) == 2 + shown + (3 if shown < len(rows) else 0)


@given(st.integers(0, 60), st.integers(0, 12))
def test_a_preview_keeps_the_first_and_the_last_rows(total, max_rows):
    preview = read_preview(Rows(["n"], ["BIGINT"], [(str(i),) for i in range(total)]), max_rows)
    numbers = [int(row[0]) for row in (*preview.head, *preview.tail)]
    assert preview.total == total
    assert preview.complete
    if total <= max_rows:
        assert numbers == list(range(total))
    else:
        first = (max_rows + 1) // 2
        assert numbers == [*range(first), *range(total - (max_rows - first), total)]
