"""Files here and elsewhere: listing, opening, fetching, publishing.

The only module that knows fsspec, and it imports it only for paths that are not local.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import IO, Any, cast

from zql.errors import StorageError, UsageError
from zql.schema import InputFile
from zql.storage import compression, patterns

_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_USER = re.compile(r"(://)[^/@]*@")
Options = Mapping[str, Any]


def protocol(path: str) -> str | None:
    """`s3`, `https`, ... of a remote path in lower case; None for a local one."""
    found = _PROTOCOL.match(path)
    if not found or found.group(1).lower() in {"file", "local"}:
        return None
    return found.group(1).lower()


def local_path(path: str) -> str:
    """A local path without `file://` and with its `~/`; a remote path as it is."""
    found = _PROTOCOL.match(path)
    if found and protocol(path) is None:
        return path[found.end() :]
    return os.path.expanduser(path) if path.startswith("~/") else path


def shown(path: str) -> str:
    """A path for people: without user, password and query, which may be secrets."""
    if protocol(path) is None:
        return path
    return _USER.sub(r"\1", path).partition("?")[0]


def filesystem(path: str, options: Options | None = None) -> Any:
    """The fsspec file system of a remote path; `StorageError` when it has no driver."""
    import fsspec

    name = protocol(path)
    try:
        return fsspec.filesystem(name, **dict(options or {}))
    except (ImportError, ValueError) as error:
        raise StorageError(
            f"cannot read {shown(path)}: {error}",
            code="R725",
            hint=f'the protocol "{name}" may need a package, such as zql[s3] for s3://',
        ) from None


def expand(
    paths: Sequence[str], *, suffixes: Sequence[str] = (), storage_options: Options | None = None
) -> list[InputFile]:
    """The files behind paths, patterns and folders: of each in byte order, no file twice.

    Of each path: a file of that very name comes first; then braces, then glob characters are
    expanded. A folder stands for all the files in it. Names that begin with `.` or `_` are passed
    over unless the pattern names them; where a pattern ends in a bare `*` or `**`, or is a folder,
    so are names that end in none of `suffixes` (when these are given). Raises `StorageError` for
    what is not found, not readable, or a pattern without a match.
    """
    found: dict[str, InputFile] = {}
    for path in paths:
        if not path:
            raise UsageError("an empty path", code="U622")
        listing = _listing(path, storage_options)
        for file in _expand_one(local_path(path), listing, tuple(s.lower() for s in suffixes)):
            found.setdefault(file.path, file)
    return list(found.values())


def _expand_one(path: str, listing: _Local | _Remote, suffixes: tuple[str, ...]) -> list[InputFile]:
    file = listing.stat(path)
    if file is not None:
        return [file] if not listing.is_folder(path) else _folder(path, listing, suffixes)
    alternatives = patterns.expand_braces(path)
    found: list[InputFile] = []
    for alternative in alternatives:
        one = listing.stat(alternative) if alternative != path else None
        if one is not None:
            inside = listing.is_folder(alternative)
            found += _folder(alternative, listing, suffixes) if inside else [one]
        elif patterns.has_magic(alternative):
            found += _glob(alternative, listing, suffixes)
        else:
            raise _not_found(alternative)
    if not found:
        raise StorageError(
            f"no file matches {shown(path)}",
            code="R721",
            hint="to name a file with one of * ? [ in its name that other files match too, "
            f"escape the character with brackets: {patterns.escape(shown(path))}",
        )
    return found


def _folder(path: str, listing: _Local | _Remote, suffixes: tuple[str, ...]) -> list[InputFile]:
    found = _sorted(_under(path.rstrip("/") or "/", listing, "", suffixes))
    if not found:
        raise StorageError(f"no data file in the folder {shown(path)}", code="R721")
    return found


def _glob(pattern: str, listing: _Local | _Remote, suffixes: tuple[str, ...]) -> list[InputFile]:
    root, parts = listing.split(pattern)
    bare = suffixes if parts[-1] in {"*", "**"} else ()
    return _sorted(_walk(root, parts, listing, bare))


def _sorted(files: Iterator[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda f: os.fsencode(f.path))


def _walk(
    folder: str, parts: list[str], listing: _Local | _Remote, suffixes: tuple[str, ...]
) -> Iterator[InputFile]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        while rest[:1] == ["**"]:
            rest = rest[1:]
        if not rest:
            yield from _under(folder, listing, "", suffixes)
            return
        yield from _walk(folder, rest, listing, suffixes)
        for name in listing.folders(folder):
            if not patterns.is_hidden(name) and not listing.is_link(listing.join(folder, name)):
                yield from _walk(listing.join(folder, name), parts, listing, suffixes)
    elif not rest:
        yield from _matching(folder, part, listing, suffixes)
    elif not patterns.has_magic(part):
        yield from _walk(listing.join(folder, part), rest, listing, suffixes)
    else:
        matches = patterns.name_matcher(part).fullmatch
        for name in listing.folders(folder):
            if matches(name) and not patterns.is_hidden(name, part):
                yield from _walk(listing.join(folder, name), rest, listing, suffixes)


def _matching(
    folder: str, part: str, listing: _Local | _Remote, suffixes: tuple[str, ...]
) -> Iterator[InputFile]:
    if not patterns.has_magic(part):
        file = listing.stat(listing.join(folder, part))
        if file is not None and not listing.is_folder(file.path):
            yield file
        return
    matches = patterns.name_matcher(part).fullmatch
    for name, file in listing.files(folder):
        wanted = not suffixes or name.lower().endswith(suffixes)
        if wanted and matches(name) and not patterns.is_hidden(name, part):
            yield file


def _under(
    folder: str, listing: _Local | _Remote, part: str, suffixes: tuple[str, ...]
) -> Iterator[InputFile]:
    """All files at any depth; links to folders are not followed, so there are no loops."""
    yield from _matching(folder, part or "*", listing, suffixes)
    for name in listing.folders(folder):
        if not patterns.is_hidden(name) and not listing.is_link(listing.join(folder, name)):
            yield from _under(listing.join(folder, name), listing, part, suffixes)


def _not_found(path: str) -> StorageError:
    return StorageError(
        f"{shown(path)} does not exist",
        code="R720",
        hint=None if protocol(path) or os.path.isabs(path) else f"looked in {os.getcwd()}",
    )


class _Local:
    """The file system of this machine."""

    def stat(self, path: str) -> InputFile | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from None
        return self._file(path, found)

    def _file(self, path: str, found: os.stat_result) -> InputFile:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise StorageError(
                f"the name of {os.fsencode(path)!r} is no UTF-8",
                code="R722",
                hint="rename the file",
            ) from None
        return InputFile(path, found.st_size, str(found.st_mtime_ns))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def split(self, pattern: str) -> tuple[str, list[str]]:
        """Where a pattern starts to be one, and its parts from there on."""
        parts = [p for p in pattern.split("/") if p]
        return ("/" if pattern.startswith("/") else ""), parts

    def join(self, folder: str, name: str) -> str:
        return os.path.join(folder, name)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder or ".") as entries:
                return sorted(entries, key=lambda e: os.fsencode(e.name))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise unreadable(folder, error) from None

    def folders(self, folder: str) -> list[str]:
        return [e.name for e in self._entries(folder) if e.is_dir()]

    def files(self, folder: str) -> Iterator[tuple[str, InputFile]]:
        for entry in self._entries(folder):
            try:
                found = entry.stat()
            except FileNotFoundError:  # a link to nothing, or a file just removed
                continue
            if stat.S_ISREG(found.st_mode):
                yield entry.name, self._file(os.path.join(folder, entry.name), found)


class _Remote:
    """A file system of fsspec; its paths keep their protocol."""

    def __init__(self, path: str, options: Options | None) -> None:
        self.system = filesystem(path, options)
        found = _PROTOCOL.match(path)
        self.prefix = found.group() if found else ""

    def stat(self, path: str) -> InputFile | None:
        # Objects may have any name, but one that is a pattern is seldom meant as itself.
        try:
            info = self.system.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:  # noqa: BLE001  every driver has errors of its own
            raise unreadable(path, error) from None
        return self._file(path, info)

    def _file(self, path: str, info: Mapping[str, Any]) -> InputFile:
        version = next(
            (str(info[k]) for k in ("ETag", "etag", "LastModified", "mtime", "updated", "created")
             if info.get(k)), ""
        )  # fmt: skip
        return InputFile(path, int(info.get("size") or 0), version.strip('"'))

    def is_folder(self, path: str) -> bool:
        return bool(self.system.isdir(path))

    def is_link(self, path: str) -> bool:  # noqa: ARG002
        return False

    def split(self, pattern: str) -> tuple[str, list[str]]:
        rest = pattern[len(self.prefix) :]
        root, _, tail = rest.partition("/")
        if not root:  # memory:///a
            return self.prefix, [p for p in tail.split("/") if p]
        return self.prefix + root, [p for p in tail.split("/") if p] or ["*"]

    def join(self, folder: str, name: str) -> str:
        return folder + name if folder.endswith("/") else f"{folder}/{name}"

    def _entries(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        try:
            found = self.system.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:  # noqa: BLE001
            raise unreadable(folder, error) from None
        own = str(self.system._strip_protocol(folder)).strip("/")  # noqa: SLF001
        # Some stores list a folder among its own entries.
        inside = [e for e in found if str(e["name"]).strip("/") != own]
        named = [(str(e["name"]).rstrip("/").rpartition("/")[2], e) for e in inside]
        return sorted(named, key=lambda n: n[0])

    def folders(self, folder: str) -> list[str]:
        return [name for name, e in self._entries(folder) if e["type"] == "directory"]

    def files(self, folder: str) -> Iterator[tuple[str, InputFile]]:
        for name, entry in self._entries(folder):
            if entry["type"] == "file":
                yield name, self._file(self.join(folder, name), entry)


def unreadable(path: str, error: Exception) -> StorageError:
    """The error for a path that is there but cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"cannot read {shown(path)}: {_clean(reason)}", code="R722")


