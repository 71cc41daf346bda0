"""How good a text is to read: cheap signs that it is prose, in English, and more than a line."""

import re

WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
COMMON = """
a an and are as at be but by can do each for from has have if in into is it its may must no not of
on one only or other see set should so than that the then there these this to two use used was when
where which will with you
"""
COMMON_WORDS = frozenset(COMMON.split())


def score(text: str) -> float:
    """From 0 to 1: the mean of how long a text is, how free of signs, and how much like English."""
    words = WORD.findall(text)
    if not words:
        return 0.0
    length = len(words) / 100
    plain = (sum(map(len, words)) + text.count(" ")) / len(text)
    common = sum(word.lower() in COMMON_WORDS for word in words) / len(words)
    signs = (length, (plain - 0.7) / 0.25, common / 0.45)
    return round(sum(min(max(sign, 0.0), 1.0) for sign in signs) / 3, 4)


def is_english(text: str) -> bool:
    """Whether one word in six is among the most common English ones."""
    words = WORD.findall(text[:5000])
    return bool(words) and sum(word.lower() in COMMON_WORDS for word in words) * 6 >= len(words)
