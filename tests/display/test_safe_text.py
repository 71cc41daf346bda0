"""Texts from data are safe on a terminal, and measured as a terminal does."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zql.display.text import cut, duration, pad, safe_lines, safe_text, size, width

OBEYED = [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F)]
OBEYED += [*range(0x2066, 0x206A)]


@pytest.mark.parametrize("code", OBEYED)
def test_no_character_that_a_terminal_obeys_is_left(code):
    assert chr(code) not in safe_text(f"a{chr(code)}b")


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("plain ünïcode 日本", "plain ünïcode 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("\0", "\\x00"),
    ],
)
def test_escapes_say_what_was_there(raw, safe):
    assert safe_text(raw) == safe


def test_lines_keep_line_ends_and_tabs_only():
    assert safe_lines("a\tb\r\nc\rd\x1b") == "a\tb\nc\\rd\\x1b"


def test_a_long_text_is_cut():
    assert safe_text("x" * 300, 10) == "x" * 9 + "…"


@given(st.text(max_size=60), st.integers(min_value=1, max_value=40))
def test_cut_fits_and_keeps_the_beginning(text, columns):
    text = safe_text(text)
    short = cut(text, columns)
    assert width(short) <= columns
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


@given(st.text(max_size=30), st.integers(min_value=1, max_value=60), st.sampled_from("<>^"))
def test_padding_gives_exactly_the_width(text, columns, align):
    short = cut(safe_text(text), columns)
    assert width(pad(short, columns, align)) == columns


def test_wide_and_combining_characters_are_measured():
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert unicodedata.normalize("NFC", cut("e\u0301" * 5, 3)) == "éé…"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (123_456_789, "123 MB"),
     (999_600, "1.0 MB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_sizes(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0421, "42 ms"), (0.9996, "1.00 s"), (12.34, "12.3 s"), (119, "119 s"),
     (125, "2 min 5 s"), (7320, "2 h 2 min")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text