def _clean(text: str) -> str:
    """A driver's message without the addresses in it, which may hold secrets."""
    return re.sub(r"\w+://\S+", lambda m: shown(m.group()), text)


def open_binary(file: InputFile, storage_options: Options | None = None) -> IO[bytes]:
    """A stream of the bytes of an input as they are stored; `StorageError` when there is none."""
    path = file.local or file.path
    try:
        if protocol(path):
            return cast("IO[bytes]", filesystem(path, storage_options).open(path, "rb"))
        return open(path, "rb")
    except FileNotFoundError:
        raise _not_found(path) from None
    except OSError as error:
        raise unreadable(path, error) from None


_CHUNK = 1 << 20


def read_range(
    file: InputFile, start: int, stop: int, storage_options: Options | None = None
) -> Iterator[bytes]:
    """The bytes `[start, stop)` in chunks; `StorageError` when they are not all there."""
    left = stop - start
    with open_binary(file, storage_options) as stream:
        stream.seek(start)
        while left:
            chunk = stream.read(min(left, _CHUNK))
            if not chunk:
                raise StorageError(
                    f"{shown(file.path)} became shorter while it was read", code="R722"
                )
            left -= len(chunk)
            yield chunk


@contextmanager
def window(
    file: InputFile, start: int, stop: int, storage_options: Options | None = None
) -> Iterator[str]:
    """A local path under which the bytes `[start, stop)` of an input can be read as a whole file.

    On Linux they are in memory, as long as the context lasts; else in a temporary file.
    """
    descriptor, path = _anonymous()
    try:
        with open(descriptor, "wb", closefd=False) as copy:
            copy.writelines(read_range(file, start, stop, storage_options))
        yield path
    finally:
        os.close(descriptor)
        if not path.startswith("/proc/"):
            os.unlink(path)


