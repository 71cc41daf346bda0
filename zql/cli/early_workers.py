"""Workers begin to start before the script is read, if it looks as if it had work for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zql.cli.sources import Script

_BRINGS_FUNCTIONS = re.compile(r"\b(IMPORT|LANGUAGE)\s+PYTHON\b", re.IGNORECASE)
_WRITES = re.compile(r"\|>\s*WRITE\b", re.IGNORECASE)


@contextmanager
def early_workers(scripts: Sequence[Script], temp_dir: str | None) -> Iterator[None]:
    """What workers load is loaded while the caller does something else.

    Wrong guesses cost that and nothing else: it ends with the context when no pool took it.
    """
    texts = [script.source.text for script in scripts]
    if not any(_BRINGS_FUNCTIONS.search(text) and _WRITES.search(text) for text in texts):
        yield
        return
    from zql.execution import fork_server
    from zql.execution.settings import Settings

    try:
        fork_server.start_early(Settings(temp_dir=temp_dir).temp_root())
        yield
    finally:
        fork_server.close_early()
