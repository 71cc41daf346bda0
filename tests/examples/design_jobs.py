"""Small inputs and functions for the fourteen jobs of `tests/syntax/scripts`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FUNCTIONS = {
    "quality.py": """
def is_english(text: str) -> bool:
    if text.startswith("damaged"):
        raise ValueError("no text at all")
    return " the " in text


def score(text: str) -> float:
    return min(1.0, len(set(text.split())) / 40)
""",
    "minhash.py": """
import zlib


def bands(text: str, bands: int, rows: int) -> list[int]:
    words = set(text.split())

    def smallest(place: int) -> int:
        return min(zlib.crc32(f"{place} {word}".encode()) for word in words)

    signature = [smallest(place) for place in range(bands * rows)]
    cuts = [signature[i : i + rows] for i in range(0, len(signature), rows)]
    return [zlib.crc32(repr(cut).encode()) for cut in cuts]
""",
    "tok.py": """
class Tokenizer:
    def __init__(self, words: dict[str, int]) -> None:
        self.words = words


def load(model: str) -> Tokenizer:
    return Tokenizer({word: i for i, word in enumerate(["the", "quick", "brown", "fox", model])})


def encode(text: str, tokenizer) -> list[int]:
    return [tokenizer.words.get(word, 50256) for word in text.split()]
""",
    "threads.py": """
def explode(record: dict, max_depth: int):
    for depth, reply in enumerate(record["replies"]):
        if depth < max_depth:
            yield {"thread_id": record["thread"], "ts": reply["ts"], "body": reply["body"].strip()}


def merge_thread(key: str, rows):
    bodies = [row["body"] for row in rows]
    return {"thread_id": key, "text": " / ".join(bodies), "n": len(bodies)}
""",
    "pack.py": """
def pack_sequences(rows, seq_len: int):
    held = []
    for row in rows:
        held += [*row["tokens"], 50256]
        while len(held) >= seq_len:
            yield {"tokens": held[:seq_len]}
            held = held[seq_len:]
    if held:
        yield {"tokens": held + [0] * (seq_len - len(held))}
""",
}

TEXT = "the quick brown fox jumps over a lazy dog while many small birds sing in the old tree"
WORDS = TEXT.split()


def text(number: int) -> str:
    """About fifty words; a document of each hundred is a copy of the one before with one change."""
    same = number - number % 10 if number % 10 == 1 else number
    words = [WORDS[(same * 7 + i * i) % len(WORDS)] + str((same + i) % 23) for i in range(45)]
    return " ".join(["start", "the", *words, "again" if number % 10 == 1 else "end"])


def documents() -> list[dict[str, object]]:
    return [
        {
            "id": f"d{n:03d}",
            "text": ("damaged " + text(n)) if n == 7 else text(n - n % 2 if n > 150 else n),
            "crawled_at": f"2024-01-{1 + n % 28:02d}",
            "language": "en" if n % 3 else "de",
            "domain": f"site{n % 5}.org",
            "source": f"s{n % 4}",
            "raw_html": "<p>",
        }
        for n in range(200)
    ]


def write_inputs(folder: Path) -> None:
    """Everything that the scripts read, in a folder from which they are run."""
    for name in ("data/raw", "data/docs", "udfs", "books", "meta", "events", "dirty", "mail"):
        (folder / name).mkdir(parents=True)
    for name, source in FUNCTIONS.items():
        (folder / "udfs" / name).write_text(source)
    for part in range(2):
        rows = [
            {"id": f"t{part}{i}", "title": None if i == 3 else f" Title {i} "} for i in range(9)
        ]
        packed = gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode())
        (folder / f"data/raw/part-{part}.jsonl.gz").write_bytes(packed)
    table = pa.Table.from_pylist(documents())
    for part in range(4):
        pq.write_table(table.slice(part * 50, 50), folder / f"data/docs/part-{part}.parquet")
    (folder / "books/one.txt").write_text("The cat and the dog. " * 4 + "A bird, the end.\n")
    (folder / "books/two.txt").write_text("the cat\n" * 3)
    (folder / "meta/licences.csv").write_text("source,licence,tier\ns0,cc0,1\ns1,nc,2\ns2,mit,1\n")
    events = [("a", 0), ("a", 10), ("a", 50), ("b", 5), ("a", 55), ("b", 36)]
    lines = [
        json.dumps({"user_id": u, "ts": f"2024-05-01T10:{m:02d}:00", "url": f"/{u}{m}"})
        for u, m in events
    ]
    (folder / "events/day.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "dirty/a.csv").write_text(
        "Cust ID,E-mail,Sign Up Date\n1,A@x.org ,2024-01-02\n 2 ,,03/02/2024\n"
        "x,c@x.org,2024-01-05\n"
    )
    (folder / "dirty/b.csv").write_text(
        "Cust ID,E-mail,Sign Up Date\n1,a2@x.org,2024-03-01\n4,d@x.org,never\n"
    )
    mails = [
        {"thread": "t1", "replies": [{"ts": "2024-01-02 00:00:00", "body": " second "}]},
        {"thread": "t2", "replies": [{"ts": "2024-01-01 00:00:00", "body": "only"}]},
        {"thread": "t1", "replies": [{"ts": "2024-01-01 00:00:00", "body": "first"}]},
        {"thread": "t3", "replies": None},
    ]
    (folder / "mail/box.jsonl").write_text("".join(json.dumps(m) + "\n" for m in mails))
