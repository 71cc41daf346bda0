"""Two jobs on real data, as anyone would run them: `zql run SCRIPT` in a folder with files.

    python examples/quickstart.py [FOLDER]

makes data in FOLDER (out/quickstart when none is given), runs quickstart.zql and flights.zql there,
and says where the output is.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402 - beside this file

SCRIPTS = ("quickstart.zql", "flights.zql")


def main(folder: Path) -> int:
    """Gives the exit code of the first script that fails, else 0."""
    began = time.perf_counter()
    made = data.write(folder)
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    print(f"made {size / 1e6:.0f} MB of data in {made} ({time.perf_counter() - began:.0f} s)")
    for name in SCRIPTS:
        print(f"\n$ zql run {name}", flush=True)
        command = [sys.executable, "-m", "zql", "run", "--format", "table", str(HERE / name)]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code:
            return code
    print(f"\nThe output is in {(folder / 'out').resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/quickstart")))
