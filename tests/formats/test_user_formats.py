"""Formats of a user's own: how they are made known, what they are handed, what goes wrong."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import TypedDict

import pyarrow as pa
import pytest
import zql
import zql.source
from zql.errors import BindError, StorageError, UdfError, UsageError
from zql.execution import format_decorator, loader

FASTA = '''
import zql
import zql.source
from collections.abc import Iterator
from typing import TypedDict

class Record(TypedDict):
    id: str
    n: int

@zql.format("fasta", suffixes=[".fasta", ".fa"])
class Fasta:
    """Two lines a record; a part is 20 records."""

    def splits(self, path):
        with open(path) as file:
            count = sum(1 for _ in file) // 2
        return [(start, start + 20) for start in range(0, count, 20)]

    def read(self, path, part=None, *, columns=None, least: int = 0) -> Iterator[Record]:
        with open(path) as file:
            for number, (head, tail) in enumerate(zip(file, file)):
                if part is None or part[0] <= number < part[1]:
                    if int(tail) >= least:
                        yield {"id": head[1:].strip(), "n": int(tail)}

    def write(self, rows, path, *, mark: str = ">"):
        with open(path, "w") as file:
            for row in rows:
                file.write(f"{mark}{row['id']}\\n{row['n']}\\n")
'''


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of its own, and no format that another test has decorated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setattr(format_decorator, "decorated", {})
    monkeypatch.setattr("zql.execution.own_formats.decorated", format_decorator.decorated)


def module(name: str, text: str) -> None:
    with open(name, "w") as file:
        file.write(textwrap.dedent(text))


def rows(session, text):
    return session.query(text).to_dicts()


def records(count):
    return "".join(f">r{i}\n{i}\n" for i in range(count))


def script(session, text):
    return session.run(f"IMPORT PYTHON 'fasta.py';\n{text}")


@pytest.fixture
def fasta():
    module("fasta.py", FASTA)
    for name, count in (("a", 50), ("b", 3)):
        with open(f"{name}.fasta", "w") as file:
            file.write(records(count))


# ---- ways to make one known ----------------------------------------------------------------------


def test_an_import_makes_the_formats_of_a_file_known(fasta):
    with zql.Session() as session:
        text = "IMPORT PYTHON 'fasta.py' AS f;"
        assert rows(session, f"{text} FROM 'b.fasta' |> AGGREGATE count(*) AS c") == [{"c": 3}]
        assert rows(session, "FROM read_fasta('b.fasta', least => 2)") == [{"id": "r2", "n": 2}]
        os.rename("b.fasta", "b.bin")
        assert len(rows(session, "FROM read_fasta('b.bin')")) == 3
        assert rows(session, "FROM '*.fasta' |> SELECT filename |> DISTINCT") == [
            {"filename": "a.fasta"}
        ]


def test_a_script_that_imports_a_module_of_zql_knows_its_formats(fasta):
    module("lib.zql", "IMPORT PYTHON 'fasta.py';\nCREATE TEMP VIEW b AS FROM 'b.fasta';")
    with zql.Session() as session:
        assert len(rows(session, "IMPORT MODULE 'lib.zql'; FROM lib.b")) == 3


class Line(TypedDict):
    text: str


def make_reader():
    def lines(file, *, upper: bool = False) -> Iterator[Line]:
        for line in file:
            text = line.decode().strip()
            yield {"text": text.upper() if upper else text}

    return lines


@pytest.mark.parametrize("workers", [1, 2])
def test_a_session_takes_a_function_of_the_caller(workers):
    module("x.log", "one\ntwo\n")
    with zql.Session(workers=workers) as session:
        session.format(make_reader(), "log", suffixes=".log")
        assert rows(session, "FROM 'x.log'") == [{"text": "one"}, {"text": "two"}]
        session.run("FROM read_log('x.log', upper => true) |> WRITE 'x.jsonl'")
    with open("x.jsonl") as file:
        assert [json.loads(line) for line in file] == [{"text": "ONE"}, {"text": "TWO"}]
    with zql.Session() as other, pytest.raises(StorageError, match="does not tell its format"):
        other.query("FROM 'x.log'")


def test_what_is_decorated_in_this_process_is_known_to_every_session():
    module("x.log", "one\n")
    zql.format("log")(make_reader())
    with zql.Session() as session:
        assert rows(session, "FROM 'x.log'") == [{"text": "one"}]
    zql.format("log", suffixes=[".lg"])(make_reader())  # defined anew, as in a notebook
    with zql.Session() as session, pytest.raises(StorageError, match="does not tell its format"):
        session.query("FROM 'x.log'")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with two formats, one of which cannot be loaded."""
    site = tmp_path / "site"
    info = site / "zql_warc-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zql-warc\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[zql.formats]\nwarc = zql_warc_formats:read\nbroken = zql_warc_formats:nothing\n"
    )
    (site / "zql_warc_formats.py").write_text(
        "import zql\n"
        "@zql.format('warc', suffixes=['.warc', '.warc.gz'])\n"
        "def read(path):\n"
        "    with open(path, 'rb') as file:\n"
        "        yield {'size': len(file.read())}\n"
    )
    before, folders = list(sys.path), list(loader.searched())
    monkeypatch.syspath_prepend(site)
    yield site
    # Whoever asks for entry points later must not find the package.
    sys.path[:], loader._folders[:] = before, folders
    sys.modules.pop("zql_warc_formats", None)