def _anonymous() -> tuple[int, str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("zql", os.MFD_CLOEXEC)
        return descriptor, f"/proc/self/fd/{descriptor}"
    import tempfile

    return tempfile.mkstemp(prefix="zql-")


def count_lines(file: InputFile, stop: int, storage_options: Options | None = None) -> int:
    """The number of lines before byte `stop` that hold more than white space."""
    count, rest = 0, b""
    for chunk in read_range(file, 0, stop, storage_options):
        *lines, rest = (rest + chunk).split(b"\n")
        count += sum(not line.isspace() and line != b"" for line in lines)
    return count + (rest.strip() != b"")


@contextmanager
def readable(
    inputs: Sequence[InputFile], options: Options, storage_options: Options | None = None
) -> Iterator[list[InputFile]]:
    """The inputs with local stand-ins for those that DuckDB cannot read as they are stored."""
    with ExitStack() as stack:
        found = []
        for file in inputs:
            packed = compression.chosen(file.path, options.get("compression"))
            if packed.duckdb is None:
                path = stack.enter_context(_unpacked(file, packed, storage_options))
                file = replace(file, local=path)  # noqa: PLW2901
            found.append(file)
        yield found


@contextmanager
def _unpacked(
    file: InputFile, packed: compression.Compression, storage_options: Options | None
) -> Iterator[str]:
    import shutil
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="zql-")
    try:
        with open(descriptor, "wb") as copy, open_binary(file, storage_options) as stored:
            try:
                shutil.copyfileobj(compression.reader(stored, packed), copy, _CHUNK)
            except Exception as error:  # noqa: BLE001  each library has its own
                raise StorageError(
                    f"{shown(file.path)} cannot be unpacked as {packed.name}: {error}",
                    code="R723",
                    hint="the file is damaged or was cut off",
                ) from None
        yield path
    finally:
        os.unlink(path)


