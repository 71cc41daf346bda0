"""Aggregates that fail in the ways that aggregates fail."""

import threading


class Careful:
    def __init__(self, base: int):
        if base < 0:
            raise ValueError("below zero")

    def step(self, score: int):
        if score > 90:
            raise ValueError("too good")

    def merge(self, other):
        raise RuntimeError("no two of us")

    def finish(self) -> int:
        return 1


class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def step(self, name: str): ...

    def merge(self, other): ...

    def finish(self) -> int:
        return 1


class Wrong:
    def step(self, name: str): ...

    def finish(self) -> int:
        return "one"


class Unfinished:
    def step(self, name):
        if name == "Bob":
            raise KeyError(name)

    def finish(self):
        raise ZeroDivisionError


class Left:
    """A merge that makes a new state, which nobody would look at."""

    def step(self, name: str): ...

    def merge(self, other):
        return [self, other]

    def finish(self) -> int:
        return 1


class Gone:
    """A state that cannot be read again."""

    def step(self, name: str): ...

    def merge(self, other): ...

    def finish(self) -> int:
        return 1

    def __setstate__(self, state):
        raise OSError("the connection is gone")

    def __getstate__(self):
        return 1
