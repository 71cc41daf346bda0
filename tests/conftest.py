"""All tests: folders of their own for cache and state: none sees what earlier runs have learned.

Nothing is left behind by any of them.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile

import pytest
from zql.execution import async_calls
from zql.session import default_session
from zql.user_cache import cache_folder as cache_folder_of_user

from leaks import Leaks

# A shell starts background jobs with SIGINT ignored, and processes hand that on: those that the
# tests start, and interrupt, must not have inherited it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory):
    """Of the whole run no process, semaphore, open file, thread or temporary file stays."""
    tmp_path_factory.getbasetemp()
    before = os.environ.get("TMPDIR")
    root = tmp_path_factory.mktemp("temporary")
    os.environ["TMPDIR"] = tempfile.tempdir = str(root)
    watch = Leaks(root) if sys.platform.startswith("linux") else None
    yield
    # These two are there for as long as the process is.
    default_session().close()
    for loop in async_calls._loops:
        loop.close()
    async_calls._loops.clear()
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    left = watch.found() if watch is not None else []
    assert not left, "left by the tests: " + "; ".join(left)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(nothing_is_left, tmp_path_factory):
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
