"""Aggregate classes that the query tests use."""

from __future__ import annotations

from zql import udf


class Total:
    """The sum, NULL of no rows."""

    def __init__(self) -> None:
        self.sum: int | None = None

    def step(self, n: int) -> None:
        self.sum = n + (self.sum or 0)

    def merge(self, other: Total) -> None:
        self.sum = (self.sum or 0) + (other.sum or 0)

    def finish(self) -> int | None:
        return self.sum


class Items:
    """All values in their order."""

    def __init__(self) -> None:
        self.items: list[str | None] = []

    def step(self, text: str | None) -> None:
        self.items.append(text)

    def merge(self, other: Items) -> None:
        self.items += other.items

    def finish(self) -> list[str | None]:
        return self.items


class Middle:
    """Without merge, and with an argument of its own; its type is seen when it is tried."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share
        self.values: list[int] = []

    def step(self, n: int, times: int = 1) -> None:
        self.values += [n] * times

    def finish(self):
        return (
            sorted(self.values)[int(self.share * (len(self.values) - 1))] if self.values else None
        )


class Pairs:
    """Two arguments, of which one may be NULL; a record comes back."""

    def __init__(self) -> None:
        self.known = self.rows = 0

    def step(self, n: int | None, text: str) -> None:
        self.rows += 1
        self.known += n is not None

    def merge(self, other: Pairs) -> None:
        self.known += other.known
        self.rows += other.rows

    def finish(self) -> dict[str, int]:
        return {"known": self.known, "rows": self.rows}


@udf(returns="DECIMAL(9,2)")
class Rows:
    """Takes nothing of a row."""

    def __init__(self) -> None:
        self.n = 0

    def step(self) -> None:
        self.n += 1

    def merge(self, other: Rows) -> None:
        self.n += other.n

    def finish(self):
        return self.n


def double(n: int) -> int:
    return 2 * n