# ---- writing -----------------------------------------------------------------------------------


def staging_path(target: str) -> str:
    """A local path for a file that `publish` will give its name: beside a local target, so that
    the last step is a rename, under a name that readers pass over. Its folder is made.
    """
    path = local_path(target)
    if protocol(path):
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix="zql-")
        os.close(descriptor)
        return name
    folder = os.path.dirname(path)
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    return os.path.join(folder, f".zql-{os.urandom(8).hex()}.tmp")


def publish(staged: str, target: str, storage_options: Options | None = None) -> int:
    """Gives a finished file its name, in one step, in place of what was there; its size in bytes.

    The file must have been synced. Raises `StorageError`; then the target is as it was.
    """
    path = local_path(target)
    try:
        size = os.path.getsize(staged)
        if protocol(path):
            filesystem(path, storage_options).put_file(staged, path)
            os.unlink(staged)
        else:
            os.replace(staged, path)
            _sync_folder(os.path.dirname(path))
    except StorageError:
        discard(staged)
        raise
    except Exception as error:  # noqa: BLE001  every driver has errors of its own
        discard(staged)
        raise unwritable(target, error) from None
    return size


def discard(staged: str) -> None:
    """Removes a file that will not be published; none is no error."""
    with suppress(FileNotFoundError):
        os.unlink(staged)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(path: str, error: Exception) -> StorageError:
    """The error for a path that cannot be written."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"cannot write {shown(path)}: {_clean(reason)}", code="R727")


def write_whole(target: str, data: bytes, storage_options: Options | None = None) -> None:
    """Writes a small file in one step, in place of what was there."""
    staged = staging_path(target)
    try:
        with open(staged, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        discard(staged)
        raise unwritable(target, error) from None
    publish(staged, target, storage_options)


def read_whole(path: str, storage_options: Options | None = None) -> bytes | None:
    """A small file; None when there is none."""
    found = stat_file(path, storage_options)
    if found is None:
        return None
    with open_binary(found, storage_options) as stream:
        return stream.read()


def stat_file(path: str, storage_options: Options | None = None) -> InputFile | None:
    """The file of exactly this path; None when there is none, or it is a folder."""
    path = local_path(path)
    listing = _listing(path, storage_options)
    found = listing.stat(path)
    return None if found is None or listing.is_folder(path) else found


def list_folder(folder: str, storage_options: Options | None = None) -> list[InputFile]:
    """All files right in a folder, hidden ones too, in byte order; none when it is not there."""
    path = local_path(folder)
    listed = _listing(path, storage_options).files(path)
    return sorted((f for _, f in listed), key=lambda f: os.fsencode(f.path))


def remove(path: str, storage_options: Options | None = None) -> None:
    """Removes a file; none is no error."""
    path = local_path(path)
    try:
        if protocol(path):
            filesystem(path, storage_options).rm_file(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except Exception as error:  # noqa: BLE001  every driver has errors of its own
        raise unwritable(path, error) from None


def _listing(path: str, storage_options: Options | None) -> _Local | _Remote:
    return _Remote(path, storage_options) if protocol(path) else _Local()