def test_an_installed_package_is_asked_when_nobody_else_knows(package):
    module("x.warc", "12345")
    module("x.warc.gz", "123")
    module("x.jsonl", '{"a": 1}\n')
    with zql.Session() as session:
        assert rows(session, "FROM 'x.jsonl'") == [{"a": 1}]
        with pytest.raises(StorageError):
            session.query("FROM '*.jsonl', 'y.json'")
        assert "zql_warc_formats" not in sys.modules
        assert rows(session, "FROM 'x.warc'") == [{"size": 5}]
        assert rows(session, "FROM 'x.warc.gz'") == [{"size": 3}]  # its own suffix: as it is stored
        session.run("FROM 'x.warc' |> WRITE 'out/{shard}.jsonl'")
    with zql.Session() as session:
        module("x.bin", "1")
        assert rows(session, "FROM read_warc('x.bin')") == [{"size": 1}]


def test_a_package_that_cannot_be_loaded_is_told(package):
    module("x.bin", "1")
    with zql.Session() as session:
        with pytest.raises(UsageError, match='"broken" of zql-warc cannot be loaded') as caught:
            session.query("FROM read_broken('x.bin')")
        assert caught.value.code == "U626"
        with pytest.raises(StorageError) as caught:
            session.query("FROM 'x.bin'")
        assert "broken" in caught.value.notes[0]


# ---- what may not be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffixes", "message"),
    [
        ("csv", None, "is a format of ZQL's own"),
        ("JSON", None, "is a format of ZQL's own"),
        ("a b", None, "cannot be called 'a b'"),
        ("x", ["x"], "cannot have the suffix 'x'"),
        ("x", [".jsonl"], 'suffix ".jsonl", which is ZQL\'s own'),
        ("x", [".gz"], 'suffix ".gz", which is ZQL\'s own'),
    ],
)  # fmt: skip
def test_names_and_suffixes_of_zqls_own_cannot_be_taken(name, suffixes, message):
    with pytest.raises(UsageError, match=message) as caught:
        zql.format(name, suffixes=suffixes)
    assert caught.value.code == "U624"


def test_two_formats_of_one_name_or_suffix_are_an_error(fasta):
    module("other.py", FASTA)
    module("third.py", FASTA.replace('"fasta", suffixes', '"other", suffixes'))
    with zql.Session() as session:
        session.run("IMPORT PYTHON 'fasta.py'; IMPORT PYTHON 'fasta.py' AS again;")
        with pytest.raises(UsageError, match='two formats called "fasta"') as caught:
            session.run("IMPORT PYTHON 'other.py';")
        assert caught.value.line == 1
        with pytest.raises(UsageError, match=r'have the suffix "\.fasta" both'):
            session.run("IMPORT PYTHON 'third.py';")


