"""One workload of the benchmark, as a user would run it: the script beside this file.

usage: workload.py WORKLOAD DATA OUT [key=value ...]

`workers` and `memory` are settings of the run; `cache=cold` starts without what earlier runs have
learned of the data.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

OUTPUTS = {
    "w1": "part-{shard:05d}.jsonl",
    "w2": "part-{shard:05d}.parquet",
    "w5": "part-{shard:05d}.parquet",
    "w9": "part-{shard:05d}.parquet",
    "w10": "out.jsonl",
}


def main() -> None:
    workload, data, out, *rest = sys.argv[1:]
    options = dict(item.split("=", 1) for item in rest)
    if options.pop("cache", "warm") == "cold":
        os.environ["XDG_CACHE_HOME"] = os.path.join(out, ".cache")
    target = os.path.join(os.path.abspath(out), OUTPUTS.get(workload, "out.parquet"))
    os.chdir(data)
    arguments = ["run", str(HERE / f"{workload}.zql"), "-q", "-p", f"out={target}"]
    for name, value in options.items():
        arguments += ["--set", f"{name}={value}"]
    from zql.cli.main import main as zql

    sys.argv = ["zql", *arguments]
    zql()


if __name__ == "__main__":
    main()
