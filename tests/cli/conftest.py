"""The command line, called in this process with streams of its own: quick, and otherwise real."""

import contextlib
import io
import sys
from types import SimpleNamespace

import pytest
from zql.cli.main import call


def stream(text=""):
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


@pytest.fixture
def zql(tmp_path, monkeypatch):
    """Runs `zql` with arguments in the test's folder; stdin, stdout and stderr are no terminals."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*args, input="", env=None):
        out, err = stream(), stream()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", stream(input))
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = call([*map(str, args)])
                except SystemExit as end:  # click, when it has told a shell its completions
                    code = end.code or 0
        shown = [each.buffer.getvalue().decode() for each in (out, err)]
        return SimpleNamespace(returncode=code, stdout=shown[0], stderr=shown[1])

    return run
