"""Every block of the documentation runs, and prints what the page shows."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from markdown_blocks import RUN, Page, blocks

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if any(block.language in RUN for block in blocks(page))
]
PACKAGES = ("json", "string", "textwrap", "pydoc_data")
"""Enough of the standard library for examples that need documents."""


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """The examples folder with a little data made beside it."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
    spec = importlib.util.spec_from_file_location("examples_data", folder / "data.py")
    data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(data)
    data.write(folder, packages=PACKAGES)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, examples, tmp_path, monkeypatch, capfd):
    shutil.copytree(examples, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def captured():
        out, err = capfd.readouterr()
        return out + err

    assert Page(page, captured).run() > 0
