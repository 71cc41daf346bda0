"""The compressions of whole files: one table for reading and writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any, cast

from zql.errors import UsageError, did_you_mean, nearest


@dataclass(frozen=True, slots=True)
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


def writer(file: Any, compression: Compression, level: int | None = None) -> Any:
    """A stream that packs what is written to it. The bytes depend on nothing but the data.

    Closing it does not close `file`.
    """
    if compression is GZIP:
        import gzip

        # No name and no time in the header: the same rows give the same bytes.
        return gzip.GzipFile(
            filename="", mode="wb", compresslevel=level or 6, fileobj=file, mtime=0
        )
    if compression is XZ:
        import lzma

        return lzma.LZMAFile(file, "wb", preset=level)
    if compression is BZIP2:
        import bz2

        return bz2.BZ2File(file, "wb", compresslevel=level or 9)
    import pyarrow as pa

    codec = pa.Codec("zstd", compression_level=level or 3)
    return pa.CompressedOutputStream(pa.PythonFile(_Unclosed(file), "w"), codec)


class _Unclosed:
    """A file that pyarrow may write to but not close."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.write = file.write
        self.flush = file.flush

    def close(self) -> None:
        """Leaves the file open."""