def test_what_neither_reads_nor_writes_is_no_format():
    with pytest.raises(UsageError, match="neither read nor write"):
        zql.format("x")(type("Empty", (), {}))
    module("a.x", "")
    with zql.Session() as session:
        session.format(lambda path, filename=1: [], "x")
        with pytest.raises(UsageError, match="is an option of ZQL's"):
            session.query("FROM 'a.x'")


def test_a_longer_suffix_than_zqls_own_is_meant():
    module("a.tree.json", "1")
    with zql.Session() as session:
        session.format(lambda path: [{"path": path}], "tree", suffixes=".tree.json")
        assert rows(session, "FROM 'a.tree.json'") == [{"path": "a.tree.json"}]


def test_options_are_checked(fasta):
    with zql.Session() as session:
        script(session, "")
        with pytest.raises(UsageError, match='read_fasta has no option "leest"') as caught:
            session.query("FROM read_fasta('a.fasta', leest => 1)")
        assert caught.value.hint == 'did you mean "least"?'
        assert caught.value.column == 28
        with pytest.raises(UsageError, match="must be a whole number, not 'x'"):
            session.query("FROM read_fasta('a.fasta', least => 'x')")
        with pytest.raises(UsageError, match='WRITE has no option "marc"'):
            session.run("FROM 'a.fasta' |> WRITE 'c.fasta' OPTIONS (marc = '!')")
        session.format(lambda path, *, width: [{"w": width}], "wide")
        module("a.wide", "")
        with pytest.raises(UsageError, match='read_wide needs the option "width"') as caught:
            session.query("FROM 'a.wide'")
        assert caught.value.code == "U627"
        assert rows(session, "FROM read_wide('a.wide', width => 0.5)")[0]["w"] == pytest.approx(0.5)
        session.format(lambda path, **options: [{"o": str(options)}], "any")
        module("a.any", "")
        assert rows(session, "FROM read_any('a.any', x => [1, 2])") == [{"o": "{'x': (1, 2)}"}]


def test_options_of_the_other_methods_are_options_too(fasta):
    class Cut:
        def schema(self, path, *, kind: str = "BIGINT"):
            return {"n": kind}

        def splits(self, path, *, parts: int = 1):
            return range(parts)

        def read(self, path, part=None):
            yield {"n": part}

    module("a.cut", "")
    with zql.Session() as session:
        session.format(Cut, "cut")
        found = rows(session, "FROM read_cut('a.cut', parts => 3, kind => 'TINYINT')")
        assert found == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert session.query("FROM read_cut('a.cut', kind => 'TINYINT')").types == ["TINYINT"]


def test_a_format_that_cannot_write_or_read_says_so(fasta):
    module("a.sink", "")
    with zql.Session() as session:
        session.format(type("Sink", (), {"write": lambda self, rows, path: None}), "sink")
        session.format(lambda path: [], "lines")
        with pytest.raises(UsageError, match='the format "sink" cannot read') as caught:
            session.query("FROM 'a.sink'")
        assert caught.value.code == "U625"
        with pytest.raises(UsageError, match='the format "lines" cannot write'):
            session.run("FROM VALUES (1) |> WRITE 'a.lines'")


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_parts_are_read_in_order_by_any_number_of_workers(fasta, workers):
    with zql.Session(workers=workers) as session:
        report = script(session, "FROM '*.fasta' |> WHERE n <> 7 |> WRITE 'o/{shard}.fasta';")
        assert [f.rows for f in report.outputs] == [19, 20, 10, 3]
        assert report.counters["records_in"] == 53
        assert report.counters["tasks"] == 4
        found = rows(session, "FROM 'o/*.fasta' |> SELECT n")
        script_rows = rows(session, "FROM '*.fasta' |> WHERE n <> 7 |> SELECT n")
    assert found == script_rows
    assert [r["n"] for r in found] == [i for i in range(50) if i != 7] + [0, 1, 2]
    with open("o/0.fasta") as file:
        assert file.read() == records(20).replace(">r7\n7\n", "")


