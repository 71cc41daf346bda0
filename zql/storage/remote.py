"""Files elsewhere. The only module that knows fsspec, and it imports it only when it is needed."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

from zql.errors import StorageError
from zql.schema import InputFile

_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_USER = re.compile(r"(://)[^/@]*@")
_READ_AHEAD = 4 << 20
_PACKAGES = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure",
             "az": "azure", "hf": "hf"}  # fmt: skip
Options = Mapping[str, Any]

_options: dict[str, dict[str, Any]] = {}
"""The last options that were given for each protocol: they are not in plans, being secrets."""


def protocol(path: str) -> str | None:
    """`s3`, `https`, ... of a remote path in lower case; None for a local one."""
    found = _PROTOCOL.match(path)
    if not found or found.group(1).lower() in {"file", "local"}:
        return None
    return found.group(1).lower()


def key(path: str) -> str:
    """A path as DuckDB may spell it, made one spelling: `memory://a` and `memory:///a` are one."""
    found = prefix(path)
    return found + path[len(found) :].lstrip("/") if protocol(path) else path


def prefix(path: str) -> str:
    """The protocol of a path with its `://`; empty when there is none."""
    found = _PROTOCOL.match(path)
    return found.group() if found else ""


def shown(path: str) -> str:
    """A path for people: without user, password and query, which may be secrets."""
    if protocol(path) is None:
        return path
    return _USER.sub(r"\1", path).partition("?")[0]


def without_secrets(text: str) -> str:
    """A driver's message with its addresses as `shown` has them."""
    return re.sub(r"\w+://\S+", lambda m: shown(m.group()), text)


def filesystem(path: str, options: Options | None = None) -> Any:
    """The fsspec file system of a remote path; `StorageError` when it has no driver.

    Without options those that were given last for the protocol are used.
    """
    import fsspec

    name = protocol(path) or "file"
    if options:
        _options[name] = dict(options)
    try:
        return fsspec.filesystem(name, **_options.get(name, {}))
    except (ImportError, ValueError) as error:
        package = _PACKAGES.get(name)
        raise StorageError(
            f"cannot read {shown(path)}: {without_secrets(str(error))}",
            code="R725",
            hint=f"install zql[{package}]" if package else None,
        ) from None


def open_stream(path: str) -> IO[bytes]:
    """A file as a stream of bytes."""
    return cast("IO[bytes]", filesystem(path).open(path, "rb"))


def read_range(path: str, start: int, stop: int) -> bytes:
    """Some bytes of a file, by one request."""
    return cast("bytes", filesystem(path).cat_file(path, start=start, end=stop))


