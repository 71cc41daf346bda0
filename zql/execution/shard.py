"""What MAP SHARDS tells a function about the part of the rows that it works on."""

from __future__ import annotations

import posixpath

from zql.tree import node


@node
class Shard:
    """A part of the rows: the `index` (from 0) of `total`.

    `path` is the file that the rows come from; None when they are what an earlier stage left.
    """

    index: int = 0
    total: int = 1
    path: str | None = None


def task_name(shard: Shard) -> str:
    """`task 3 of 16, part-00003.jsonl`: what the lines that it prints begin with."""
    file = "" if shard.path is None else f", {posixpath.basename(shard.path)}"
    return f"task {shard.index + 1} of {shard.total}{file}"
