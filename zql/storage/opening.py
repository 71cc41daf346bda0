"""Files as code of the user's takes them, unpacked: a local path, or a stream of bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from zql.schema import InputFile
from zql.storage import compression
from zql.storage.compression import Compression
from zql.storage.files import damaged, open_binary, protocol
from zql.storage.leftovers import temporary_prefix

_CHUNK = 1 << 20


@contextmanager
def as_path(file: InputFile, packed: Compression) -> Iterator[str]:
    """A local path of the unpacked bytes; a copy under the same name where that is needed."""
    if packed is compression.NONE and protocol(file.path) is None:
        yield file.local or file.path
        return
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix=temporary_prefix())
    try:
        name = os.path.basename(file.path)
        path = os.path.join(folder, name if packed is compression.NONE else _bare(name))
        with open(path, "wb") as copy, as_stream(file, packed) as stream:
            shutil.copyfileobj(stream, copy, _CHUNK)
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bare(name: str) -> str:
    return compression.strip_suffix(name) or name


@contextmanager
def as_stream(file: InputFile, packed: Compression) -> Iterator[IO[bytes]]:
    """The unpacked bytes; reading raises `StorageError` where they are damaged."""
    with open_binary(file) as stored:
        if packed is compression.NONE:
            yield stored
            return
        with io.BufferedReader(_Unpacked(file, stored, packed), _CHUNK) as stream:
            yield cast("IO[bytes]", stream)


@contextmanager
def as_target(path: str, packed: Compression, level: int | None) -> Iterator[IO[bytes]]:
    """A stream to a new file, which packs what is written to it."""
    with open(path, "wb") as file:
        if packed is compression.NONE:
            yield file
            return
        with io.BufferedWriter(_Packing(compression.writer(file, packed, level)), _CHUNK) as stream:
            yield cast("IO[bytes]", stream)


class _Packing(io.RawIOBase):
    """A stream around a `PackedWriter`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._inner.write(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


class _Unpacked(io.RawIOBase):
    """A stream whose errors name the file."""

    def __init__(self, file: InputFile, stored: IO[bytes], packed: Compression) -> None:
        self._file = file
        self._packed = packed
        self._inner = compression.reader(stored, packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except Exception as error:  # noqa: BLE001  each library has its own
            raise damaged(self._file, self._packed, error) from None
        buffer[: len(data)] = data
        return len(data)
