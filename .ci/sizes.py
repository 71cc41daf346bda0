"""Prints the ten longest files and the ten longest functions: something to talk about, no rule."""

import ast
import sys
from pathlib import Path

SHOWN = 10


def main(root: Path) -> None:
    """Prints both lists for the Python files below a folder."""
    files, functions = [], []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        files.append((source.count("\n"), str(path)))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append((length, f"{path}:{node.lineno} {node.name}"))
    for title, found in (("files", files), ("functions", functions)):
        lengths = sorted(length for length, _ in found)
        print(f"{len(found)} {title}, median {lengths[len(lengths) // 2]} lines")
        for length, name in sorted(found, reverse=True)[:SHOWN]:
            print(f"{length:6}  {name}")


main(Path(sys.argv[1] if len(sys.argv) > 1 else "zql"))
