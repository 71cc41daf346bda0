"""Finished work by its keys: what this run has done, what dead runs have left, and the cache.

What is found is whole: files are compared with their checksums before anyone uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from typing import Any

from zql.execution.cache_folder import CacheFolder
from zql.execution.checksums import is_whole
from zql.execution.journal import Journal
from zql.execution.kept import KeptFile
from zql.execution.rejects import Rejected
from zql.execution.report import StepCount
from zql.execution.tallies import Tallies, Tally
from zql.execution.task import TaskResult
from zql.tree import node


@node
class Entry:
    """The result of a task, or of a stage of SQL, and what its report needs."""

    key: str
    files: tuple[KeptFile, ...]
    records_in: int = 0
    steps: tuple[StepCount, ...] = ()
    seconds: float = 0.0
    bytes_spilled: int = 0
    rejected: tuple[Rejected, ...] = ()
    tallies: Tallies = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, result: TaskResult) -> Entry:
        """The entry of a task that is done."""
        files = (result.file,) if result.file is not None else ()
        facts = (result.records_in, result.steps, result.seconds, result.bytes_spilled)
        return cls(key, files, *facts, result.rejected, result.tallies)

    def result(self, number: int) -> TaskResult:
        """What the task of this number would give."""
        facts = (self.records_in, self.steps, self.seconds, self.bytes_spilled)
        return TaskResult(number, self.files[0], *facts, self.rejected, self.tallies)

    def all_files(self) -> Iterator[KeptFile]:
        """The files of the result and those of rejected rows."""
        yield from self.files
        yield from (each.file for each in self.rejected if each.file is not None)

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Entry:
        """The entry of plain values. Raises `KeyError`, `TypeError` or `ValueError` for others."""
        return cls(
            str(record["key"]),
            tuple(_file(file) for file in record["files"]),
            int(record["records_in"]),
            tuple(StepCount(**step) for step in record["steps"]),
            float(record["seconds"]),
            int(record["bytes_spilled"]),
            tuple(_rejected(each) for each in record["rejected"]),
            {name: Tally(**tally) for name, tally in record["tallies"].items()},
        )


def _file(record: Mapping[str, Any]) -> KeptFile:
    return KeptFile(**record)


def _rejected(record: Mapping[str, Any]) -> Rejected:
    file = record["file"]
    notes = tuple(record["notes"])
    return Rejected(**{**record, "file": _file(file) if file else None, "notes": notes})


def entries(records: Iterable[Mapping[str, Any]]) -> Iterator[Entry]:
    """The entries among the records of a journal; what cannot be read is none."""
    for record in records:
        if "key" in record:
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                yield Entry.from_dict(record)


class ResultStore:
    """The finished work that one run may use, and adds to."""

    def __init__(self, found: Iterable[Entry], cache: CacheFolder | None) -> None:
        """`found` is the work of dead runs."""
        self._entries = {entry.key: entry for entry in found}
        self._cache = cache

    def find(self, key: str, folder: str) -> Entry | None:
        """The result of a key, if it is there and whole; one of the cache is put in a `folder`."""
        entry = self._entries.get(key)
        if entry is not None:
            if all(map(is_whole, entry.all_files())):
                return entry
            del self._entries[key]
        record = self._cache.find(key, folder) if self._cache is not None else None
        for entry in entries([record] if record else []):
            if all(map(is_whole, entry.all_files())):
                return entry
        return None

    def peek(self, key: str) -> Entry | None:
        """What `find` would give, if its files are whole: none is read."""
        if key in self._entries or self._cache is None:
            return self._entries.get(key)
        record = self._cache.find(key, None)
        return next(entries([record] if record else []), None)

    def add(self, entry: Entry, journal: Journal) -> None:
        """Notes a finished result."""
        journal.add(entry.to_dict())
        if self._cache is not None:
            self._cache.add(entry.key, entry.to_dict(), [f.path for f in entry.all_files()])
