"""GPUs of this machine: how many there are, and which of them a worker process sees."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from zql.errors import RunError

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_chosen: list[str] = []


def visible(devices: str = "/dev") -> tuple[str, ...]:
    """The GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, else all of NVIDIA's."""
    said = os.environ.get(_VISIBLE)
    if said is not None:
        names = [name.strip() for name in said.split(",")]
        return tuple(name for name in names if name not in ("", "-1", "NoDevFiles"))
    found: list[str] = []
    with suppress(OSError):
        numbers = (re.fullmatch(r"nvidia(\d+)", name) for name in os.listdir(devices))
        found = sorted((m.group(1) for m in numbers if m), key=int)
    return tuple(found)


def most_at_a_time(each: float, what: str) -> int:
    """How many tasks that need so many GPUs can run at a time. Raises `RunError` when none can."""
    count = len(visible())
    most = int(count / each + 1e-9)
    if most < 1:
        there = f"{count} GPU{'s' * (count != 1)}" if count else "no GPU"
        raise RunError(
            f"{what} asks for {each:g} GPU{'s' * (each != 1)} for each task, and this machine has "
            f"{there}",
            code="R738",
            hint=f"leave gpus out, or name those that there are in {_VISIBLE}",
        )
    return most


def choose(rank: int, each: float) -> None:
    """Lets this process, one of several in their `rank`, see its own GPUs alone.

    It does so once: CUDA does not look again.
    """
    there = visible()
    if _chosen or not there:
        return
    count = max(1, round(each))
    first = int(rank * min(each, 1.0) + 1e-9) * count
    _chosen.extend(there[(first + i) % len(there)] for i in range(min(count, len(there))))
    os.environ[_VISIBLE] = ",".join(_chosen)
