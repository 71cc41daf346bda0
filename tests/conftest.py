"""All tests: a cache folder of their own, so that none sees what an earlier run has learned."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before
