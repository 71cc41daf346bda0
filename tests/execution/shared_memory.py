"""What a shared array costs: `python tests/execution/shared_memory.py [MEGABYTES [WORKERS]]`.

Prints, as JSON and in MB, the memory of this process and its workers once each of them has read all
of the array, and the same for an array of next to nothing. It is PSS, which counts a page that
several processes hold once (Linux).
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import zql

FUNCTIONS = """
import os
import time
from pathlib import Path

import numpy

def ones(count: int):
    return numpy.ones(count)

def total(word: str, array, workers: int) -> float:
    found = float(array.sum())
    Path(f"seen-{os.getpid()}").touch()
    end = time.monotonic() + 60
    while len(list(Path().glob("seen-*"))) < workers and time.monotonic() < end:
        time.sleep(0.01)
    return found
"""
MB = 1_000_000


def tree(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += tree(int(child))
    return found


def pss(pid: int) -> int:
    """Bytes that a process holds, its part of those that are shared."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def measured(megabytes: float, workers: int) -> int:
    """The memory of the tree after a run in which all workers read an array."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("udf.py").write_text(FUNCTIONS)
        for part in range(2 * workers):
            Path(f"in-{part}.jsonl").write_text('{"word": "x"}\n')
        count = int(megabytes * MB / 8)
        with zql.Session(workers=workers, memory_limit="8GB") as session:
            session.run(
                "IMPORT PYTHON 'udf.py';"
                f"DECLARE array SHARED DEFAULT udf.ones({count});"
                f"FROM 'in-*.jsonl' |> SELECT udf.total(word, $array, {workers}) AS n "
                "|> WRITE 'out.jsonl'"
            )
            found = sum(pss(pid) for pid in tree(os.getpid()))
        rows = [json.loads(line)["n"] for line in Path("out.jsonl").read_text().splitlines()]
        assert rows == [count] * 2 * workers
        assert len(list(Path().glob("seen-*"))) == workers, "not all workers took part"
        os.chdir("/")
    return found


if __name__ == "__main__":
    size = float(sys.argv[1]) if sys.argv[1:] else 1000
    number = int(sys.argv[2]) if sys.argv[2:] else 4
    before = measured(0.001, number)
    after = measured(size, number)
    print(json.dumps({"array": size, "before": before / MB, "after": after / MB}))