@pytest.mark.parametrize("optimizer", [True, False])
def test_virtual_columns_folders_and_packed_files(fasta, optimizer):
    os.makedirs("k=1")
    with zql.Session(config={"optimizer": optimizer}) as session:
        script(session, "FROM 'a.fasta' |> LIMIT 2 |> WRITE 'k=1/c.fasta.gz';")
        with open("k=1/c.fasta.gz", "rb") as file:
            assert file.read(2) == b"\x1f\x8b"
        found = rows(session, "FROM 'k=*/*' |> SELECT *, filename, file_row_number AS row")
        assert found == [
            {"id": f"r{i}", "n": i, "k": "1", "filename": "k=1/c.fasta.gz", "row": i}
            for i in (0, 1)
        ]
        numbered = rows(session, "FROM 'a.fasta' |> WHERE n > 45 |> SELECT file_row_number AS row")
        assert [r["row"] for r in numbered] == [46, 47, 48, 49]


def test_the_rows_of_a_scan_can_be_used_more_than_once(fasta):
    with zql.Session() as session:
        script(session, "")
        joined = "FROM 'a.fasta' AS x JOIN 'a.fasta' AS y USING (n) |> AGGREGATE count(*) AS c"
        assert rows(session, joined) == [{"c": 50}]
        lateral = """
            FROM 'b.fasta' AS x, LATERAL (FROM 'a.fasta' AS y |> WHERE y.n = x.n) AS l
            |> SELECT l.n
        """
        assert len(rows(session, lateral)) == 3
        inside = "FROM 'a.fasta' |> WHERE n IN (FROM 'b.fasta' |> SELECT n) |> SELECT n"
        assert [r["n"] for r in rows(session, inside)] == [0, 1, 2]
        view = "CREATE TEMP VIEW v AS FROM 'a.fasta'; FROM v |> UNION ALL (FROM v), (FROM v)"
        assert len(rows(session, view)) == 150


def test_a_reader_is_told_the_columns_and_need_not_go_on(tmp_path):
    module(
        "endless.py",
        """
        import zql

        @zql.format("endless")
        def read(path, *, columns=None):
            number = 0
            while True:
                yield {"columns": repr(columns), "n": number, "more": 1}
                number += 1
    """,
    )
    module("x.endless", "")
    with zql.Session() as session:
        text = "IMPORT PYTHON 'endless.py'; FROM 'x.endless' |> SELECT n, columns |> LIMIT 2"
        assert rows(session, text) == [{"n": n, "columns": "['columns', 'n']"} for n in (0, 1)]
        report = session.run("FROM 'x.endless' |> LIMIT 3 |> WRITE 'x.jsonl'")
        assert report.outputs[0].rows == 3


@pytest.mark.parametrize("kind", ["table", "batch", "pandas", "polars", "list", "tables"])
def test_rows_are_dicts_or_tables_of_any_kind(kind):
    def read(path):
        table = pa.table({"a": [1, 2, None], "s": ["x", "y", "z"]})
        if kind == "tables":
            yield from (table.slice(0, 1), table.slice(1))
        else:
            yield {
                "table": lambda: table,
                "batch": lambda: table.to_batches()[0],
                "pandas": table.to_pandas,
                "polars": lambda: __import__("polars").from_arrow(table),
                "list": lambda: table,
            }[kind]()

    module("x.t", "")
    with zql.Session() as session:
        session.format((lambda path: list(read(path))) if kind == "list" else read, "t")
        found = session.query("FROM 'x.t' |> SELECT s, a").to_dicts()
        assert [(r["s"], r["a"]) for r in found] == [("x", 1), ("y", 2), ("z", None)]
        assert rows(session, "FROM 'x.t' |> AGGREGATE count(*) AS c") == [{"c": 3}]


