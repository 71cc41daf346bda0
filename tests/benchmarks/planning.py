"""What planning costs: a script of a kilobyte parsed and planned, and checked by a whole process.

usage: planning.py [--runs N]

Warm: a session has planned it before, as in a shell, a notebook or a service. Figures are medians,
with the least and the largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from zql.session import Session
from zql.source import Source

SCRIPT = Path(__file__).with_name("planning.zql")


def timed(action: Callable[[], object], runs: int) -> str:
    action()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        seconds.append((time.perf_counter() - began) * 1000)
    middle = statistics.median(seconds)
    return f"{middle:.1f} ms ({min(seconds):.1f} to {max(seconds):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    source = Source(SCRIPT.name, SCRIPT.read_text(encoding="utf-8"))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with Session() as session:

        def plan() -> None:
            if session.check(source):
                raise SystemExit("the script has mistakes")

        print(f"parse and plan {len(source.text)} characters, warm: {timed(plan, 4 * runs)}")
    command = [sys.executable, "-m", "zql", "check", "-q", str(SCRIPT)]
    check = lambda: subprocess.run(command, check=True, env=environment)  # noqa: E731
    print(f"zql check, the whole process: {timed(check, runs)}")


if __name__ == "__main__":
    main()
