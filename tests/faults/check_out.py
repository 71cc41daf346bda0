"""What must hold after any fault, in one function: the invariants I1 to I6."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from zql.storage.manifest import MANIFEST

from leaks import processes, semaphores

_WAIT = 10.0


def sums(folder: Path) -> dict[str, str]:
    """Hashes of the files in a folder, by name."""
    return {
        p.name: hashlib.md5(p.read_bytes(), usedforsecurity=False).hexdigest()
        for p in sorted(folder.iterdir())
        if p.is_file()
    }


def check_out(
    out: Path,
    *,
    inputs: Path,
    before: Mapping[str, str],
    reference: Counter[str],
    temp: Path,
    pid: int | None,
    again: Callable[[str], int],
    old: Counter[str] | None = None,
) -> None:
    """Checks a folder of outputs after a run that may have been killed or have failed.

    I1 each file that a reader sees is whole. I2 where a manifest says that it is finished, its
    files are there, of their size, and no other data file is. I3 a second run gives the
    `reference` rows. I4 the files of `inputs` are as they were `before`. I5 of the run with the
    process id `pid`, if it is another than this one, no process and semaphore is left, and after
    the second run no temporary file, in `temp` or hidden beside the outputs. I6 a third run that
    may skip does nothing again, when all files are listed.

    `again` runs the script in a mode, and gives the number of rows that it wrote. `old` are the
    rows that were there before the run: it may have replaced all files, some, or none.
    """
    if pid is not None:
        _gone(pid)
    seen = rows_in(out)  # I1
    assert not seen - (reference | (old or Counter())), "I1: rows that no run makes"
    check_manifests(out)
    assert sums(inputs) == before, "I4: an input has changed"
    assert again("overwrite") == sum(reference.values())
    assert rows_in(out) == reference, "I3: the rows of a second run"
    listed = check_manifests(out)
    left = [p.name for p in temp.iterdir() if not _alive(p.name)]
    assert not left, f"I5: temporary folders are left: {left}"
    hidden = [str(p.relative_to(out)) for p in out.rglob(".*")]
    assert not hidden, f"I5: unpublished files are left: {hidden}"
    if listed == set(data_files(out)):
        assert again("skip") == 0, "I6: a third run does it again"
        assert rows_in(out) == reference, "I6: the rows of a third run"


def rows_in(out: Path) -> Counter[str]:
    """The rows of all data files that a reader sees, each of which must be whole."""
    found: Counter[str] = Counter()
    for path in data_files(out):
        text = path.read_text("utf-8")
        assert not text or text.endswith("\n"), f"I1: {path} is cut off"
        for line in text.splitlines():
            json.loads(line)
            found[line] += 1
    return found


def data_files(out: Path) -> list[Path]:
    """The files that a reader takes: not hidden, not a note of ZQL's own."""
    found = [p for p in sorted(out.rglob("*")) if p.is_file()]
    return [p for p in found if not any(n[0] in "._" for n in p.relative_to(out).parts)]


def hidden_files(folder: Path) -> list[str]:
    """Files under hidden names, or in hidden folders."""
    found = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
    return [str(p) for p in found if any(name.startswith(".") for name in p.parts)]


def check_manifests(out: Path) -> set[Path]:
    """I2, for each folder below one: the files that finished manifests list.

    Files without a manifest are outputs of one file, which are whole or not there.
    """
    found = set()
    for folder in {out, *(p.parent for p in data_files(out))}:
        path = folder / MANIFEST
        if (folder / "_SUCCESS").exists():
            assert path.exists(), f"I2: {folder} is finished, and says not by what"
        if not path.exists():
            continue
        targets = json.loads(path.read_text("utf-8"))["targets"]
        if not all(entry["finished"] for entry in targets.values()):
            assert not (folder / "_SUCCESS").exists(), f"I2: {folder} is and is not finished"
            continue
        listed = {n: facts for e in targets.values() for n, facts in e["files"].items()}
        there = {str(p.relative_to(folder)): p.stat().st_size for p in data_files(folder)}
        assert {n: facts["bytes"] for n, facts in listed.items()} == there, f"I2: {folder}"
        found.update(folder / name for name in listed)
    return found


def _gone(pid: int) -> None:
    """I5: everything that belongs to the session of a process ends, with its semaphores."""
    end = time.monotonic() + _WAIT
    while (left := in_session(pid)) or semaphores(pid):
        assert time.monotonic() < end, f"I5: processes {left}, semaphores {semaphores(pid)}"
        time.sleep(0.02)


def in_session(session: int) -> list[int]:
    """The processes of a session that are not ended."""
    return [n for n, p in processes().items() if p.state != "Z" and p.session == session]


def _alive(name: str) -> bool:
    """Whether a temporary folder is of a process that is there."""
    words = name.split("-")
    return len(words) > 1 and words[1].isdigit() and os.path.exists(f"/proc/{words[1]}")
