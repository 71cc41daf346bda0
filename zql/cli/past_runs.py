"""`zql runs` and `zql clean`: what ran before, and what it has left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

from zql.display.screen import Screen, complain
from zql.display.text import count, duration, pad, safe_text, size, width
from zql.execution.history import PastRun, known_caches, past_runs
from zql.execution.left_overs import left_overs
from zql.execution.settings import Settings as RunSettings


def print_runs(most: int, form: str) -> int:
    """Prints the last runs that wrote, the newest first."""
    screen = Screen()
    runs = past_runs()[:most]
    if form == "json":
        screen.line(json.dumps([run.to_dict() for run in runs], ensure_ascii=False, indent=2))
    else:
        for line in _table(runs):
            screen.line(line)
    screen.flush()
    if form != "json" and not runs:
        complain("no runs that wrote are remembered")
    return 0


def _table(runs: Sequence[PastRun]) -> Iterator[str]:
    cells = [tuple(_cells(run)) for run in runs]
    widths = [max(width(row[i]) for row in cells) for i in range(5)] if cells else []
    for row in cells:
        shown = [
            pad(cell, wide, side) for cell, wide, side in zip(row, widths, "<<>><", strict=True)
        ]
        yield "  ".join(shown).rstrip()


def _cells(run: PastRun) -> Iterator[str]:
    yield f"{run.state} {run.reason}".strip()
    yield time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began))
    yield duration(run.seconds)
    yield count(run.rows, "row")
    yield f"{safe_text(run.script)}{_outputs(run.outputs)}"


def _outputs(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - 1:,} more" if paths[1:] else ""
    return f" -> {safe_text(paths[0])}{more}"


def clean(temp_dir: str | None, caches: Sequence[str], days: float, *, dry_run: bool) -> int:
    """Removes what dead runs have left, and old results of caches; prints what."""
    screen = Screen()
    runs = past_runs()
    places = [place for run in runs for place in run.places]
    temp = RunSettings(temp_dir=temp_dir).temp_root()
    known = [*known_caches(), *(cache for run in runs for cache in run.caches)]
    number = total = 0
    dead = [run.pid for run in runs if run.state == "killed"]
    for each in left_overs([temp, *places], [*caches, *known], days, dead):
        if not dry_run:
            each.remove()
        number, total = number + 1, total + each.bytes
        word = "would remove" if dry_run else "removed"
        screen.line(f"{word} {safe_text(each.path)}: {each.what}, {size(each.bytes)}")
    screen.flush()
    word = "would go" if dry_run else "gone"
    complain(f"{count(number, 'left-over')} {word}, {size(total)}" if number else "nothing is left")
    return 0
