"""Python functions as the binder sees them."""

import sys
import textwrap

import pytest
from zql.errors import BindError
from zql.execution import loader
from zql.execution.decorator import udf
from zql.execution.introspect import module_functions, python_function
from zql.execution.signature import described
from zql.expr.functions import PythonFunction

MODULE = """
from __future__ import annotations
import dataclasses, os
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from json import loads
from typing import Any, Literal, NamedTuple, TypedDict
import beside

class Rec(TypedDict):
    id: int
    tags: list[str]

@dataclasses.dataclass
class Point:
    x: float
    label: str | None = None

class Pair(NamedTuple):
    a: int
    b: bytes

def plain(x): return x
def typed(a: int, b: str | None, c: float = 1.0, *rest: str, k: bool = False, **kw) -> str: ...
def record(r: dict) -> Rec: return {"id": r["id"], "tags": r.get("tags", [])}
def uses_all(r): return {**r, "new": r["a"]}
def point() -> Point: ...
def pair() -> Pair | None: ...
def rows(text: str) -> Iterator[Rec]: ...
def words(text: str) -> Iterable[str]: ...
def listed() -> list[Rec]: ...
def mapped() -> dict[str, list[int]]: ...
def money() -> Decimal: ...
def choice() -> Literal["a", "b"]: ...
def mixed() -> int | float: ...
def anything() -> Any: ...
def missing(a: Nowhere | None, b: Nowhere) -> Nowhere: ...
def when() -> datetime: ...
def nothing() -> None: ...
def _private(): ...
alias = loads
CONSTANT = 3
"""


@pytest.fixture
def functions(tmp_path):
    (tmp_path / "lib.py").write_text(MODULE)
    (tmp_path / "beside.py").write_text("value = 1\n")
    return module_functions("lib.py", is_path=True, base_dir=str(tmp_path))


def test_public_functions_only(functions):
    assert "plain" in functions
    assert not {"_private", "alias", "loads", "Rec", "CONSTANT", "Iterable"} & set(functions)
    assert functions["plain"].name == "lib.plain"


RESULTS = [
    ("plain", "", None, False),
    ("typed", "VARCHAR", None, False),
    ("record", 'STRUCT("id" BIGINT, "tags" VARCHAR[])', ("id", "tags"), False),
    ("point", 'STRUCT("x" DOUBLE, "label" VARCHAR)', ("x", "label"), False),
    ("pair", 'STRUCT("a" BIGINT, "b" BLOB)', ("a", "b"), False),
    ("rows", 'STRUCT("id" BIGINT, "tags" VARCHAR[])[]', ("id", "tags"), True),
    ("words", "VARCHAR[]", None, True),
    ("listed", 'STRUCT("id" BIGINT, "tags" VARCHAR[])[]', ("id", "tags"), False),
    ("mapped", "MAP(VARCHAR, BIGINT[])", None, False),
    ("money", "", None, False),
    ("choice", "VARCHAR", None, False),
    ("mixed", "DOUBLE", None, False),
    ("anything", "", None, False),
    ("missing", "", None, False),
    ("when", "TIMESTAMP", None, False),
    ("nothing", "", None, False),
]


@pytest.mark.parametrize(("name", "returns", "fields", "iterates"), RESULTS)
def test_results(functions, name, returns, fields, iterates):
    function = functions[name]
    assert (function.returns, function.iterates) == (returns, iterates)
    assert (function.fields.names if function.fields else None) == fields


def test_parameters_and_null(functions):
    shown = [
        (p.name, p.type, p.passes_null, p.required, p.variadic)
        for p in functions["typed"].parameters
    ]
    assert shown == [
        ("a", "BIGINT", False, True, False),
        ("b", "VARCHAR", True, True, False),
        ("c", "DOUBLE", False, False, False),
        ("rest", "VARCHAR", False, False, True),
        ("k", "BOOLEAN", False, False, False),
    ]
    assert functions["plain"].parameters[0].passes_null
    assert [p.passes_null for p in functions["missing"].parameters] == [True, False]


def test_keys_that_a_record_function_reads(functions):
    assert functions["record"].reads == ("id", "tags")
    assert functions["uses_all"].reads is None
    assert functions["plain"].reads is None


def test_the_decorator_adds_what_annotations_cannot_say():
    @udf(returns="DECIMAL(10, 2)", volatile=True)
    def price(x: int): ...

    @udf
    def same(x: int) -> int:
        return x

    found = described(price, PythonFunction("price", "price"))
    assert (found.returns, found.volatile) == ("DECIMAL(10,2)", True)
    assert described(same, PythonFunction("same", "same")).returns == "BIGINT"
    assert same(3) == 3


def test_the_import_leaves_no_trace(functions, tmp_path):
    assert sorted(p.name for p in tmp_path.iterdir()) == ["beside.py", "lib.py"]
    assert sys.path[-1] == str(tmp_path)
    assert "lib" not in sys.modules


def test_a_file_named_as_a_library_hides_nothing(tmp_path):
    (tmp_path / "json.py").write_text("def shadow(x): return x\n")
    (tmp_path / "u.py").write_text("import json\ndef dumps(x): return json.dumps(x)\n")
    found = module_functions("u.py", is_path=True, base_dir=str(tmp_path))
    assert loader.load(found["dumps"])([1]) == "[1]"


