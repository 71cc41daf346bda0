"""Whether packed files are whole: DuckDB reads damaged gzip and cut zstd files without a word.

A gzip file is unpacked once to compare its checksums; of a zstd file the lengths of its blocks are
followed to the end (it seldom has checksums, and DuckDB compares those). What was found is kept in
the schema cache, so that each version of a file is looked at once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from zql.errors import StorageError
from zql.schema import InputFile
from zql.storage import compression, schema_cache
from zql.storage.remote import protocol, shown

_CHUNK = 1 << 20
_FRAME, _SKIPPABLE = 0xFD2FB528, 0x184D2A50
_RAW_SIZE = {0: 1, 1: 2, 2: 4, 3: 8}  # bytes of the content size, by its flag
_DICTIONARY_SIZE = {0: 0, 1: 1, 2: 2, 3: 4}


def check(inputs: Sequence[InputFile], option: str | None) -> None:
    """Raises `StorageError` for the first local gzip or zstd file that is damaged or cut off."""
    unknown = []
    for file in inputs:
        packed = compression.chosen(file.path, option)
        kinds = {compression.GZIP, compression.ZSTD}
        if packed in kinds and not protocol(file.path) and not _known(file, packed):
            unknown.append((file, packed))
    if len(unknown) == 1:
        _check_one(*unknown[0])
    elif unknown:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(unknown), os.cpu_count() or 1)) as pool:
            for _ in pool.map(_check_one, *zip(*unknown, strict=True)):
                pass
    for file, packed in unknown:
        reader = _reader(packed)
        schema_cache.save(file, reader, replace(schema_cache.load(file, reader), whole=True))


def _reader(packed: compression.Compression) -> str:
    return f"whole, {packed.name}"


def _known(file: InputFile, packed: compression.Compression) -> bool:
    return schema_cache.load(file, _reader(packed)).whole


def _check_one(file: InputFile, packed: compression.Compression) -> None:
    look = _check_gzip if packed is compression.GZIP else _check_zstd
    try:
        with open(file.path, "rb") as stream:
            problem = look(stream)
    except zlib.error as error:
        problem = str(error)
    except OSError as error:
        raise StorageError(f"cannot read {file.path}: {error.strerror}", code="R722") from None
    if problem:
        raise StorageError(
            f"{shown(file.path)} cannot be unpacked as {packed.name}: {problem}",
            code="R723",
            hint="the file is damaged or was cut off",
        )


def _check_gzip(stream: BinaryIO) -> str | None:
    unpacker = None
    while chunk := stream.read(_CHUNK):
        while chunk:
            if unpacker is None:
                chunk = chunk.lstrip(b"\0")  # members may be padded with zeros
                if not chunk:
                    break
                unpacker = zlib.decompressobj(wbits=31)
            unpacker.decompress(chunk)
            chunk = unpacker.unused_data
            if unpacker.eof:
                unpacker = None
    return None if unpacker is None else "it ends before its end"


def _check_zstd(stream: BinaryIO) -> str | None:
    size = os.fstat(stream.fileno()).st_size
    place = 0
    while place < size:
        stream.seek(place)
        head = stream.read(18)
        magic = int.from_bytes(head[:4], "little")
        if magic & 0xFFFFFFF0 == _SKIPPABLE:
            place += 8 + int.from_bytes(head[4:8], "little")
            continue
        if magic != _FRAME or len(head) < 6:
            return "no frame of zstd" if place == 0 else "what follows a frame is none"
        place += 5 + _header_size(head[4])
        last = False
        while not last:
            stream.seek(place)
            block = int.from_bytes(stream.read(3), "little")
            if place + 3 > size:
                return "it ends before its end"
            last = bool(block & 1)
            place += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        place += 4 if head[4] & 4 else 0
    return None if place == size else "it ends before its end"


def _header_size(descriptor: int) -> int:
    single = bool(descriptor & 0x20)
    flag = descriptor >> 6
    content = _RAW_SIZE[flag] if flag or single else 0
    return (0 if single else 1) + _DICTIONARY_SIZE[descriptor & 3] + content
