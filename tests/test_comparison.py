"""The table of docs/comparison.md names a test for what ZQL has, and these tests are there."""

import re
from pathlib import Path

import pytest

import golden

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs/comparison.md"
ANSWERS = {"yes", "partly", "no", "?"}


def rows():
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("| Feature"))
    end = next(i for i in range(start, len(lines)) if not lines[i])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]


HEAD, _, *FEATURES = rows()


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0])
def test_a_feature_has_its_test(row):
    assert len(row) == len(HEAD)
    feature, zql, *others, tests = row
    assert feature
    assert {zql, *others} <= ANSWERS
    named = re.findall(r"`([^`]+?)::([^`]+)`", tests)
    assert bool(named) == (zql != "no"), "a test where ZQL has it, and only there"
    for path, title in named:
        assert title in titles(TESTS / path), path


def titles(path):
    """The cases of a golden file, or the test functions of a module."""
    if path.suffix == ".py":
        return re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [case.title for case in golden.read(path)]
