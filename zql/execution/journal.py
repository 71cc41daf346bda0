"""Lines in a file that is only added to: each is there as a whole, or it is not there."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from zql.execution.owned_folder import locked
from zql.failpoints import hit

Record = Mapping[str, Any]


class Journal:
    """A journal that is being written."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.path = path
        self._descriptor = os.open(path, flags, 0o600)

    def add(self, record: Record) -> None:
        """Adds a record. What it names must be finished.

        Nothing is synced: records hold the checksums of what they name, so that one that outlived
        its file in a power cut names nothing. On a disk that is full the record is lost, and with
        it no more than time.
        """
        text = json.dumps(record, separators=(",", ":"))
        with suppress(OSError):
            # The record before may have been cut off.
            line = f"\n{zlib.crc32(text.encode()):08x} {text}\n"
            os.write(self._descriptor, line.encode())
        hit("note_written")

    def lock(self) -> None:
        """Shows others that its writer lives."""
        locked(self._descriptor)

    def close(self) -> None:
        """No more is added; twice does no harm."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def has_writer(path: str) -> bool:
    """Whether whoever locked a journal still lives. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return not locked(descriptor)
    finally:
        os.close(descriptor)


def records(path: str) -> Iterator[dict[str, Any]]:
    """The records of a journal; a line that was cut off or damaged is none."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return
    for line in lines:
        told, _, text = line.partition(b" ")
        if told != f"{zlib.crc32(text):08x}".encode():
            continue
        record = json.loads(text)
        if isinstance(record, dict):
            yield record
