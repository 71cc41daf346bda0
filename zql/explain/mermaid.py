"""EXPLAIN as a Mermaid flowchart: rows flow along the arrows.

What comes from scripts and data is text and never markup: signs that mean something to Mermaid, to
its directives, to Markdown or to HTML are written as entities.
"""

from __future__ import annotations

from collections.abc import Sequence

from zql.explain.document import Document
from zql.explain.figures import seconds, size

_SAFE = frozenset(" _.,()=-+/'[]!?")
_LONGEST = 80


def mermaid(document: Document) -> str:
    """A document of any level as one flowchart."""
    chart = _Chart()
    match document["level"]:
        case "syntax":
            before = None
            for line in document["text"].split("\n"):
                before = chart.node([line], [before] if before else [])
        case "logical":
            chart.tree(document["plan"])
        case "trace":
            chart.group("bound", lambda: chart.tree(document["plan"]))
            for number, rewrite in enumerate(document["rewrites"], 1):
                title = f"{number}. {rewrite['rule']}"
                chart.group(title, lambda plan=rewrite["plan"]: chart.tree(plan))
        case _:
            chart.stages(document["stages"])
    return "\n".join(["flowchart TD", *chart.lines])


def escaped(text: str) -> str:
    """Text that can stand in a label between double quotes, whatever it holds."""
    shown = " ".join(text.split())
    shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 2] + ".."
    return "".join(c if c.isalnum() or c in _SAFE else f"#{ord(c)};" for c in shown)


class _Chart:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = "  "
        self._count = 0
        self._groups = 0

    def node(self, lines: Sequence[str], inputs: Sequence[str]) -> str:
        """Adds a box with lines of text, and arrows to it; its name."""
        self._count += 1
        name = f"n{self._count}"
        text = "<br/>".join(escaped(line) for line in lines if line)
        self.lines.append(f'{self._indent}{name}["{text}"]')
        self.lines += [f"{self._indent}{before} --> {name}" for before in inputs]
        return name

    def group(self, title: str, draw: object) -> None:
        """Adds a frame with a title around what `draw` draws."""
        self._groups += 1
        self.lines.append(f'{self._indent}subgraph g{self._groups}["{escaped(title)}"]')
        self._indent += "  "
        draw()  # type: ignore[operator]
        self._indent = self._indent[:-2]
        self.lines.append(f"{self._indent}end")

    def tree(self, plan: Document) -> str:
        """Adds an operator behind its inputs."""
        inputs = [self.tree(below) for below in plan["inputs"]]
        return self.node([plan["label"]], inputs)

    def stages(self, stages: Sequence[Document]) -> None:
        """Adds the stages, each one's first box behind the last boxes of those it reads."""
        ends: dict[int, str] = {}
        arrows: list[str] = []
        for stage in stages:
            kind = "tasks" if stage["kind"] == "tasks" else "DuckDB"
            first, last = "", ""

            def draw(stage: Document = stage) -> None:
                nonlocal first, last
                first, last = self._steps(stage)

            self.group(f"Stage {stage['id']}, {kind}{_figures(stage)}", draw)
            arrows += [f"  {ends[number]} --> {first}" for number in stage["inputs"]]
            ends[stage["id"]] = last
        self.lines += arrows

    def _steps(self, stage: Document) -> tuple[str, str]:
        names: list[str] = []
        counts = stage.get("figures", {}).get("steps", [])
        counts = counts if len(counts) == len(stage["steps"]) else [None] * len(stage["steps"])
        for step, count in zip(stage["steps"], counts, strict=True):
            rows = f"{count['rows_in']:,} rows in, {count['rows_out']:,} out" if count else ""
            names.append(self.node([step["label"], rows], names[-1:]))
        names.append(self.node([_sink(stage["sink"])], names[-1:]))
        return names[0], names[-1]


def _figures(stage: Document) -> str:
    figures = stage.get("figures")
    if not figures:
        return ""
    read, spilled = size(figures["bytes_read"]), size(figures["bytes_spilled"])
    return f", {seconds(figures['seconds'])} s, read {read}, spilled {spilled}"


def _sink(sink: Document) -> str:
    if sink["kind"] == "write":
        return f"write {sink['uri']}"
    if sink["kind"] == "table":
        return f"table {sink['table']}"
    if sink["kind"] == "exchange":
        return f"exchange, {sink['partitions']} partitions"
    kinds = {"keep": "keep for later stages", "drop": "drop the rows", "result": "result"}
    return kinds[sink["kind"]]