def test_columns_are_said_or_seen_and_joined_by_name():
    class Said:
        def schema(self, path, *, wide: bool = False):
            name = "v" if "1" in path else "w"
            return {name: "HUGEINT" if wide else int, "s": "VARCHAR"}

        def read(self, path, *, wide: bool = False):
            yield {"v" if "1" in path else "w": 1, "s": None}

    for name in ("1.said", "2.said"):
        module(name, "")
    with zql.Session() as session:
        session.format(Said, "said")
        query = session.query("FROM '*.said'")
        assert list(zip(query.columns, query.types, strict=True)) == [
            ("v", "BIGINT"), ("s", "VARCHAR"), ("w", "BIGINT")
        ]  # fmt: skip
        assert query.to_dicts() == [{"v": 1, "s": None, "w": None}, {"v": None, "s": None, "w": 1}]
        wide = session.query("FROM read_said('1.said', wide => true)")
        assert wide.types == ["HUGEINT", "VARCHAR"]
        told = session.query("FROM read_said('1.said', columns => {v: 'DOUBLE', s: 'VARCHAR'})")
        assert told.types == ["DOUBLE", "VARCHAR"]
        assert told.to_dicts() == [{"v": 1.0, "s": None}]
        session.format(type("Bad", (), {"schema": lambda s, p: 5, "read": lambda s, p: []}), "bad")
        module("x.bad", "")
        with pytest.raises(UdfError, match=r"Bad.schema gave 5, which is no schema"):
            session.query("FROM 'x.bad'")
        worse = type("Worse", (), {"schema": lambda s, p: {"a": "FOO"}, "read": lambda s, p: []})
        session.format(worse, "worse")
        module("x.worse", "")
        with pytest.raises(UdfError, match=r"Worse.schema gave 'FOO' for 'a', which is no type"):
            session.query("FROM 'x.worse'")


def test_columns_seen_in_several_files_have_a_type_for_all():
    given = {"1": {"a": None, "l": [], "n": 1}, "2": {"a": 7, "l": [1], "n": 0.5}}
    for name in given:
        module(f"{name}.seen", "")
    with zql.Session() as session:
        session.format(lambda path: [given[path[0]]], "seen")
        query = session.query("FROM '*.seen'")
        assert query.types == ["BIGINT", "BIGINT[]", "DOUBLE"]
        assert query.to_dicts() == [{"a": None, "l": [], "n": 1.0}, {"a": 7, "l": [1], "n": 0.5}]
        assert session.query("FROM '1.seen'").types == ["VARCHAR", "VARCHAR[]", "BIGINT"]


def test_remote_files_are_streamed_or_fetched():
    import fsspec

    files = fsspec.filesystem("memory")
    files.pipe("/formats/a.log", b"one\ntwo\n")
    try:
        with zql.Session() as session:
            session.format(make_reader(), "log")
            assert rows(session, "FROM 'memory://formats/*.log' |> SELECT text") == [
                {"text": "one"}, {"text": "two"}
            ]  # fmt: skip
            session.format(lambda path: [{"name": os.path.basename(path)}], "p")
            found = rows(session, "FROM read_p('memory://formats/a.log') |> SELECT name, filename")
            assert found == [{"name": "a.log", "filename": "memory://formats/a.log"}]
    finally:
        files.rm("/formats", recursive=True)


# ---- failures ------------------------------------------------------------------------------------


