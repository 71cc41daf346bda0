"""Which files are meant: literal names, folders, and patterns, here and elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.schema import InputFile
from zql.storage import patterns, remote
from zql.storage.remote import Options, RemoteListing, protocol, shown, without_secrets


def local_path(path: str) -> str:
    """A local path without `file://` and with its `~/`; a remote path as it is."""
    if protocol(path) is None and remote.prefix(path):
        return path[len(remote.prefix(path)) :]
    return os.path.expanduser(path) if path.startswith("~/") else path


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
            raise UsageError(
                "an empty path", code="U622", hint="the folder itself is '.', all its files are '*'"
            )
        listing = listing_of(path, storage_options)
        endings = tuple(suffix.lower() for suffix in suffixes)
        try:
            matches = _expand_one(local_path(path), listing, endings)
        except (StorageError, UsageError):
            raise
        except Exception as error:  # noqa: BLE001  every driver has errors of its own
            raise unreadable(path, error) from None
        found |= {file.path: file for file in matches if file.path not in found}
    return list(found.values())


def _expand_one(path: str, listing: Listing, suffixes: tuple[str, ...]) -> list[InputFile]:
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
            raise not_found(alternative)
    if not found:
        raise StorageError(
            f"no file matches {shown(path)}", code="R721", hint=_where_looked(path, "[" in path)
        )
    return found


def _folder(path: str, listing: Listing, suffixes: tuple[str, ...]) -> list[InputFile]:
    found = _sorted(_under(path.rstrip("/") or "/", listing, "", suffixes))
    if not found:
        raise StorageError(
            f"no data file in the folder {shown(path)}",
            code="R721",
            hint="files whose names begin with . or _, or end as no format does, are passed over",
        )
    return found


def _glob(pattern: str, listing: Listing, suffixes: tuple[str, ...]) -> list[InputFile]:
    root, parts = listing.split(pattern)
    bare = suffixes if parts[-1] in {"*", "**"} else ()
    return _sorted(_walk(root, parts, listing, bare))


def _sorted(files: Iterator[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda f: os.fsencode(f.path))


def _walk(
    folder: str, parts: list[str], listing: Listing, suffixes: tuple[str, ...]
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
    folder: str, part: str, listing: Listing, suffixes: tuple[str, ...]
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
    folder: str, listing: Listing, part: str, suffixes: tuple[str, ...]
) -> Iterator[InputFile]:
    """All files at any depth; links to folders are not followed, so there are no loops."""
    yield from _matching(folder, part or "*", listing, suffixes)
    for name in listing.folders(folder):
        if not patterns.is_hidden(name) and not listing.is_link(listing.join(folder, name)):
            yield from _under(listing.join(folder, name), listing, part, suffixes)


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


Listing = _Local | RemoteListing


def listing_of(path: str, storage_options: Options | None = None) -> Listing:
    """The file system of a path, as folders and files."""
    return RemoteListing(path, storage_options) if protocol(path) else _Local()


def not_found(path: str) -> StorageError:
    """The error for a path where nothing is, with names beside it that are near."""
    found: tuple[str, ...] = ()
    if not protocol(path):
        with suppress(OSError):
            found = _near(path)
    return StorageError(
        f"{shown(path)} does not exist",
        code="R720",
        hint=did_you_mean(found) or _where_looked(path),
        candidates=found,
    )


def _near(path: str) -> tuple[str, ...]:
    """Paths beside one that is not there: like it but for its suffix, or like it before that."""
    folder, name = os.path.split(path)
    stem, dot, suffix = name.partition(".")
    there = [n.partition(".") for n in sorted(os.listdir(folder or "."))]
    other = [s + d + x for s, d, x in there if s == stem and stem and x != suffix]
    like = nearest(stem, [s for s, _, x in there if x == suffix])
    return tuple(os.path.join(folder, n) for n in [*(s + dot + suffix for s in like), *other][:3])


def _where_looked(path: str, escape: bool = False) -> str | None:
    """The hint for a path that leads nowhere."""
    if escape:
        return (
            f"[ begins a choice of characters; [[] is the bracket: {patterns.escape(shown(path))}"
        )
    return None if protocol(path) or os.path.isabs(path) else f"looked in {os.getcwd()}"


def unreadable(path: str, error: Exception) -> StorageError:
    """The error for a path that is there but cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"cannot read {shown(path)}: {without_secrets(reason)}", code="R722")
