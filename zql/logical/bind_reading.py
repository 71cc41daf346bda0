"""ON ERROR of readers: what becomes of rows of files that cannot be read by themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zql.errors import BindError, ZqlError
from zql.logical import plan as lp
from zql.logical.context import Context
from zql.logical.error_policies import FACTS_OF_LINES, check_fail, new_policy
from zql.source import Span
from zql.syntax import ast
from zql.tree import node

_LIMIT = re.compile(r"\s*[0-9]+(\.[0-9]+)?\s*(PERCENT|%)?\s*", re.IGNORECASE)


@node
class Reading:
    """Options for the format, and the clause when rows may be passed over."""

    options: Mapping[str, Any]
    clause: ast.OnError | None = None


def of_clause(clause: ast.OnError) -> Reading:
    """`FROM .. ON ERROR`. Raises `BindError`."""
    if clause.action == "FAIL":
        check_fail(clause)
        return Reading({})
    if clause.action == "NULL":
        raise BindError(
            "a line that cannot be read has no columns to put NULL into",
            code="P416",
            span=clause.span,
            hint="write ON ERROR SKIP: such a line gives nothing",
        )
    return Reading({"on_error": "skip"}, clause)


def of_options(
    options: Mapping[str, Any], spans: Mapping[str, Span | None], span: Span | None
) -> Reading:
    """`read_json(.., on_error => 'skip', rejects => 'uri', error_limit => n)`: the same clause."""
    given = {name.lower(): name for name in options}
    kept = {n: v for n, v in options.items() if n.lower() not in ("rejects", "error_limit")}
    into = options.get(given.get("rejects", ""))
    limit = options.get(given.get("error_limit", ""))
    action = options.get(given.get("on_error", ""))
    skips = isinstance(action, str) and action.lower() == "skip"
    for name, value in (("rejects", into), ("error_limit", limit)):
        if value is not None and not skips:
            raise BindError(
                f"the option \"{name}\" needs on_error => 'skip'",
                code="P416",
                span=spans.get(given[name]) or span,
                hint="without it the first row that cannot be read ends the run",
            )
    if not skips:
        return Reading(kept)
    if into is not None and not isinstance(into, str):
        raise _wrong("rejects", "a path as text", into, spans.get(given["rejects"]) or span)
    place = spans.get(given["on_error"]) or span
    clause = ast.OnError("SKIP", into, _limit(limit, given, spans, span), span=place)
    return Reading(kept, clause)


def _limit(
    limit: Any, given: Mapping[str, str], spans: Mapping[str, Span | None], span: Span | None
) -> str:
    """The limit as the clause has it."""
    if limit is None:
        return ""
    text = str(limit)
    if isinstance(limit, bool) or not _LIMIT.fullmatch(text):
        place = spans.get(given["error_limit"]) or span
        raise _wrong("error_limit", "a number of rows, or a text such as '1 PERCENT'", limit, place)
    number = text.strip().upper().removesuffix("%").removesuffix("PERCENT").strip()
    return number if number == text.strip() else f"{number} PERCENT"


def _wrong(name: str, wanted: str, value: Any, span: Span | None) -> BindError:
    message = f'option "{name}" must be {wanted}, not {value!r}'
    return BindError(message, code="P416", span=span)


def policed(context: Context, scan: lp.Scan, reading: Reading) -> lp.Scan:
    """The scan with its policy, whose rejects the statement then has to write."""
    clause = reading.clause
    if clause is None:
        return scan
    policy = new_policy(context, clause, "FROM")
    if clause.into is not None:
        facts = tuple(context.names.column(name, type_) for name, type_ in FACTS_OF_LINES)
        policy = replace(policy, facts=facts)
    scan = replace(scan, on_error=policy)
    if clause.into is not None:
        context.readings.append((scan, clause))
    return scan


def no_files(clause: ast.OnError) -> BindError:
    """The error for ON ERROR behind a FROM that reads no files itself."""
    return BindError(
        "ON ERROR of FROM is about lines of files, and this reads no file itself",
        code="P417",
        span=clause.span,
        hint="it stands where the files are read: FROM 'in.jsonl' ON ERROR SKIP",
    )


def not_by_rows(error: ZqlError, clause: ast.OnError) -> ZqlError:
    """The error of a format that cannot pass over rows, when that is what it is."""
    if error.code != "U610" or '"on_error"' not in error.message:
        return error
    return BindError(
        "ON ERROR of FROM is about JSON lines and rows of CSV: other files are damaged as wholes",
        code="P417",
        span=clause.span,
        hint="a file that cannot be read is left out by its name; the reader of a format of your "
        "own may pass over what it cannot take",
    )