BROKEN = """
    import zql
    from collections.abc import Iterator

    @zql.format("fail")
    class Fail:
        def splits(self, path):
            return [0, 1]

        def schema(self, path):
            return {"n": "BIGINT"}

        def read(self, path, part=None):
            yield {"n": 1}
            if part == 1:
                raise ValueError("bad block")
            yield {"n": 2}

    @zql.format("misfit")
    def misfit(path):
        for n in range(300):
            yield {"n": n if n != 250 else "x"}

    @zql.format("extra")
    def extra(path):
        for n in range(300):
            yield {"n": n, **({"more": 1} if n == 250 else {})}

    @zql.format("none")
    def none(path):
        yield {"n": 1}
        yield None

    @zql.format("one")
    def one(path):
        return 5

    @zql.format("leaves")
    class Leaves:
        def read(self, path):
            yield {"n": 1}
            raise SystemExit(3)
"""


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize(
    ("suffix", "code", "message"),
    [
        (
            "fail",
            "R710",
            "broken.Fail on x.fail, part 2, after 1 row, raised ValueError: bad block",
        ),
        ("misfit", "R711", "broken.misfit on row 251 of x.misfit gave 'x', which does not fit"),
        ("extra", "R711", "broken.extra on row 251 of x.extra gave {'n': 250, 'more': 1}"),
        ("none", "R711", "broken.none on row 2 of x.none gave None, where a reader gives rows"),
        ("one", "R711", "broken.one on x.one gave 5, where a reader gives rows"),
        ("leaves", "R710", "broken.Leaves on x.leaves, after 1 row, raised SystemExit: 3"),
    ],
)
def test_a_reader_that_fails_names_file_and_row(workers, suffix, code, message):
    module("broken.py", BROKEN)
    module(f"x.{suffix}", "")
    text = f"IMPORT PYTHON 'broken.py'; FROM 'x.{suffix}'"
    with zql.Session(workers=workers) as session, pytest.raises(UdfError) as caught:
        rows(session, text) if workers is None else session.run(
            f"{text} |> WRITE 'out/{{shard}}.jsonl'"
        )
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    if suffix == "fail":
        assert caught.value.notes[-1].startswith('File "broken.py", line 16, in read: raise')
    assert not os.path.exists("out")


WRITERS = """
    import zql

    class Base:
        def read(self, path):
            return []

    @zql.format("fail")
    class Fail(Base):
        def write(self, rows, path):
            with open(path, "w") as file:
                for row in rows:
                    file.write("x")
                    if row["n"] == 2:
                        raise ValueError("disk is round")

    @zql.format("early")
    class Early(Base):
        def write(self, rows, path):
            open(path, "w").close()
            next(rows)

    @zql.format("nothing")
    class Nothing(Base):
        def write(self, rows, path):
            list(rows)

    @zql.format("swallows")
    class Swallows(Base):
        def write(self, rows, path):
            open(path, "w").close()
            try:
                list(rows)
            except Exception:
                pass
"""


@pytest.mark.parametrize("name", ["x.{}", "out/{{shard}}.{}"])
@pytest.mark.parametrize(
    ("suffix", "code", "message"),
    [
        ("fail", "R710", ", after 3 rows, raised ValueError: disk is round"),
        ("early", "R711", " returned before it had taken all rows"),
        ("nothing", "R711", " wrote no file"),
    ],
)
def test_a_writer_that_fails_leaves_nothing(name, suffix, code, message):
    module("writers.py", WRITERS)
    module("in.jsonl", "".join(f'{{"n": {n}}}\n' for n in range(5)))
    path = name.format(suffix)
    before = sorted(os.listdir("."))
    with zql.Session(workers=1) as session, pytest.raises(UdfError) as caught:
        session.run(f"IMPORT PYTHON 'writers.py'; FROM 'in.jsonl' |> WRITE '{path}'")
    assert caught.value.code == code
    assert caught.value.message.startswith(f"writers.{suffix.title()}.write on ")
    assert path.replace("{shard}", "0") in caught.value.message
    assert caught.value.message.endswith(message)
    assert sorted(n for n in os.listdir(".") if n != ".cache") == [
        n for n in before if n != ".cache"
    ]


def test_a_writer_cannot_swallow_what_failed_before_it():
    module(
        "writers.py",
        WRITERS
        + """
    def bad(n: int) -> int:
        raise ValueError("first")
    """,
    )
    module("in.jsonl", '{"n": 1}\n')
    with (
        zql.Session(workers=1) as session,
        pytest.raises(UdfError, match="raised ValueError: first"),
    ):
        session.run(
            "IMPORT PYTHON 'writers.py' AS w;"
            "FROM 'in.jsonl' |> SELECT w.bad(n) AS n |> WRITE '{shard}.swallows'"
        )
    assert not os.path.exists("0.swallows")


