"""How good a text is to read: cheap signs that it is prose, in English, and not cut short."""

import re

WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
COMMON = """
a an and are as at be but by can do each for from has have if in into is it its may must no not
of on one only or other see set should so than that the then there these this to two use used
was when where which will with you
"""
COMMON_WORDS = frozenset(COMMON.split())


def score(text: str) -> float:
    """From 0 to 1: long enough, made of words, the most common ones among them, in sentences."""
    words = WORD.findall(text)
    if not words:
        return 0.0
    length = min(len(words) / 50, 1.0)
    letters = min(sum(map(len, words)) / len(text) / 0.75, 1.0)
    common = min(sum(word.lower() in COMMON_WORDS for word in words) / len(words) / 0.35, 1.0)
    sentences = min((text.count(". ") + text.count(".\n") + 1) * 25 / len(words), 1.0)
    return round(0.3 * length + 0.3 * letters + 0.3 * common + 0.1 * sentences, 4)


def is_english(text: str) -> bool:
    """Whether one word in six is among the most common English ones."""
    words = WORD.findall(text[:5000])
    return bool(words) and sum(word.lower() in COMMON_WORDS for word in words) * 6 >= len(words)
