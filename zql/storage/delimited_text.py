r"""Line ends of delimited text, made one kind where DuckDB's reader would stumble over several.

DuckDB decides by the first line end that it meets, inside of quotes too, and with a wrong one it
may lose rows without a word. So a file is looked through first: with only `\n`, or only `\r\n`, it
is read as it is; of others a copy is read, whose lines end in `\n` and whose values are unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from zql.errors import StorageError
from zql.schema import InputFile
from zql.storage import (
    compression,
    delimited_read,
    failures,
    files,
    packed_check,
    schema_cache,
)
from zql.storage.leftovers import temporary_prefix

_CHUNK = 1 << 22


@contextmanager
def readable(inputs: Sequence[InputFile], options: Mapping[str, Any]) -> Iterator[list[InputFile]]:
    """The inputs, with local stand-ins for those that cannot be read as they are."""
    packed_check.check(inputs, options.get("compression"))
    with ExitStack() as stack:
        found = []
        for file in inputs:
            packed = compression.chosen(file.path, options.get("compression"))
            if file.local:
                found.append(file)
            elif delimited_read.skips(options):
                local = stack.enter_context(_good_rows(file, options))
                found.append(replace(file, local=local))
            elif (
                packed.duckdb is None
                or not delimited_read.is_utf8(options)
                or _line_ends(file, packed) == "mixed"
            ):
                local = stack.enter_context(_stand_in(file, packed, options))
                found.append(replace(file, local=local))
            else:
                found.append(file)
        yield found


def _line_ends(file: InputFile, packed: compression.Compression) -> str:
    reader = f"line ends, {packed.name}"
    known = schema_cache.load(file, reader)
    if known.line_ends is None:
        known = replace(known, line_ends=_count(file, packed))
        schema_cache.save(file, reader, known)
    return known.line_ends or ""


def _count(file: InputFile, packed: compression.Compression) -> str:
    returns = feeds = both = 0
    before = b""
    for chunk in _chunks(file, packed):
        returns += chunk.count(b"\r")
        feeds += chunk.count(b"\n")
        if returns:
            both += chunk.count(b"\r\n") + (before == b"\r" and chunk[:1] == b"\n")
        before = chunk[-1:]
    if not returns:
        return "lf"
    return "crlf" if returns == feeds == both else "mixed"


def _chunks(file: InputFile, packed: compression.Compression) -> Iterator[bytes]:
    with files.open_binary(file) as stored:
        try:
            stream = compression.reader(stored, packed)
            while chunk := stream.read(_CHUNK):
                yield chunk
        except (OSError, EOFError, ValueError) as error:
            raise failures.not_unpacked(file, packed.name, error) from None
        except StorageError:
            raise
        except Exception as error:
            if type(error).__name__ not in failures.UNPACKING_ERRORS:
                raise
            raise failures.not_unpacked(file, packed.name, error) from None


@contextmanager
def _good_rows(file: InputFile, options: Mapping[str, Any]) -> Iterator[str]:
    import tempfile

    from zql.storage import delimited_skipping

    descriptor, path = tempfile.mkstemp(prefix=temporary_prefix())
    os.close(descriptor)
    try:
        delimited_skipping.write_good_rows(file, options, path)
        yield path
    finally:
        os.unlink(path)


@contextmanager
def _stand_in(
    file: InputFile, packed: compression.Compression, options: Mapping[str, Any]
) -> Iterator[str]:
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix=temporary_prefix())
    try:
        with open(descriptor, "wb") as copy:
            data = b"".join(_chunks(file, packed))
            if not delimited_read.is_utf8(options):
                data = _in_utf8(file, data, delimited_read.encoding(options))
            copy.write(_mended(data, options))
        yield path
    finally:
        os.unlink(path)


def _in_utf8(file: InputFile, data: bytes, name: str) -> bytes:
    try:
        return data.decode(name).encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        what = f"no {name.upper()} at byte {error.start + 1} of the file"
        raise failures.bad(file, line, what, hint=delimited_read.ENCODING_HINT) from None


def _mended(data: bytes, options: Mapping[str, Any]) -> bytes:
    quote = re.escape(options["quote"].encode())
    if not quote:
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    escape = re.escape(options["escape"].encode()) or quote
    delimiter = re.escape(options["delimiter"].encode())
    inside = (
        b"[^%s%s]|%s." % (quote, escape, escape)
        if escape != quote
        else (b"[^%s]|%s%s" % (quote, quote, quote))
    )
    # A quoted value begins where a field begins; a quote elsewhere is a character like others.
    quoted = rb"(?:(?<=[\r\n]|%s)|\A(?:\xef\xbb\xbf)?)%s(?:%s)*%s" % (
        delimiter,
        quote,
        inside,
        quote,
    )
    pattern = re.compile(rb"(%s)|\r\n?" % quoted, re.DOTALL)
    return pattern.sub(lambda found: found.group(1) or b"\n", data)