class RemoteListing:
    """Folders and files of one file system; paths keep their protocol."""

    def __init__(self, path: str, options: Options | None) -> None:
        self._system = filesystem(path, options)
        self._prefix = prefix(path)

    def stat(self, path: str) -> InputFile | None:
        """The file or folder of a path; None when there is none."""
        try:
            return self._file(path, self._system.info(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _file(self, path: str, info: Mapping[str, Any]) -> InputFile:
        keys = ("ETag", "etag", "md5Hash", "LastModified", "mtime", "updated", "created")
        version = next((info[key] for key in keys if info.get(key)), "")
        stamp = version.timestamp() if hasattr(version, "timestamp") else version
        return InputFile(path, int(info.get("size") or 0), str(stamp).strip('"'))

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder, or a prefix of objects."""
        return bool(self._system.isdir(path))

    def is_link(self, path: str) -> bool:  # noqa: ARG002
        """Whether a folder is a link: never here."""
        return False

    def split(self, pattern: str) -> tuple[str, list[str]]:
        """Where a pattern starts to be one, and its parts from there on."""
        root, _, tail = pattern[len(self._prefix) :].partition("/")
        return self._prefix + root, [p for p in tail.split("/") if p] or ["*"]

    def join(self, folder: str, name: str) -> str:
        """A name inside of a folder."""
        return folder + name if folder.endswith("/") else f"{folder}/{name}"

    def _entries(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        try:
            found = self._system.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        own = str(self._system._strip_protocol(folder)).strip("/")  # noqa: SLF001
        # Some stores list a folder among its own entries.
        inside = [e for e in found if str(e["name"]).strip("/") != own]
        named = [(str(e["name"]).rstrip("/").rpartition("/")[2], e) for e in inside]
        return sorted(named, key=lambda n: os.fsencode(n[0]))

    def folders(self, folder: str) -> list[str]:
        """Names of the folders right in a folder."""
        return [name for name, e in self._entries(folder) if e["type"] == "directory"]

    def files(self, folder: str) -> Iterator[tuple[str, InputFile]]:
        """Names of the files right in a folder, and the files."""
        for name, entry in self._entries(folder):
            if entry["type"] == "file":
                yield name, self._file(self.join(folder, name), entry)


class _Handle:
    """A file open for reading by many threads.

    DuckDB reads in two ways: it seeks and reads at once in one thread, while others do the same, or
    it reads on from where the last read ended, whatever thread that was in. So a `seek` counts for
    the next read of its own thread first; a read of a thread that did not seek goes on. Threads are
    told by their number: DuckDB's have no thread-local storage that lasts.
    """

    def __init__(self, system: Any, path: str, size: int) -> None:
        self._system = system
        self._path = path
        self.size = size
        self._lock = threading.Lock()
        self._place = 0
        self._sought: dict[int, int] = {}
        self._ahead = (0, b"")

    def seek(self, offset: int, whence: int = 0) -> int:
        """Where the next read of the calling thread begins."""
        with self._lock:
            place = (0, self._place, self.size)[whence] + offset
            self._place = self._sought[threading.get_ident()] = place
        return place

    def tell(self) -> int:
        """Where the next read of the calling thread begins."""
        return self._sought.get(threading.get_ident(), self._place)

    def read(self, size: int = -1) -> bytes:
        """The next bytes; fewer than asked at the end of the file only."""
        with self._lock:
            start = self._sought.pop(threading.get_ident(), None)
            goes_on = start is None
            if start is None:
                start = self._place
                self._sought.clear()
            stop = self.size if size < 0 else min(start + size, self.size)
            self._place = max(start, stop)
            first, data = self._ahead
        if stop <= start:
            return b""
        if first <= start <= stop <= first + len(data):
            return data[start - first : stop - first]
        # Who reads on will do so again: take more than was asked for.
        wanted = max(stop, min(start + _READ_AHEAD, self.size)) if goes_on else stop
        data = self._fetched(start, wanted)
        if goes_on:
            self._ahead = start, data
        return data[: stop - start]

    def _fetched(self, start: int, stop: int) -> bytes:
        data = bytes(self._system.cat_file(self._path, start=start, end=stop))
        if len(data) != stop - start:
            raise OSError(f"{shown(self._path)}: {stop - start} bytes asked, {len(data)} came")
        return data

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Lets go of what was read ahead."""
        self._ahead = (0, b"")

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def thread_safe(system: Any) -> Any:
    """A file system that many threads of DuckDB may use at once, around one that they may not."""
    import fsspec

    class ThreadSafe(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """Reads by ranges without a shared place; the rest is the other's."""

        protocol = system.protocol
        cachable = False

        def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
            if mode != "rb":
                return system.open(path, mode, **kwargs)
            return _Handle(system, path, int(system.info(path)["size"]))

        def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
            return self._open(path, mode, **kwargs)

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            # DuckDB asks for folders that are not made yet.
            try:
                return system.ls(path, detail=detail, **kwargs)
            except FileNotFoundError:
                return []

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            return system._strip_protocol(path)  # noqa: SLF001

        def __getattribute__(self, name: str) -> Any:
            own = {"open", "_open", "ls", "protocol", "__class__", "_strip_protocol"}
            if name in own or name.startswith("__"):
                return object.__getattribute__(self, name)
            return getattr(system, name)

    return ThreadSafe()
