"""The Python functions of the benchmark: quality features of a text, and a reducer of groups.

They compute what every peer of the benchmark computes, so that the results can be compared.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import unicodedata
from collections.abc import Iterator
from typing import TypedDict

_BLANKS = re.compile(r"\s+")
_SYMBOLS = "#{}<>|\\~^"
_STOP_WORDS = frozenset(
    """
    the of and to a in is that it was for on are as with his they at be this from have or by one
    had not but what all were when we there can an your which their said if do will each about how
    up out them then she many some so these would other into has more her two like him see time
    could no make than first been its who now people my made over did down only way find use may
    water long little very after words called just where most know
    """.split()  # noqa: SIM905 - a text reads better
)


class Features(TypedDict):
    text: str
    n_words: int
    mean_len: float
    sym_ratio: float
    stop_hits: int


def features(text: str) -> Features | None:
    """The normalised text with its figures; None for a text of low quality."""
    text = _BLANKS.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()
    words = text.split(" ")
    n_words = len(words)
    mean_len = sum(map(len, words)) / n_words
    symbols = 0
    for char in _SYMBOLS:
        symbols += text.count(char)
    sym_ratio = symbols / len(text)
    stop_hits = 0
    for word in words:
        if word in _STOP_WORDS:
            stop_hits += 1
    if not (
        50 <= n_words <= 100_000
        and 3.0 <= mean_len <= 10.0
        and sym_ratio < 0.01
        and stop_hits >= 20
    ):
        return None
    return {
        "text": text,
        "n_words": n_words,
        "mean_len": mean_len,
        "sym_ratio": sym_ratio,
        "stop_hits": stop_hits,
    }


def nothing(text: str) -> int:
    """As little as a function can do."""
    return 1


class Host(TypedDict):
    host: str
    n: int
    top_ids: list[int]
    digest: str


def reduce_host(host: str, documents: Iterator[tuple[int, str]]) -> Host:
    """The three longest texts of a group and a digest of all, whatever their order."""
    rows = sorted(documents)
    top = heapq.nsmallest(3, rows, key=lambda r: (-len(r[1]), r[0]))
    digest = hashlib.blake2b(digest_size=16)
    for _, text in rows:
        digest.update(text.encode())
    return {
        "host": host,
        "n": len(rows),
        "top_ids": [r[0] for r in top],
        "digest": digest.hexdigest(),
    }


def normal_key(text: str) -> str:
    """What two documents must share to be duplicates."""
    return hashlib.md5(" ".join(text.lower().split()).encode()).hexdigest()
