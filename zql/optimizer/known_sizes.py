"""How much there is to be read, as far as a plan knows it."""

from __future__ import annotations

from collections.abc import Iterable

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import Node, walk

_PACKED = 2
"""What is read of files that are packed is in memory about so many times as big as they are: three
times and more when all columns are read, which is rare. Of others it is as big as they are.
"""
_PACKED_FILES = (".parquet", ".gz", ".zst", ".bz2", ".xz", ".lz4")
_ROW_BYTES = 16
"""Of what is made of numbers: a key and a value."""


def known_bytes(plan: lp.LogicalPlan) -> int:
    """About how many bytes the rows have in memory that a plan reads or makes."""
    return bytes_read(walk(plan))


def bytes_read(nodes: Iterable[Node]) -> int:
    """The same of what is among these nodes."""
    nodes = list(dict.fromkeys(nodes))
    files = (file for node in nodes if isinstance(node, lp.Scan) for file in node.files)
    read = sum(f.size * (_PACKED if f.path.endswith(_PACKED_FILES) else 1) for f in files)
    read += sum(node.size or 0 for node in nodes if isinstance(node, lp.MemoryScan))
    return read + sum(_made(n) for n in nodes if isinstance(n, lp.TableFunction))


def gives_any_number(node: Node) -> bool:
    """Whether it gives rows of which only a run knows how many there are."""
    if isinstance(node, lp.Scan):
        return node.own is not None
    if isinstance(node, lp.MemoryScan):
        return node.size is None
    return isinstance(node, lp.PythonOperator | lp.CommonRows | lp.RecursiveUnion)


def _made(plan: lp.TableFunction) -> int:
    """The bytes that `range(..)` makes."""
    ends = [a.value for a in plan.args if isinstance(a, ex.Literal) and isinstance(a.value, int)]
    if plan.name not in ("range", "generate_series") or len(ends) < len(plan.args):
        return 0
    start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    return max(0, (stop - start) // (step or 1)) * _ROW_BYTES
