"""Functions that end their process."""

import os


def gone(text: str) -> str:
    os._exit(3)
