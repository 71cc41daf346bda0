"""Checksums of finished files: CRC-32, as zip has it, at a fifth of a second for a gigabyte.

It finds what a disk, a full file system or a user did to a file. What a file is of stands in the
key under which it is kept.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from zql.execution.kept import KeptFile

_CHUNK = 1 << 20


def checksum(path: str) -> str:
    """The checksum of a file's bytes, as eight hexadecimal digits. Raises `OSError`."""
    found = 0
    buffer = memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found = zlib.crc32(buffer[:count], found)
    return f"{found:08x}"


def summed(file: KeptFile) -> KeptFile:
    """A file with its checksum; one that has it, or is none, as it is."""
    if file.checksum or not file.path:
        return file
    return replace(file, checksum=checksum(file.path))


def all_summed(files: Sequence[KeptFile], threads: int) -> tuple[KeptFile, ...]:
    """`summed` for several files, several at a time."""
    if len(files) < 2 or threads < 2:
        return tuple(map(summed, files))
    with ThreadPoolExecutor(threads) as pool:
        return tuple(pool.map(summed, files))


def is_whole(file: KeptFile) -> bool:
    """Whether a file is still what it was when it was finished."""
    if not file.path:
        return True
    try:
        return os.path.getsize(file.path) == file.bytes and checksum(file.path) == file.checksum
    except OSError:
        return False
