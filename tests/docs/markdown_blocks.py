"""The fenced blocks of a Markdown page, run one after the other in one folder.

    ```zql            a script, run as `zql run script.zql --format table`
    ```zql fails      one that must fail
    ```python         run in one name space for the page
    ```console        lines that begin with `$ ` are commands of a shell, the others their output
    ```text           behind one of the first three: exactly what it printed

Blocks in other languages, or in none, are not run. With UPDATE_GOLDEN=1 the outputs are written
into the page instead of being compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\S*) ?(.*)$")
RUN = ("zql", "python", "console")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its opening fence, from 1."""

    page: Path
    line: int
    language: str
    flags: str
    lines: tuple[str, ...]
    follows: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All blocks of a page; `follows` says that only empty lines stand before it and the last."""
    found, lines = [], page.read_text(encoding="utf-8").split("\n")
    number, last_end = 0, -1
    while number < len(lines):
        match = FENCE.match(lines[number])
        if match is None:
            number += 1
            continue
        end = next((i for i in range(number + 1, len(lines)) if lines[i] == "```"), None)
        if end is None:
            raise ValueError(f"{page}:{number + 1}: this block has no end")
        follows = last_end >= 0 and not any(lines[last_end + 1 : number])
        body = tuple(lines[number + 1 : end])
        found.append(Block(page, number + 1, match.group(1), match.group(2), body, follows))
        last_end = end
        number = end + 1
    return found


_TOOK = re.compile(r"\bin [\d.]+ m?s$")
"""How long a run took is not compared."""


class Page:
    """Runs the blocks of a page in the current folder; `captured` gives what was printed."""

    def __init__(self, page: Path, captured: Callable[[], str]) -> None:
        self.page = page
        self.captured = captured
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.changes: list[tuple[Block, list[str]]] = []

    def run(self) -> int:
        """Runs all and gives their number. Raises `AssertionError` at the first that is wrong."""
        printed: str | None = None
        count = 0
        for block in blocks(self.page):
            if block.language in RUN:
                count += 1
                printed = getattr(self, block.language)(block)
            elif block.language == "text" and block.follows and printed is not None:
                self.compare(block, printed)
                printed = None
            else:
                printed = None
        self.write()
        return count

    def compare(self, block: Block, printed: str) -> None:
        lines = [_TOOK.sub("in 12 ms", x.rstrip()) for x in printed.strip("\n").split("\n")]
        if os.environ.get("UPDATE_GOLDEN") == "1":
            self.changes.append((block, lines))
            return
        assert lines == list(block.lines), f"{block.place} is not what was printed:\n{printed}"

    def write(self) -> None:
        """Puts the noted outputs into the page, the last one first: lines keep their places."""
        lines = self.page.read_text(encoding="utf-8").split("\n")
        for block, new in reversed(self.changes):
            lines[block.line : block.line + len(block.lines)] = new
        if self.changes:
            self.page.write_text("\n".join(lines), encoding="utf-8")

    def zql(self, block: Block) -> str:
        from zql.cli.main import call

        Path("script.zql").write_text(block.text + "\n", encoding="utf-8")
        code = call(["run", "--format", "table", "--max-rows", "20", "script.zql"])
        printed = self.captured()
        if block.flags == "fails":
            assert code, f"{block.place} should fail"
        else:
            assert code == 0, f"{block.place} fails:\n{printed}"
        return printed

    def python(self, block: Block) -> str:
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        exec(code, self.names)
        return self.captured()

    def console(self, block: Block) -> str:
        """Every command of a block with its own output; compared at once."""
        shown: list[str] = []
        for command in (line[2:] for line in block.lines if line.startswith("$ ")):
            shown += [f"$ {command}", *_shell(command)]
        self.compare(block, "\n".join(shown))
        return ""


def _shell(command: str) -> Iterator[str]:
    """What a command prints, and its exit code when that is not 0."""
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    yield from done.stdout.rstrip("\n").split("\n") if done.stdout else ()
    if done.returncode:
        yield f"(exit code {done.returncode})"
