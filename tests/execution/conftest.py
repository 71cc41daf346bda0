"""A folder with input files and functions, and sessions that leave nothing behind."""

import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from zql.session import Session


class Place:
    """A folder to run scripts in."""

    def __init__(self, folder: Path, shared: Callable[[int], Session]) -> None:
        self.folder = folder
        self.shared = shared
        self.temp = folder / "tmp"
        self.temp.mkdir()

    def rows(self, name: str, rows: list[dict]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / name).write_text(text)

    def functions(self, text: str, name: str = "udf.py") -> None:
        (self.folder / name).write_text(textwrap.dedent(text))

    def session(self, workers: int = 2, **settings) -> Session:
        """A session of this test alone, which must be closed."""
        return Session(temp_dir=str(self.temp), workers=workers, **settings)

    def run(self, text: str, workers: int = 2):
        """Runs a script in a session that the tests share: to start workers takes a second."""
        return self.shared(workers).run(text)

    def read(self, pattern: str) -> list[dict]:
        found = []
        for path in sorted(self.folder.glob(pattern)):
            found += [json.loads(line) for line in path.read_text().splitlines()]
        return found

    def names(self, folder: str = ".") -> list[str]:
        return sorted(os.listdir(self.folder / folder))

    def bytes(self, pattern: str) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in sorted(self.folder.glob(pattern))}


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Sessions by number of workers; one whose settings a test has changed ends with that test."""
    sessions: dict[int, Session] = {}
    temp = tmp_path_factory.mktemp("shared")
    settings = {}

    def session(workers: int) -> Session:
        if workers not in sessions:
            sessions[workers] = Session(temp_dir=str(temp), workers=workers)
            settings[workers] = sessions[workers].settings
        return sessions[workers]

    def end_changed() -> None:
        for workers, one in list(sessions.items()):
            if one.settings != settings[workers]:
                sessions.pop(workers).close()

    session.end_changed = end_changed

    yield session
    for one in sessions.values():
        one.close()
    assert list(temp.iterdir()) == [], "temporary files are left"


@pytest.fixture
def place(tmp_path, monkeypatch, shared):
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path, shared)
    yield place
    shared.end_changed()
    assert list(place.temp.iterdir()) == [], "temporary files are left"
    assert list(tmp_path.rglob(".zql-*")) == [], "unpublished files are left"