# ---- writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_numbered_counted_and_kept(fasta, workers):
    with zql.Session(workers=workers) as session:
        text = """
            FROM 'a.fasta'
            |> WRITE 'o/p-{shard}-{shards}.fasta.zst' OPTIONS (mode = 'skip', mark = '!')
        """
        report = script(session, text)
        assert [(f.path, f.rows) for f in report.outputs] == [
            ("o/p-0-3.fasta.zst", 20), ("o/p-1-3.fasta.zst", 20), ("o/p-2-3.fasta.zst", 10)
        ]  # fmt: skip
        os.remove("o/p-1-3.fasta.zst")
        again = session.run(text)
        assert again.counters["records_written"] == 20
        assert again.counters["records_kept"] == 30
        assert len(rows(session, "FROM 'o/*'")) == 50
        with open("fasta.py", "a") as file:
            file.write("\n# another text\n")
    with zql.Session() as session, pytest.raises(StorageError) as caught:
        script(session, text)
    assert caught.value.code == "R753"


def test_cuts_folders_and_results_without_rows(fasta):
    with zql.Session() as session:
        report = script(
            session,
            """
            FROM 'a.fasta' |> ORDER BY n DESC
            |> WRITE 'o/' OPTIONS (format = 'fasta', shards = 4)
        """,
        )
        assert [(f.path, f.rows) for f in report.outputs] == [
            (f"o/part-{i:05d}.fasta", n) for i, n in enumerate([12, 13, 12, 13])
        ]
        session.run("FROM 'a.fasta' |> WHERE n < 0 |> WRITE 'none.fasta'")
        assert os.path.getsize("none.fasta") == 0
        assert rows(session, "FROM 'none.fasta'") == []
        session.query("FROM 'a.fasta'").write("q.fa")
        assert len(rows(session, "FROM 'q.fa'")) == 50


def test_writers_take_tables_and_the_schema():
    module(
        "tables.py",
        """
        import json
        import zql
        import pandas as pd
        from collections.abc import Iterator

        @zql.format("frames")
        class Frames:
            def write(self, rows: Iterator[pd.DataFrame], file, *, schema):
                names = ",".join(schema.names)
                file.write(f"{names}\\n".encode())
                for frame in rows:
                    file.write(frame.to_csv(index=False, header=False).encode())
    """,
    )
    with zql.Session() as session:
        session.run(
            "IMPORT PYTHON 'tables.py'; FROM VALUES (1, [2]), (3, NULL) AS t(a, b) "
            "|> WRITE 'x.frames'"
        )
    with open("x.frames") as file:
        assert file.read() == "a,b\n1,[2]\n3,\n"


def test_explain_names_the_code_and_its_parts(fasta):
    with zql.Session() as session:
        text = session.query(
            "IMPORT PYTHON 'fasta.py'; FROM 'a.fasta' |> WHERE n > 3 |> SELECT id"
        ).explain()
        assert "Read a.fasta (fasta by fasta.Fasta, 1 file, in parts): id, n" in text
        found = json.loads(session.query("FROM 'a.fasta'").explain(format="json"))
        assert '"code": "fasta.Fasta", "in_parts": true' in json.dumps(found)


# ---- functions as sources ------------------------------------------------------------------------


