"""Finds the line behind DuckDB's refusal of a JSON Lines file.

DuckDB's own line numbers are near, not right: the lines around are looked at first, then all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from zql.errors import StorageError
from zql.schema import InputFile
from zql.storage import contract, failures, jsonl_read

_NEAR = re.compile(r"in line (\d+)")
_DUPLICATE = re.compile(r'has duplicate key "')
_AROUND = 8
NO_OBJECT = "a line of JSON that is no object"
Judge = Callable[[int, bytes], StorageError | None]


def explain(
    inputs: Sequence[InputFile], options: Mapping[str, Any], message: str
) -> StorageError | None:
    """The `StorageError` with file and line; None when the message is about something else."""
    if contract.MARK in message:
        return _broken_contract(inputs, options, message)
    if "maximum_object_size" in message:
        # DuckDB's buffers are twice as long.
        limit = 2 * max(int(options.get("max_line_bytes", 0)), jsonl_read.LINE_BYTES)
        return _find(inputs, options, message, lambda f: _too_long(f, limit))
    known = ("Malformed JSON", "JSON transform error", NO_OBJECT, "gzip", "zstd", "ZSTD", "GZIP")
    if not any(mark in message for mark in known):
        return None
    judge = _repeats if _DUPLICATE.search(message) else _malformed
    found = _find(inputs, options, message, judge)
    if found is None and "JSON transform error" in message:
        return _untransformed(inputs, message)
    return found


def what_is_wrong(file: InputFile, number: int, line: bytes) -> str:
    """Why DuckDB does not take a line as an object, in a few words."""
    for judge in (_malformed(file), _repeats(file)):
        found = judge(number, line)
        if found is not None:
            return found.message.removeprefix(failures.place(file, number))
    return f"no JSON: {failures.excerpt(line)}"


def _find(
    inputs: Sequence[InputFile],
    options: Mapping[str, Any],
    message: str,
    judge_of: Callable[[InputFile], Judge],
) -> StorageError | None:
    near = _NEAR.search(message)
    for file in failures.suspects(inputs, message):
        judge = judge_of(file)
        if near:
            first = max(int(near.group(1)) - _AROUND, 1)
            lines = islice(failures.unpacked_lines(file, options), first - 1, first + 2 * _AROUND)
            found = _first(judge, lines, first)
            if found:
                return found
        found = _first(judge, failures.unpacked_lines(file, options), 1)
        if found:
            return found
    return None


def _first(judge: Judge, lines: Iterable[bytes], start: int) -> StorageError | None:
    for number, line in enumerate(lines, start):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        found = judge(number, text) if text.strip() else None
        if found:
            return found
    return None


def _malformed(file: InputFile) -> Judge:
    def judge(number: int, line: bytes) -> StorageError | None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return failures.bad(
                file,
                number,
                f"no UTF-8 at byte {error.start + 1}: {failures.excerpt(line)}",
                hint=f"convert the file to UTF-8, or {_SKIP}",
            )
        try:
            found = json.loads(text)
        except RecursionError:
            return failures.bad(file, number, "nested too deeply")
        except ValueError as error:
            return _no_json(file, number, line, error)
        if not isinstance(found, dict):
            what = f"no JSON object but {_kind(found)}: {failures.excerpt(line)}"
            return failures.bad(file, number, what, hint=_ONE_OBJECT)
        if _lone_surrogate(text):
            what = f"half a surrogate pair, which is no character: {failures.excerpt(line)}"
            return failures.bad(file, number, what, hint=_SKIP)
        return None

    return judge


_ONE_OBJECT = "JSON Lines has one object on each line"
_SKIP = "pass over such lines: FROM '..' ON ERROR SKIP"


def _no_json(file: InputFile, number: int, line: bytes, error: ValueError) -> StorageError:
    start = line.strip()
    if number == 1 and start in {b"{", b"["}:
        what = f"no JSON on its own: {failures.excerpt(line)}"
        return failures.bad(
            file, number, what, hint=_ONE_OBJECT + "; this file spreads them over several"
        )
    reason = getattr(error, "msg", str(error))
    place = getattr(error, "colno", 0)
    if not line.endswith(b"\n"):
        return failures.bad(
            file,
            number,
            f"the last line is cut off: {failures.excerpt(line)}",
            hint="the file was not written to its end",
        )
    what = f"no JSON, column {place}: {reason}: {failures.excerpt(line)}"
    return failures.bad(file, number, what, hint=_SKIP)


def _lone_surrogate(text: str) -> bool:
    if "\\u" not in text and "\\U" not in text:
        return False
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"a {type(value).__name__}"


def _too_long(file: InputFile, limit: int) -> Judge:
    def judge(number: int, line: bytes) -> StorageError | None:
        if len(line) <= limit:
            return None
        return failures.bad(
            file,
            number,
            f"a line of {len(line)} bytes, more than the limit of {limit}",
            hint=f"read_json('..', max_line_bytes => {1 << len(line).bit_length()})",
        )

    return judge


def _repeats(file: InputFile) -> Judge:
    def judge(number: int, line: bytes) -> StorageError | None:
        repeated: list[str] = []

        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            names = [name for name, _ in items]
            repeated.extend(name for name in names if names.count(name) > 1)
            return dict(items)

        try:
            json.loads(line, object_pairs_hook=pairs)
        except (ValueError, RecursionError):
            return None
        if not repeated:
            return None
        what = f'the key "{repeated[0]}" twice in one object: {failures.excerpt(line)}'
        return failures.bad(file, number, what, hint=_SKIP)

    return judge


def _broken_contract(
    inputs: Sequence[InputFile], options: Mapping[str, Any], message: str
) -> StorageError:
    name, type_, value = contract.parts(message)
    what = f'column "{name}" holds {failures.excerpt(value.encode())}, which is no {type_}'
    hint = f'declare another type for "{name}" in columns => {{..}}, such as VARCHAR'

    def judge_of(file: InputFile) -> Judge:
        def judge(number: int, line: bytes) -> StorageError | None:
            try:
                found = json.loads(line)[name]
                wanted = json.loads(value)
            except (ValueError, KeyError, TypeError, RecursionError):
                return None
            same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
            return failures.bad(file, number, what, hint=hint) if same else None

        return judge

    found = _find(inputs, options, "", judge_of)
    return found or StorageError(what, code="R723", hint=hint)


def _untransformed(inputs: Sequence[InputFile], message: str) -> StorageError:
    reason = message.partition("JSON transform error")[2].split("\n")[0]
    near = _NEAR.search(message)
    named = failures.suspects(inputs, message)
    what = reason.rpartition(": ")[0].rpartition(", in line")[2].partition(": ")[2] or reason
    if len(named) == 1 and near:
        return failures.bad(named[0], int(near.group(1)), f"{what.strip()} (near this line)")
    return StorageError(f"JSON that does not fit its type{reason}", code="R723")
