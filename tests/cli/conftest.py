"""The command line as users run it: a process of its own in a folder of its own."""

import os
import subprocess
import sys

import pytest

ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("ZQL_", "_ZQL"))},
    "PYTHONPATH": os.pathsep.join(sys.path),
    "TERM": "xterm-256color",
}
ENVIRONMENT.pop("NO_COLOR", None)


@pytest.fixture
def zql(tmp_path, monkeypatch):
    """Runs `zql` with arguments in the test's folder; stdin, stdout and stderr are pipes."""
    monkeypatch.chdir(tmp_path)

    def run(*args, input=None, env=None, **more):
        return subprocess.run(
            [sys.executable, "-m", "zql", *map(str, args)],
            input="" if input is None else input,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            env={**ENVIRONMENT, **(env or {})},
            **more,
        )

    return run
