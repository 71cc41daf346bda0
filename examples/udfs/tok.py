"""A small tokenizer: the words of a vocabulary, and the bytes of all others."""

import functools
import re
from pathlib import Path

WORD = re.compile(r"[A-Za-z']+|[0-9]+|[^\sA-Za-z0-9']")
BYTES = 256


@functools.cache
def load(vocabulary: str) -> dict[str, int]:
    """The vocabulary: read once in each process, when the first text is encoded there."""
    words = Path(vocabulary).read_text(encoding="utf-8").split("\n")
    return {word: BYTES + number for number, word in enumerate(words) if word}


def encode(text: str, vocabulary: str) -> list[int]:
    """The text's words as numbers; an unknown word gives one for each of its bytes."""
    numbers = load(vocabulary)
    tokens: list[int] = []
    for word in WORD.findall(text.lower()):
        known = numbers.get(word)
        if known is None:
            tokens.extend(word.encode())
        else:
            tokens.append(known)
    return tokens