def test_a_function_is_a_source_of_rows():
    module(
        "made.py",
        """
        def numbers(n: int = 3, *, step: int = 1):
            for i in range(0, n, step):
                yield {"i": i}

        def bad():
            raise ValueError("no numbers")
            yield
    """,
    )
    with zql.Session() as session:
        script_text = "IMPORT PYTHON 'made.py' AS m; FROM m.numbers(5, step => 2)"
        assert rows(session, script_text) == [{"i": 0}, {"i": 2}, {"i": 4}]
        assert rows(session, "FROM m.numbers() AS t |> WHERE t.i > 0") == [{"i": 1}, {"i": 2}]
        with pytest.raises(UdfError, match=r"made\.bad .* raised ValueError: no numbers"):
            rows(session, "FROM m.bad()")
        with pytest.raises(BindError, match='unknown function "nope"'):
            session.query("FROM m.nope()")
        session.udf(lambda n: ({"i": i} for i in range(n)), "count_up")
        assert rows(session, "FROM count_up(2)") == [{"i": 0}, {"i": 1}]
        session.run("FROM m.numbers() |> WRITE 'n.jsonl'")
    with open("n.jsonl") as file:
        assert file.read() == '{"i":0}\n{"i":1}\n{"i":2}\n'


def test_a_reader_of_a_module_can_be_called_by_its_own_name(fasta):
    module(
        "log.py",
        """
        import zql

        @zql.format("log")
        def lines(file):
            for line in file:
                yield {"text": line.decode().strip()}
    """,
    )
    module("x.bin", "one\n")
    with zql.Session() as session:
        found = rows(
            session, "IMPORT PYTHON 'log.py'; FROM log.lines('*.bin') |> SELECT *, filename"
        )
        assert found == [{"text": "one", "filename": "x.bin"}]


# ---- what else -----------------------------------------------------------------------------------


def test_what_a_format_prints_is_no_part_of_the_results(capfd):
    def read(path):
        print("reading")
        yield {"n": 1}

    module("x.loud", "")
    before = sys.stdout
    with zql.Session() as session:
        session.format(read, "loud")
        session.query("FROM 'x.loud'").show()
    out, err = capfd.readouterr()
    assert "reading" not in out
    assert "reading" in err
    assert sys.stdout is before


def test_a_reader_that_ends_its_worker_is_named():
    module(
        "crash.py",
        """
        import os
        import zql

        @zql.format("crash")
        class Crash:
            def schema(self, path):
                return {"n": int}

            def read(self, path):
                os._exit(7)
    """,
    )
    module("x.crash", "")
    with zql.Session(workers=1) as session, pytest.raises(UdfError, match="R715") as caught:
        session.run("IMPORT PYTHON 'crash.py'; FROM 'x.crash' |> WRITE 'x.jsonl'")
    assert caught.value.message.endswith("while it called crash.Crash")


def test_a_check_knows_files_that_a_script_would_write(fasta):
    text = """
        IMPORT PYTHON 'fasta.py';
        FROM 'a.fasta' |> WRITE 'new/{shard}.fasta';
        FROM 'new/*.fasta' |> SELECT idd |> WRITE 'x.jsonl';
    """
    with zql.Session() as session:
        errors = session.check(zql.source.Source("x.zql", text))
    assert [(e.code, e.hint) for e in errors] == [("N201", 'did you mean "id"?')]
    assert not os.path.exists("new")


@pytest.mark.parametrize("workers", [1, 2])
def test_python_over_a_reader_and_rejects_know_the_row(fasta, workers):
    module(
        "strict.py",
        """
        def even(n: int) -> int:
            if n % 20 == 11:
                raise ValueError("odd one out")
            return n
    """,
    )
    with zql.Session(workers=workers) as session:
        script(
            session,
            """
            IMPORT PYTHON 'strict.py';
            FROM 'a.fasta' |> EXTEND strict.even(n) AS e ON ERROR SKIP INTO 'bad.jsonl'
            |> WRITE 'good.jsonl'
        """,
        )
        found = rows(session, "FROM 'bad.jsonl' |> SELECT n, _file, _row")
        with pytest.raises(UdfError, match=r"strict.even on row 12 of a.fasta raised ValueError"):
            rows(session, "FROM 'a.fasta' |> SELECT strict.even(n)")
    assert found == [{"n": n, "_file": "a.fasta", "_row": n + 1} for n in (11, 31)]
