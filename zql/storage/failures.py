"""What the explanations of reading failures share: which file, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zql.errors import StorageError
from zql.schema import InputFile
from zql.storage import compression, files

_SHOWN = 80
UNPACKING_ERRORS = ("LZMAError", "error", "ArrowException", "ArrowInvalid")
"""Names of the errors of libraries that unpack, which are not imported for that."""


def suspects(inputs: Sequence[InputFile], message: str) -> list[InputFile]:
    """The files that a message of DuckDB names; all of them when it names none."""
    named = [f for f in inputs if f'"{f.path}"' in message or f"'{f.path}'" in message]
    named = named or [f for f in inputs if f.local and f.local in message]
    return named or [f for f in inputs if f.path in message] or list(inputs)


def unpacked_lines(file: InputFile, options: Mapping[str, Any]) -> Iterator[bytes]:
    """The lines of a file with their ends; `StorageError` when it cannot be unpacked."""
    packed = compression.chosen(file.path, options.get("compression"))
    original = InputFile(file.path, file.size, file.version)
    with files.open_binary(original) as stored:
        try:
            stream = compression.reader(stored, packed)
            yield from stream
        except (OSError, EOFError, ValueError) as error:
            raise not_unpacked(file, packed.name, error) from None
        except Exception as error:
            if type(error).__name__ not in UNPACKING_ERRORS:
                raise
            raise not_unpacked(file, packed.name, error) from None


def not_unpacked(file: InputFile, name: str, error: Exception) -> StorageError:
    """The error for packed bytes that are damaged or end too early."""
    return StorageError(
        f"{files.shown(file.path)} cannot be unpacked as {name}: {error}",
        code="R723",
        hint="the file is damaged or was cut off",
    )


def bad(file: InputFile, line: int, what: str, *, hint: str | None = None) -> StorageError:
    """The error for a line (from 1) of a file."""
    return StorageError(f"{place(file, line)}{what}", code="R723", hint=hint)


def place(file: InputFile, line: int) -> str:
    """What such an error begins with."""
    return f"{files.shown(file.path)}, line {line}: "


def excerpt(line: bytes) -> str:
    """The beginning of a line, fit for a message."""
    text = line[: _SHOWN * 4].decode(errors="backslashreplace").rstrip("\r\n")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
