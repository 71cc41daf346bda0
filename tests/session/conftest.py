"""A session in a folder of its own, with a few small files."""

from __future__ import annotations

import json

import pytest
from zql.session import Session
from zql.source import Source

ROWS = [
    {"id": 1, "title": "Alpha", "lang": "en", "text": "one two"},
    {"id": 2, "title": "Beta", "lang": "de", "text": "eins"},
    {"id": 3, "title": "Gamma", "lang": "en", "text": "three four five"},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    (tmp_path / "quality.py").write_text(
        "def score(text: str) -> float:\n    return len(text) / 10\n"
    )
    return tmp_path


@pytest.fixture
def session(folder):
    with Session(workers=2) as one:
        yield one


@pytest.fixture
def check(session, folder):
    """Checks a text; the rendered errors."""

    def run(text, params=None):
        return session.check(Source("job.zql", text), params, base_dir=str(folder))

    return run


@pytest.fixture
def explain(session, folder):
    def run(text, level="STAGES", params=None):
        return session.explain(Source("job.zql", text), params, base_dir=str(folder), level=level)

    return run
