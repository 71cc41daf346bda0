"""One workload of the benchmark, as a user would run it: the script beside this file.

usage: workload.py WORKLOAD DATA OUT [key=value ...]

`workers` and `memory` are settings of the run; `cache=cold` starts without what earlier runs have
learned of the data (ZQL's own tables, which a wheel brings along, stay).
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
    "w6": "part-{shard:05d}.parquet",
    "w9": "part-{shard:05d}.parquet",
    "w10": "out.jsonl",
    "groups": "out.jsonl",
}


def main() -> None:
    workload, data, out, *rest = sys.argv[1:]
    options = dict(item.split("=", 1) for item in rest)
    if options.pop("cache", "warm") == "cold":
        forget_data(os.path.join(os.path.abspath(out), ".cache"))
    target = os.path.join(os.path.abspath(out), OUTPUTS.get(workload, "out.parquet"))
    os.chdir(data)
    arguments = ["run", str(HERE / f"{workload}.zql"), "-q", "-p", f"out={target}"]
    for name, value in options.items():
        arguments += ["--set", f"{name}={value}"]
    from zql.cli.main import main as zql

    sys.argv = ["zql", *arguments]
    zql()


def forget_data(folder: str) -> None:
    """Moves the cache to a folder that has only what does not depend on data."""
    from zql.user_cache import cache_folder

    before = cache_folder()
    os.makedirs(os.path.join(folder, "zql"), mode=0o700)
    for path in before.glob("*.json") if before is not None else ():
        Path(folder, "zql", path.name).write_bytes(path.read_bytes())
    os.environ["XDG_CACHE_HOME"] = folder


if __name__ == "__main__":
    main()
