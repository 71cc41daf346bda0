"""All tests: folders of their own for cache and state: none sees what earlier runs have learned."""

from __future__ import annotations

import os
import signal

import pytest
from zql.user_cache import cache_folder as cache_folder_of_user

# A shell starts background jobs with SIGINT ignored, and processes hand that on: those that the
# tests start, and interrupt, must not have inherited it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    before = {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    known = cache_folder_of_user()
    folder = tmp_path_factory.mktemp("cache")
    if known is not None:  # the tables of the grammar take two seconds, and depend on nothing else
        (folder / "zql").mkdir(mode=0o700)
        for path in known.glob("grammar-*.json"):
            (folder / "zql" / path.name).write_bytes(path.read_bytes())
    os.environ["XDG_CACHE_HOME"] = str(folder)
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
