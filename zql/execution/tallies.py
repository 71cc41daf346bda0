"""Figures that functions keep: sums, least, greatest and mean numbers, over all tasks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zql.execution.misfit import show
from zql.tree import record

Number = int | float
_MOST = 1e300

SUFFIXES = {"sum": "", "min": ".min", "max": ".max", "mean": ".mean"}
"""What stands behind a counter's name in a report, by the kind of figure."""


@record
class Tally:
    """One figure of `kind` sum, min, max or mean: what `count` numbers came to.

    `number` is their sum when the kind is mean, so that tasks of any size weigh what they should.
    """

    kind: str
    number: Number
    count: int = 1

    def take(self, number: Number, count: int = 1) -> None:
        """Takes in a number, or what `count` numbers have come to elsewhere."""
        if self.kind == "min":
            self.number = min(self.number, number)
        elif self.kind == "max":
            self.number = max(self.number, number)
        else:
            self.number += number
        self.count += count

    @property
    def value(self) -> Number:
        """The figure."""
        return self.number / self.count if self.kind == "mean" else self.number


Tallies = Mapping[str, Tally]
"""Figures by the names that they have in a report."""


def added_up(parts: Iterable[Tallies]) -> dict[str, Tally]:
    """The figures of several tasks, or runs, as one."""
    total: dict[str, Tally] = {}
    for tallies in parts:
        for name, tally in tallies.items():
            if name in total:
                total[name].take(tally.number, tally.count)
            else:
                total[name] = Tally(tally.kind, tally.number, tally.count)
    return total


def checked(number: Any) -> Number:
    """A finite int or float, also one of numpy. Raises `TypeError` and `ValueError`."""
    if getattr(number, "ndim", None) == 0 and hasattr(number, "item"):
        number = number.item()
    if not isinstance(number, int | float):
        raise TypeError(f"a counter takes an int or a float, not {type(number).__name__}")
    if not -_MOST <= number <= _MOST:  # NaN is neither
        raise ValueError(f"a counter takes numbers up to {_MOST}, not {show(number)}")
    return int(number) if isinstance(number, int) else float(number)