def test_a_changed_file_is_another_function(tmp_path):
    file = tmp_path / "f.py"
    file.write_text("def f(a): return a * 10\n")
    before = module_functions("f.py", True, str(tmp_path))["f"]
    file.write_text("def f(a): return a * 20\n")
    after = module_functions("f.py", True, str(tmp_path))["f"]
    assert before.digest != after.digest
    assert loader.load(after)(1) == 20


def test_the_digest_covers_what_is_imported_from_the_folder(tmp_path):
    (tmp_path / "f.py").write_text("from other import g\ndef f(a): return g(a)\n")
    (tmp_path / "other.py").write_text("def g(a): return a\n")
    before = loader.digest(str(tmp_path / "f.py"))
    (tmp_path / "other.py").write_text("def g(a): return a + 1\n")
    assert loader.digest(str(tmp_path / "f.py")) != before


@pytest.mark.parametrize("changed", ["helper.py", "pack/near.py", "pack/sub/deep.py"])
def test_the_digest_covers_packages_and_what_they_import(tmp_path, changed):
    for folder in ("pack", "pack/sub"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "f.py").write_text("from pack.sub import deep\ndef f(a): return deep.g(a)\n")
    (tmp_path / "pack/sub/deep.py").write_text("import helper\nfrom .. import near\n")
    for name in ("helper.py", "pack/near.py"):
        (tmp_path / name).write_text("ONE = 1\n")
    before = loader.digest(str(tmp_path / "f.py"))
    assert loader.digest(str(tmp_path / "f.py")) == before
    with open(tmp_path / changed, "a") as file:
        file.write("TWO = 2\n")
    assert loader.digest(str(tmp_path / "f.py")) != before


def test_the_digest_of_a_function_covers_modules_that_it_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "beside_it.py"
    path.write_text("def g(a): return a\n")
    scope = {}
    text = "import beside_it, json\ndef given(a: int) -> int: return beside_it.g(a)\n"
    exec(compile(text, "<cell>", "exec"), scope)
    before = python_function(scope["given"]).digest
    assert python_function(scope["given"]).digest == before
    path.write_text("def g(a): return a + 1\n")
    assert python_function(scope["given"]).digest != before
    monkeypatch.delitem(sys.modules, "beside_it")


def test_a_module_that_changed_is_imported_anew(tmp_path):
    (tmp_path / "f.py").write_text("from other_one import FACTOR\ndef f(a): return a * FACTOR\n")
    for factor in (2, 3):
        (tmp_path / "other_one.py").write_text(f"FACTOR = {factor}  # {'x' * factor}\n")
        function = module_functions("f.py", True, str(tmp_path))["f"]
        assert loader.load(function)(10) == 10 * factor


LIMIT: object = 1


def limited(a: int) -> int:
    return max(b + LIMIT for b in [a])


def test_a_function_given_anew_is_another_one(place, monkeypatch):
    place.rows("in.jsonl", [{"a": 1}])
    with place.session() as session:
        for value in (1, 2):

            def given(a: int, more: int = value) -> int:
                return a + more

            monkeypatch.setitem(globals(), "LIMIT", value * 10)
            session.udf(given)
            session.udf(limited)
            query = session.query("FROM 'in.jsonl' |> SELECT given(a) AS x, limited(a) AS y")
            assert query.to_dicts() == [{"x": 1 + value, "y": 1 + value * 10}]


def test_the_digest_knows_the_values_around_a_function(monkeypatch):
    def digest(limit, default=None):
        def given(a: int, b=default) -> int:
            return max(b + LIMIT for b in [a])

        monkeypatch.setitem(globals(), "LIMIT", limit)
        return python_function(given).digest

    assert digest(1) == digest(1)
    assert digest(1, 2) == digest(1, 2)
    assert len({digest(1), digest(2), digest(1.0), digest(1, 2), digest(1, "2")}) == 5
    assert digest([1]) != digest([2])


def test_functions_made_by_functions(tmp_path):
    (tmp_path / "m.py").write_text(
        "def _make():\n    def f(a): return a + 1\n    return f\ng = _make()\n"
    )
    found = module_functions("m.py", True, str(tmp_path))
    assert loader.load(found["g"])(1) == 2


def test_modules(tmp_path):
    assert module_functions("math", is_path=False)["sqrt"].parameters
    found = module_functions("textwrap", is_path=False)
    assert loader.load(found["dedent"]) is textwrap.dedent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_at_all\n", "nowhere_at_all"),
        ("def f(:\n", "SyntaxError"),
        ("raise SystemExit('no')\n", "SystemExit: no"),
        ("def g():\n    1 // 0\ng()\n", "ZeroDivisionError"),
    ],
)
def test_an_import_that_fails_says_where(tmp_path, text, said):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(BindError) as caught:
        module_functions("bad.py", True, str(tmp_path))
    assert said in caught.value.message
    assert all("bad.py" in note for note in caught.value.notes)


def test_a_missing_file(tmp_path):
    with pytest.raises(BindError, match="there is no Python file"):
        module_functions("no.py", True, str(tmp_path))
