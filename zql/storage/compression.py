"""The compressions of whole files: one table for reading and writing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, cast

from zql.errors import UsageError, did_you_mean, nearest
from zql.tree import node

if TYPE_CHECKING:
    from concurrent.futures import Future


@node
class Compression:
    """A compression: its name, the suffixes that tell it, and what DuckDB calls it.

    `duckdb` is None when DuckDB cannot read it: such files are unpacked to a temporary file first.
    """

    name: str
    suffixes: tuple[str, ...]
    duckdb: str | None


NONE = Compression("none", (), "none")
GZIP = Compression("gzip", (".gz",), "gzip")
ZSTD = Compression("zstd", (".zst", ".zstd"), "zstd")
XZ = Compression("xz", (".xz",), None)
BZIP2 = Compression("bzip2", (".bz2",), None)
COMPRESSIONS = (NONE, GZIP, ZSTD, XZ, BZIP2)

_SYNONYMS = {
    "": NONE, "uncompressed": NONE, "plain": NONE, "gz": GZIP, "zst": ZSTD, "lzma": XZ, "bz2": BZIP2
}  # fmt: skip
_NAMES = {c.name: c for c in COMPRESSIONS} | _SYNONYMS


def by_name(name: str) -> Compression:
    """The compression that an option names; `UsageError` when there is none."""
    found = _NAMES.get(name.lower())
    if found is None:
        names = tuple(c.name for c in COMPRESSIONS)
        guess = nearest(name, names)
        raise UsageError(
            f'unknown compression "{name}"',
            code="U620",
            hint=did_you_mean(guess) or "one of " + ", ".join(names),
            candidates=guess,
        )
    return found


def of_path(path: str) -> Compression:
    """The compression that the last suffix of a path tells; none when it tells nothing."""
    lower = path.lower()
    for compression in COMPRESSIONS:
        if lower.endswith(compression.suffixes):
            return compression
    return NONE


def strip_suffix(path: str) -> str:
    """The path without the suffix of its compression."""
    lower = path.lower()
    for compression in COMPRESSIONS:
        for suffix in compression.suffixes:
            if lower.endswith(suffix):
                return path[: -len(suffix)]
    return path


def chosen(path: str, option: str | None) -> Compression:
    """What an option says, or else the path; `auto` is the same as no option."""
    if option is None or option.lower() in {"auto", "auto_detect"}:
        return of_path(path)
    return by_name(option)


def reader(file: IO[bytes], compression: Compression) -> IO[bytes]:
    """A stream of the unpacked bytes, all members and frames.

    A file that is cut or damaged raises `EOFError`, `OSError` or `lzma.LZMAError` while it is read.
    """
    if compression is NONE:
        return file
    if compression is GZIP:
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=file, mode="rb"))
    if compression is XZ:
        import lzma

        return lzma.LZMAFile(file, "rb")
    if compression is BZIP2:
        import bz2

        return bz2.BZ2File(file, "rb")
    import pyarrow as pa

    # pyarrow's stream fails on a frame that does not end, which other readers take for the end.
    return cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


_LEVELS = {"gzip": (0, 9), "zstd": (1, 22), "xz": (0, 9), "bzip2": (1, 9)}


def check_level(compression: Compression, level: int | None) -> None:
    """Raises `UsageError` for a level that the compression does not have."""
    low, high = _LEVELS.get(compression.name, (0, 0))
    if level is not None and compression is not NONE and not low <= level <= high:
        raise UsageError(
            f'the option "compression_level" of {compression.name} goes from {low} to {high}, '
            f"not {level}",
            code="U635",
        )


def packer(compression: Compression, level: int | None = None) -> Callable[[bytes], bytes]:
    """A function that packs bytes into a member (frame, stream) of its own.

    Members one behind the other are a file of that compression. What is packed depends on nothing
    but the bytes: no name and no time is in it.
    """
    if compression is GZIP:
        import gzip

        return lambda data: gzip.compress(data, 6 if level is None else level, mtime=0)
    if compression is XZ:
        import lzma

        return lambda data: lzma.compress(data, preset=level)
    if compression is BZIP2:
        import bz2

        return lambda data: bz2.compress(data, 9 if level is None else level)
    import pyarrow as pa

    codec = pa.Codec("zstd", compression_level=3 if level is None else level)
    return lambda data: bytes(codec.compress(data, asbytes=True))


def writer(
    file: IO[bytes], compression: Compression, level: int | None = None
) -> IO[bytes] | PackedWriter:
    """What to write to so that `file` holds packed bytes; the file itself when there is no packing.

    Closing a `PackedWriter` writes the rest and leaves the file open.
    """
    return file if compression is NONE else PackedWriter(file, packer(compression, level))


class PackedWriter:
    """Packs blocks of a fixed size in threads of its own, and writes them in order.

    The blocks are members of their own, so the bytes do not depend on how the data came.
    """

    BLOCK = 4 << 20

    def __init__(self, file: IO[bytes], pack: Callable[[bytes], bytes]) -> None:
        from zql.storage.threads import Threads

        self._file = file
        self._pack = pack
        self._block = bytearray()
        self._threads = Threads()
        self._packed: deque[Future[bytes]] = deque()
        self._empty = True

    def write(self, data: bytes | memoryview) -> None:
        """Takes bytes; writes what is packed by now."""
        view = memoryview(data)
        while view:
            room = self.BLOCK - len(self._block)
            self._block += view[:room]
            view = view[room:]
            if len(self._block) == self.BLOCK:
                self._submit()

    def _submit(self) -> None:
        self._packed.append(self._threads.submit(self._pack, bytes(self._block)))
        self._block.clear()
        self._empty = False
        if self._threads.waiting(len(self._packed)):
            self._file.write(self._packed.popleft().result())

    def close(self) -> None:
        """Writes the rest; the file stays open. A file without bytes is one empty member."""
        try:
            if self._block or self._empty:
                self._submit()
            while self._packed:
                self._file.write(self._packed.popleft().result())
        finally:
            self._threads.close()

    def abandon(self) -> None:
        """Ends the threads; nothing more is written."""
        self._threads.close()
