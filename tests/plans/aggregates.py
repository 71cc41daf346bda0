"""Aggregate classes that the plans use; none ever takes a row."""

from zql import udf


class Total:
    def step(self, x: float):
        raise NotImplementedError

    def merge(self, other):
        raise NotImplementedError

    def finish(self) -> float | None:
        raise NotImplementedError


class Longest:
    """Without merge: it wants the rows of a group together."""

    def __init__(self, least: int = 0):
        raise NotImplementedError

    def step(self, text: str | None, weight: float = 1.0):
        raise NotImplementedError

    def finish(self) -> str | None:
        raise NotImplementedError


@udf(returns="DECIMAL(10,2)", volatile=True)
class Chance:
    def step(self):
        raise NotImplementedError

    def merge(self, other):
        raise NotImplementedError

    def finish(self):
        raise NotImplementedError
