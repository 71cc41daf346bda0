"""Functions get what their annotations say: dataclasses, NamedTuples, enumerations, paths."""

import pytest
import zql

FUNCTIONS = """
from __future__ import annotations
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

class Lang(enum.Enum):
    EN = "en"
    DE = "de"

class Span(NamedTuple):
    start: int
    stop: int = 9

@dataclass
class Meta:
    lang: Lang
    spans: list[Span]
    by_name: dict[str, Span] = field(default_factory=dict)

@dataclass(frozen=True, slots=True)
class Doc:
    id: int
    meta: Meta | None
    score: float = 0.5

@dataclass
class Tree:
    name: str
    parts: list[Tree] = field(default_factory=list)

class Keys(TypedDict):
    meta: Meta

class Out(TypedDict):
    id: int
    text: str

def told(value) -> str:
    return repr(value).replace("<Lang.EN: 'en'>", "EN").replace("udf.", "")

def row(doc: Doc) -> Out:
    return {"id": doc.id, "text": told(doc)}

def same(doc: Doc) -> Doc:
    return doc

def keys(doc: Keys) -> Out:
    return {"id": 0, "text": told(doc["meta"])}

def meta(value: Meta) -> str:
    return told(value)

def metas(values: list[Meta | None], *, other: Meta | None = None) -> str:
    return told([values, other])

def pair(value: tuple[int, ...], more: Span) -> str:
    return told((value, more))

def lang(value: Lang) -> Lang:
    return value if isinstance(value, Lang) else None

def path(value: Path) -> Path:
    return value / "x"

def batch(docs: list[Doc]) -> Iterator[Out]:
    yield {"id": len(docs), "text": told(docs[0])}

def shard(docs: Iterator[Doc]) -> Iterator[Out]:
    for doc in docs:
        yield {"id": doc.id, "text": told(doc)}

def group(key: Lang, docs: Iterator[Doc]) -> Out:
    docs = list(docs)
    return {"id": len(docs), "text": f"{key} {told(docs[0])}"}

def needs(span: Span) -> Out:
    return {"id": 0, "text": ""}

def untyped(doc: Doc):
    return {"n": doc.id + 1}

def tree(value: Tree) -> str:
    return value.name + str([part.name for part in value.parts])
"""
SPANS = "'spans': [{'start': 1, 'stop': 2}], 'by_name': MAP {'a': {'start': 3, 'stop': 4}}"
META = f"{{'lang': 'en', {SPANS}}}"
ROWS = (
    f"IMPORT PYTHON 'udf.py'; FROM VALUES (1, {META}, 'x'), (2, NULL, 'y') AS docs(id, meta, more) "
)
TOLD = "Meta(lang=EN, spans=[Span(start=1, stop=2)], by_name={'a': Span(start=3, stop=4)})"
DOC = f"Doc(id=1, meta={TOLD}, score=0.5)"
DOCS = [{"id": 1, "text": DOC}, {"id": 2, "text": "Doc(id=2, meta=None, score=0.5)"}]


@pytest.fixture
def rows(place):
    place.functions(FUNCTIONS)
    with place.session() as session:
        yield lambda text: session.query(ROWS + text).to_dicts()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|> MAP udf.row", DOCS),
        ("|> MAP SHARDS udf.shard", DOCS),
        ("|> MAP BATCHES udf.batch", [{"id": 2, "text": DOC}]),
        (
            "|> EXTEND 'en' AS l |> REDUCE udf.group GROUP BY l",
            [{"id": 2, "text": f"Lang.EN {DOC}"}],
        ),
        ("|> MAP udf.keys |> LIMIT 1", [{"id": 0, "text": TOLD}]),
        ("|> SELECT udf.meta(meta) AS x", [{"x": TOLD}, {"x": None}]),
        (
            "|> SELECT udf.metas([meta, NULL], other => meta) AS x |> LIMIT 1",
            [{"x": f"[[{TOLD}, None], {TOLD}]"}],
        ),
        (
            "|> SELECT udf.pair([id, 5], {'start': 1, 'stop': NULL}) AS x |> LIMIT 1",
            [{"x": "((1, 5), Span(start=1, stop=None))"}],
        ),
        ("|> SELECT udf.lang('de') AS x |> LIMIT 1", [{"x": "de"}]),
        ("|> SELECT udf.path(more) AS x", [{"x": "x/x"}, {"x": "y/x"}]),
        ("|> MAP udf.untyped", [{"n": 2}, {"n": 3}]),
        (
            "|> SELECT udf.tree({'name': more, 'parts': [{'name': 'b', 'parts': NULL}]}) AS x",
            [{"x": "x['b']"}, {"x": "y['b']"}],
        ),
    ],
)
def test_arguments_are_what_annotations_say(rows, text, expected):
    assert rows(text) == expected


def test_a_dataclass_goes_through_as_it_is(rows):
    found = rows("|> MAP udf.same |> LIMIT 1")[0]
    assert found["id"], found["score"] == (1, 0.5)
    assert found["meta"]["lang"] == "en"
    assert found["meta"]["spans"] == [{"start": 1, "stop": 2}]


def test_in_workers_too(place):
    place.functions(FUNCTIONS)
    place.run(ROWS + "|> MAP udf.row |> WRITE 'out.jsonl'")
    assert place.read("out.jsonl") == DOCS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("|> MAP udf.needs", 'TypeError: Span needs "start", and there is no such column'),
        ("|> SELECT udf.lang(more) AS x", "ValueError: 'x' is not a valid Lang"),
    ],
)
def test_what_cannot_be_made(rows, text, message):
    with pytest.raises(zql.UdfError, match=message):
        rows(text)


def test_only_its_fields_are_read(place):
    place.functions(FUNCTIONS)
    with place.session() as session:
        query = session.query(ROWS + "|> EXTEND id + 1 AS other |> MAP udf.row")
        assert "other" not in query.explain()
        query = session.query(ROWS + "|> EXTEND id + 1 AS other |> MAP SHARDS udf.shard")
        assert "other" not in query.explain()
