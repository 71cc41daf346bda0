"""A folder of inputs, scripts over them, and runs that can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from check_out import check_out, rows_in, sums
from zql import failpoints
from zql.session import Session

ROOT = Path(__file__).parents[2]
UDF = """
import os, time
def f(id: int) -> int:
    time.sleep(0.004)
    return id + 1
def half(id: int) -> int:
    return id // 2
"""
SCRIPTS = {
    "native": "FROM 'in/*.jsonl' |> WHERE id IS NOT NULL |> FORK"
    " (|> WHERE id % 2 = 0 |> WRITE 'out/even.jsonl' {options}),"
    " (|> WHERE id % 2 = 1 |> SELECT id, pad |> WRITE 'out/odd/{{shard}}.jsonl' {options}),"
    " (|> AGGREGATE count(*) AS n |> WRITE 'out/count.jsonl' {options})",
    "folders": "FROM 'in/*.jsonl' |> SELECT *, id % 3 AS k |> WRITE 'out/'"
    " OPTIONS (format = 'jsonl', partition_by = [k], write_partition_columns = true,"
    " mode = '{mode}')",
    "dealt": "SET partitions = 4; FROM 'in/*.jsonl' |> SELECT *, id % 7 AS k |> FORK"
    " (|> AGGREGATE median(id) AS m, list(id ORDER BY id) AS ids, count(*) AS n GROUP BY k"
    " |> WRITE 'out/medians/{{shard}}.jsonl' {options}),"
    " (|> ORDER BY k, -id |> WRITE 'out/sorted.jsonl' {options}),"
    " (|> SHUFFLE SEED 5 |> WRITE 'out/mixed.jsonl' {options})",
    "shards": "IMPORT PYTHON 'udf.py' AS q; FROM 'in/*.jsonl' |> EXTEND q.f(id) AS b"
    " |> WRITE 'out/{{shard}}.jsonl' {options}",
    "joined": "IMPORT PYTHON 'udf.py' AS q; FROM 'in/*.jsonl' |> EXTEND q.half(id) AS b"
    " |> ORDER BY b, id |> EXTEND q.half(b) AS c |> WRITE 'out/one.jsonl' {options}",
}
ROWS = 24
FILES = 4


class Place:
    """A folder with inputs; `go` runs a script in another process, `here` in this one."""

    def __init__(self, folder: Path, zygote: Zygote, session: Session) -> None:
        self.folder, self.inputs, self.out = folder, folder / "in", folder / "out"
        self.temp, self.counts = folder / "temp", folder / "counts"
        self.zygote, self.session = zygote, session
        for one in (self.inputs, self.out, self.temp):
            one.mkdir()
        (folder / "udf.py").write_text(UDF)
        for i in range(FILES):
            rows = [{"id": i * ROWS + k, "pad": "x" * 40} for k in range(ROWS)]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (self.inputs / f"{i}.jsonl").write_text(text)
        self.before = sums(self.inputs)

    def script(self, job: str, mode: str = "overwrite") -> str:
        return SCRIPTS[job].format(options=f"OPTIONS (mode = '{mode}')", mode=mode)

    def go(
        self,
        job: str,
        faults: str = "",
        *,
        file_bytes: int = -1,
        settings: dict | None = None,
    ) -> int:
        """Starts a script, or one of those above, in another process; its id.

        A file that it writes may have `file_bytes`.
        """
        for path in self.counts.iterdir():
            path.unlink()
        return self.zygote.ask(
            run={
                "folder": str(self.folder),
                "errors": str(self.folder / "errors"),
                "temp": str(self.temp),
                "counts": str(self.counts),
                "faults": faults,
                "file_bytes": file_bytes,
                "settings": {"split_size": 600, "workers": 1, **(settings or {})},
                "script": self.script(job) if job in SCRIPTS else job,
            }
        )

    def wait(self, pid: int) -> int:
        return self.zygote.ask(wait=pid)

    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    def here(self, job: str, mode: str = "overwrite") -> int:
        """Runs a script in this process; the number of rows that it wrote."""
        script = self.script(job, mode) if job in SCRIPTS else job
        return self.session.run(script).counters["records_written"]

    def check(self, job: str, reference: Counter[str], pid: int | None = None) -> None:
        """All invariants, with second runs in a session of their own where nothing is warm."""

        def again(mode: str) -> int:
            with Session(temp_dir=str(self.temp), workers=1) as session:
                session.set("split_size", 600)
                if job in ("native", "folders", "dealt"):
                    return session.run(self.script(job, mode)).counters["records_written"]
                session.run("FROM range(1) |> ASSERT range = 0")  # tidies up; workers take longer
            return self.here(job, mode)

        check_out(
            self.out,
            inputs=self.inputs,
            before=self.before,
            reference=reference,
            temp=self.temp,
            pid=pid,
            again=again,
            old=reference,
        )


class Zygote:
    """The process that forks runs (`zygote.py`)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._answer()

    def ask(self, **command) -> int:
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        line = self._process.stdout.readline()
        assert line, "the zygote has died"
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def zygote():
    one = Zygote()
    yield one
    one.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory, zygote):
    """One for all tests of a module: its session keeps its workers, which look for faults."""
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "fault").write_text("")
        (folder / "counts").mkdir()
        failpoints.arm(f"@{folder / 'fault'}", str(folder / "counts"))
        with Session(temp_dir=str(folder / "temp"), workers=2) as session:
            session.set("split_size", 600)
            yield Place(folder, zygote, session)
        failpoints.arm("", "")
    assert list((folder / "temp").iterdir()) == [], "temporary files are left"


@pytest.fixture(scope="module")
def references(place):
    """The rows of each script, from runs that nothing disturbed."""
    found = {}
    for job in SCRIPTS:
        for path in sorted(place.out.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        place.here(job)
        found[job] = rows_in(place.out)
        assert found[job]
    return found


@pytest.fixture
def clean(place):
    """The place with no outputs yet."""
    for path in sorted(place.out.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    return place


class Arm:
    """Lets workers that are there already come by a fault, counted over all of them."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __call__(self, fault: str) -> None:
        for path in self._place.counts.iterdir():
            path.unlink()
        (self._place.folder / "fault").write_text(fault)
        self._fault = fault

    def happened(self) -> bool:
        """Whether the fault has come."""
        name, nth, _ = self._fault.split(":")
        path = self._place.counts / name
        return path.exists() and path.stat().st_size >= int(nth)


@pytest.fixture
def arm(clean):
    one = Arm(clean)
    yield one
    one("")
