"""What runs that write note of themselves, in files of the user's state folder.

Nothing depends on them but `zql runs`, `zql clean`, and a resumed run that asks which single files
an earlier statement of the script has written. A folder that cannot be written is no error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zql.execution.fingerprint import absolute
from zql.execution.journal import Journal, has_writer, records
from zql.storage import files
from zql.storage.format import WrittenFile
from zql.tree import node
from zql.user_cache import is_private, state_folder

_SUFFIX = ".run"
_CACHES = "caches"
MOST = 200
"""So many runs are remembered."""


class RunNotes:
    """The notes of one script on its way. There are none before it writes."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._journal: Journal | None = None
        self._rows = 0

    def begin(self, places: Sequence[str], cache: str | None) -> None:
        """A statement begins that has work of its own in these folders, and this cache."""
        with suppress(OSError):
            if self._journal is None:
                self._journal = _new()
                if self._journal is not None:
                    told = {"script": self._script, "began": time.time(), "pid": os.getpid()}
                    self._journal.add(told)
            if self._journal is not None:
                caches = [os.path.abspath(cache)] if cache else []
                self._journal.add({"places": places, "caches": caches})

    def wrote(self, plan: str, written: Sequence[WrittenFile]) -> None:
        """Files have their names; `plan` stands for all that they depend on."""
        if self._journal is None:
            return
        for file in written:
            facts: dict[str, Any] = {"rows": file.rows, "bytes": file.bytes, "plan": plan}
            found = files.stat_file(file.path) if len(written) == 1 else None
            version = found.version if found is not None else ""
            path = files.shown(absolute(file.path))
            with suppress(OSError):
                self._journal.add({"path": path, "version": version, **facts})

    def end(self, state: str, reason: str = "") -> None:
        """The script is done, failed or interrupted."""
        journal, self._journal = self._journal, None
        if journal is not None:
            with suppress(OSError):
                journal.add({"ended": time.time(), "state": state, "reason": reason})
            journal.close()


def _new() -> Journal | None:
    """The notes of one more run; those of the oldest go."""
    folder = _folder()
    if folder is None:
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(folder):
        return None
    for old in sorted(folder.glob(f"*{_SUFFIX}"))[: 1 - MOST]:
        old.unlink(missing_ok=True)
    name = f"{time.time_ns():020d}-{os.getpid()}{_SUFFIX}"
    journal = Journal(str(folder / name))
    journal.lock()
    return journal


def _folder() -> Path | None:
    state = state_folder()
    return None if state is None else state / "runs"


def note_cache(path: str) -> None:
    """Remembers a cache, for `zql clean`: queries use some too, and are no runs that write."""
    with suppress(OSError):
        folder = _folder()
        if folder is None or path in known_caches():
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(folder):
            journal = Journal(str(folder / _CACHES))
            journal.add({"cache": path})
            journal.close()


def known_caches() -> list[str]:
    """The caches that were ever used, and are still there."""
    folder = _folder()
    if folder is None or not is_private(folder):
        return []
    noted = (str(record.get("cache", "")) for record in records(str(folder / _CACHES)))
    return [path for path in dict.fromkeys(noted) if os.path.isdir(path)]


@node
class PastRun:
    """A run as its notes have it.

    `state` is running, done, failed, interrupted or killed; times are in seconds, `began` since
    1970. `places` are folders in which it may have left something, `caches` those that it used.
    """

    script: str
    state: str
    began: float
    seconds: float
    outputs: tuple[str, ...] = ()
    rows: int = 0
    bytes: int = 0
    reason: str = ""
    places: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    pid: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The run as plain values, for JSON."""
        return {
            "script": self.script,
            "state": self.state,
            "began": self.began,
            "seconds": self.seconds,
            "outputs": list(self.outputs),
            "rows": self.rows,
            "bytes": self.bytes,
            "reason": self.reason,
        }


def past_runs() -> list[PastRun]:
    """The runs that are remembered, the newest first."""
    found = (_past_run(path) for path in _paths())
    return [run for run in found if run is not None]


def written_by(
    plan: str, path: str, storage_options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The facts of a file that is just as a run of this very plan has left it; else nothing."""
    found = files.stat_file(path, storage_options)
    wanted = files.shown(absolute(path))
    for notes in _paths() if found is not None else ():
        for record in records(str(notes)):
            if record.get("path") != wanted or record.get("plan") != plan:
                continue
            if found is not None and record.get("version") == found.version != "":
                return {path: record}
    return {}


def _last_seen(path: Path, noted: Sequence[Mapping[str, Any]]) -> float:
    """When a run that was killed last put something down, in its notes or beside its outputs."""
    pid = noted[0].get("pid")
    found = [path.stat().st_mtime]
    for place in {str(place) for record in noted for place in record.get("places", ())}:
        found += [last_seen(str(home)) for home in Path(place).glob(f"*-{pid}-*")]
    return max(found)


def last_seen(home: str) -> float:
    """When a run last put something down in a folder of its own."""
    found = [0.0]
    for path in (home, os.path.join(home, "journal")):
        with suppress(OSError):
            found.append(os.stat(path).st_mtime)
    return max(found)


def keep_end(home: str, last: float) -> None:
    """Before the folder of a killed run goes: its notes keep the time when it was last at work."""
    pid = os.path.basename(home).split("-")[-2]
    with suppress(OSError):
        for path in _paths():
            ours = path.name.endswith(f"-{pid}{_SUFFIX}") and not has_writer(str(path))
            if ours and path.stat().st_mtime < last:
                os.utime(path, (last, last))


def _paths() -> Iterator[Path]:
    folder = _folder()
    if folder is not None and is_private(folder):
        yield from sorted(folder.glob(f"*{_SUFFIX}"), reverse=True)


def _past_run(path: Path) -> PastRun | None:
    noted = list(records(str(path)))
    if not noted or "script" not in noted[0]:
        return None
    first, last = noted[0], noted[-1]
    wrote = [record for record in noted if "path" in record]
    try:
        ended = float(last.get("ended", 0.0))
        state = str(last["state"]) if ended else "running" if has_writer(str(path)) else "killed"
        until = ended or (time.time() if state == "running" else _last_seen(path, noted))
        return PastRun(
            str(first["script"]),
            state,
            float(first["began"]),
            max(0.0, until - float(first["began"])),
            tuple(str(record["path"]) for record in wrote),
            sum(int(record["rows"]) for record in wrote),
            sum(int(record["bytes"]) for record in wrote),
            str(last.get("reason", "")),
            tuple(dict.fromkeys(str(p) for record in noted for p in record.get("places", ()))),
            tuple(dict.fromkeys(str(p) for record in noted for p in record.get("caches", ()))),
            int(first.get("pid", 0)),
        )
    except (OSError, KeyError, TypeError, ValueError):
        return None
