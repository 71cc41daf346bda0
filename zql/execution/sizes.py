"""How big the parts of a run are: splits, groups, kept files, output files.

What is not set is chosen from the data alone: never from the machine, its memory or the number of
workers, so that the same input gives the same files everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zql.execution.settings import MIB

SMALLEST_SPLIT, LARGEST_SPLIT = 8 * MIB, 64 * MIB
TASKS_WANTED = 32
"""Enough for all processors of a machine, and for a last task that is short."""
MOST_TASKS = 4096
"""With more input than so many of the largest splits, splits grow."""
KEPT_FILE = 64 * MIB
FILE_OF_ROWS = 128 * MIB
"""Rows of texts and numbers make a Parquet file of 25 to 60 MiB out of it."""
LEAST_FILE = 16 * MIB
FILES_LEFT = 16
"""So few files are left as they are: who reads them can share them out."""
_PIECES = 4


class Chosen(NamedTuple):
    """A size in bytes, and why it is this one."""

    size: int
    reason: str


def split_of_tasks(total: int, split_size: int | None = None, tasks: int | None = None) -> Chosen:
    """The bytes of input for one task of Python, of `total`; `tasks` are so many as are wanted."""
    if tasks is not None:
        return Chosen(max(1, -(-total // tasks)), f"for {tasks:,} tasks, as the hint says")
    if split_size is not None:
        return Chosen(split_size, "split_size")
    size = SMALLEST_SPLIT
    while size < LARGEST_SPLIT and size * TASKS_WANTED < total:
        size *= 2
    if size * MOST_TASKS < total:
        return Chosen(_grown(total), f"no more than {MOST_TASKS:,} tasks")
    between = f"{mib(SMALLEST_SPLIT)} to {mib(LARGEST_SPLIT)}"
    return Chosen(size, f"about {TASKS_WANTED} tasks of {between}")


def split_of_files(total: int, split_size: int | None = None) -> Chosen:
    """The bytes of input for one output file of SQL alone, which needs no parts to be quick."""
    if split_size is not None:
        return Chosen(split_size, "split_size")
    if total > LARGEST_SPLIT * MOST_TASKS:
        return Chosen(_grown(total), f"no more than {MOST_TASKS:,} files")
    return Chosen(LARGEST_SPLIT, "a file for each split")


def files_of_share(total: int, rows: int, all_rows: int, split_size: int | None = None) -> int:
    """How many files `rows` of `all_rows` make, which were made of `total` bytes of input."""
    size = split_of_files(total, split_size).size
    return max(1, min(rows, round(total * rows / max(all_rows, 1) / size)))


def file_of_rows(written: int = 0, split_size: int | None = None) -> Chosen:
    """The bytes of rows with which an output file ends, after files of `written` bytes of rows.

    With very many of them files grow.
    """
    if split_size is not None:
        return Chosen(split_size, "split_size")
    size = max(FILE_OF_ROWS, _grown(written))
    return Chosen(size, "how many there will be is not known before")


def _grown(total: int) -> int:
    return -(-total // MOST_TASKS // MIB) * MIB


def group_file(written: int, split_size: int | None = None) -> int:
    """The bytes at which a file of whole groups ends, when so many have been written before it.

    The files grow with the rows that there turn out to be: small results keep all workers busy.
    """
    if split_size is not None:
        return max(1, split_size // 4)  # what is done with a row costs more there
    return split_of_tasks(written).size


def least_file(sizes: Sequence[int], file_size: int | None = None) -> int | None:
    """The bytes that an output file should have, so that it is not put together with the next.

    None when the files are to be left as they are.
    """
    if file_size is not None:
        return file_size
    if len(sizes) <= FILES_LEFT:
        return None
    return min(LEAST_FILE, -(-sum(sizes) // FILES_LEFT))


def cuts(rows: int, size: int, most_rows: int | None, file_size: int | None) -> list[list[int]]:
    """Where rows that take `size` bytes are cut: for each file the bounds of its pieces, in rows.

    A file has `most_rows`, the last maybe less. Its pieces are so small that those which fit into
    `file_size` can be put together when they have been written, and it is known how big they are.
    """
    whole = most_rows or max(rows, 1)
    piece = whole
    if file_size is not None and rows:
        piece = min(whole, max(1, file_size // _PIECES * rows // max(size, 1)))
    return [
        [*(range(start, min(start + whole, rows), piece) or (0,)), min(start + whole, rows)]
        for start in range(0, max(rows, 1), whole)
    ]


def runs(sizes: Sequence[int], least: int, most: int | None = None) -> list[tuple[int, int]]:
    """Neighbours that are put together: ranges `[start, stop)` of at least `least` bytes each.

    The last may have less, and is then joined to the one before it, unless both together have more
    than `most`. With `most` a range ends before it would have more.
    """
    found: list[tuple[int, int]] = []
    start, size = 0, 0
    for at, own in enumerate(sizes):
        if most is not None and at > start and size + own > most:
            found.append((start, at))
            start, size = at, 0
        size += own
        if size >= least:
            found.append((start, at + 1))
            start, size = at + 1, 0
    if start < len(sizes):
        if found and (most is None or size + sum(sizes[slice(*found[-1])]) <= most):
            start = found.pop()[0]
        found.append((start, len(sizes)))
    return found


def mib(size: int) -> str:
    """A size as people write it: `64 MiB`, and two digits of a small or a broken one."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    whole = value == int(value) or value >= 100
    return f"{value:,.0f} {units[0]}" if whole else f"{value:,.1f} {units[0]}"
