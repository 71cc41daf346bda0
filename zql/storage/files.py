"""Opening, unpacking and publishing files, here and elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import IO

from zql.errors import StorageError
from zql.failpoints import hit
from zql.schema import InputFile
from zql.storage import compression, remote
from zql.storage.leftovers import hidden_prefix, remove_stale, temporary_prefix
from zql.storage.listing import listing_of, local_path, not_found, unreadable
from zql.storage.remote import Options, filesystem, protocol, shown, without_secrets

__all__ = ["filesystem", "local_path", "protocol", "shown"]


def open_binary(file: InputFile) -> IO[bytes]:
    """A stream of the bytes of an input as they are stored; `StorageError` when there is none."""
    path = file.local or file.path
    try:
        if protocol(path):
            return remote.open_stream(path)
        return open(path, "rb")
    except FileNotFoundError:
        raise not_found(path) from None
    except OSError as error:
        raise unreadable(path, error) from None


_CHUNK = 1 << 20


def read_range(file: InputFile, start: int, stop: int) -> Iterator[bytes]:
    """The bytes `[start, stop)` in chunks; `StorageError` when they are not all there."""
    left = stop - start
    with open_binary(file) as stream:
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
def window(file: InputFile, start: int, stop: int) -> Iterator[str]:
    """A local path under which the bytes `[start, stop)` of an input can be read as a whole file.

    On Linux they are in memory, as long as the context lasts; else in a temporary file.
    """
    descriptor, path = _anonymous()
    try:
        with open(descriptor, "wb", closefd=False) as copy:
            copy.writelines(read_range(file, start, stop))
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

    return tempfile.mkstemp(prefix=temporary_prefix())


def count_lines(file: InputFile, stop: int) -> int:
    """The number of lines before byte `stop`, a line start, that hold more than white space."""
    import re

    perhaps_blank = re.compile(rb"\n[ \t\r\n]")
    blank = re.compile(rb"\n[ \t\r]*(?=\n)")
    count, before = 0, b"\n"
    for chunk in read_range(file, 0, stop):
        data = before + chunk
        count += chunk.count(b"\n")
        if perhaps_blank.search(data):
            count -= len(blank.findall(data))
        # What may be the beginning of a blank line is looked at again with what follows it.
        tail = data[data.rfind(b"\n") :]
        before = tail if tail.isspace() else b"x"
    return count


@contextmanager
def readable(inputs: Sequence[InputFile], options: Options) -> Iterator[list[InputFile]]:
    """The inputs with local stand-ins for those that DuckDB cannot read as they are stored.

    Raises `StorageError` for packed files that are damaged or cut off.
    """
    from zql.storage import packed_check

    packed_check.check(inputs, options.get("compression"))
    with ExitStack() as stack:
        found = []
        for file in inputs:
            packed = compression.chosen(file.path, options.get("compression"))
            if packed.duckdb is None:
                path = stack.enter_context(_unpacked(file, packed))
                file = replace(file, local=path)  # noqa: PLW2901
            found.append(file)
        yield found


@contextmanager
def _unpacked(file: InputFile, packed: compression.Compression) -> Iterator[str]:
    import shutil
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix=temporary_prefix())
    try:
        with open(descriptor, "wb") as copy, open_binary(file) as stored:
            try:
                shutil.copyfileobj(compression.reader(stored, packed), copy, _CHUNK)
            except Exception as error:  # noqa: BLE001  each library has its own
                raise damaged(file, packed, error) from None
        yield path
    finally:
        os.unlink(path)


def damaged(file: InputFile, packed: compression.Compression, error: Exception) -> StorageError:
    """The error for a file that cannot be unpacked."""
    return StorageError(
        f"{shown(file.path)} cannot be unpacked as {packed.name}: {error}",
        code="R723",
        hint="the file is damaged or was cut off",
    )


# ---- writing -----------------------------------------------------------------------------------


def staging_path(target: str) -> str:
    """A local path for a file that `publish` will give its name: beside a local target, so that
    the last step is a rename, under a name that readers pass over. Its folder is made.
    """
    path = local_path(target)
    if protocol(path):
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix=temporary_prefix())
        os.close(descriptor)
        return name
    folder = os.path.dirname(path)
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    return os.path.join(folder, f"{hidden_prefix()}{os.urandom(8).hex()}.tmp")


def publish(staged: str, target: str, storage_options: Options | None = None) -> int:
    """Gives a finished file its name, in one step, in place of what was there; its size in bytes.

    The file must have been synced. Raises `StorageError`; then the target is as it was.
    """
    return publish_all([(staged, target)], storage_options)[0]


def publish_all(
    pairs: Iterable[tuple[str, str]], storage_options: Options | None = None
) -> list[int]:
    """`publish` for pairs of a finished file and its name, in order; each folder is synced once."""
    folders: dict[str, str] = {}
    sizes = []
    for staged, target in pairs:
        try:
            sizes.append(os.path.getsize(staged))
            hit("before_rename")
            folder = _name(staged, local_path(target), storage_options)
            hit("after_rename")
        except StorageError:
            discard(staged)
            raise
        except Exception as error:  # noqa: BLE001  every driver has errors of its own
            discard(staged)
            raise unwritable(target, error) from None
        if folder is not None:
            folders[folder] = target
    for folder, target in folders.items():
        try:
            _sync_folder(folder)
        except OSError as error:
            raise unwritable(target, error) from None
    return sizes


def _name(staged: str, path: str, storage_options: Options | None) -> str | None:
    """Moves a file to its place; the local folder that must be synced."""
    if protocol(path):
        filesystem(path, storage_options).put_file(staged, path)
        os.unlink(staged)
        return None
    # A link stays one: what it points to gets the new content.
    path = os.path.realpath(path) if os.path.islink(path) else path
    if os.path.exists(path):
        os.chmod(staged, stat.S_IMODE(os.stat(path).st_mode))
    _replace(staged, path)
    return os.path.dirname(path)


def _replace(staged: str, path: str) -> None:
    """`os.replace`, also from another file system: then by way of a copy beside the target."""
    try:
        os.replace(staged, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        import shutil

        beside = staging_path(path)
        try:
            shutil.copy2(staged, beside)
            with open(beside, "rb") as file:
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            discard(beside)
            raise
        os.unlink(staged)


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
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason = "it is a file, and a folder is needed there"
    return StorageError(f"cannot write {shown(path)}: {without_secrets(reason)}", code="R727")


def write_whole(target: str, data: bytes, storage_options: Options | None = None) -> None:
    """Writes a small file in one step, in place of what was there."""
    staged = staging_path(target)
    if protocol(local_path(target)) is None:
        remove_stale(os.path.dirname(staged))
    try:
        with open(staged, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hit("text_written")
    except OSError as error:
        discard(staged)
        raise unwritable(target, error) from None
    publish(staged, target, storage_options)


def read_whole(path: str, storage_options: Options | None = None) -> bytes | None:
    """A small file; None when there is none."""
    found = stat_file(path, storage_options)
    if found is None:
        return None
    with open_binary(found) as stream:
        return stream.read()


def stat_file(path: str, storage_options: Options | None = None) -> InputFile | None:
    """The file of exactly this path; None when there is none, or it is a folder."""
    path = local_path(path)
    listing = listing_of(path, storage_options)
    found = listing.stat(path)
    return None if found is None or listing.is_folder(path) else found


def list_folder(folder: str, storage_options: Options | None = None) -> list[InputFile]:
    """All files right in a folder, hidden ones too, in byte order; none when it is not there."""
    path = local_path(folder)
    listed = listing_of(path, storage_options).files(path)
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
