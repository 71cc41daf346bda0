"""`node` makes what `dataclass(frozen=True, slots=True)` makes; `record` what can be changed."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field

import pytest
from zql.expr import expression as ex
from zql.syntax import ast
from zql.tree import Node, node, record, same_tree


@node
class Base(Node):
    span: int | None = field(default=None, compare=False, repr=False, kw_only=True)


@node
class Leaf(Base):
    text: str
    quoted: bool = False


@node
class Pair(Base):
    left: Leaf
    right: Leaf
    names: list[str] = field(default_factory=list)

    @property
    def both(self):
        return self.left.text + self.right.text


@node
class Nothing(Base):
    pass


@dataclass(frozen=True, slots=True)
class Standard(Leaf):
    extra: int = 0


def test_construction():
    leaf = Leaf("a", span=3)
    assert (leaf.text, leaf.quoted, leaf.span) == ("a", False, 3)
    assert Leaf(quoted=True, text="b").quoted
    assert Pair(leaf, leaf).names == []
    assert Pair(leaf, leaf).names is not Pair(leaf, leaf).names
    assert Pair(leaf, leaf).both == "aa"
    for arguments in ((), ("a", True, 1), ("a",) * 4):
        with pytest.raises(TypeError):
            Leaf(*arguments)
    with pytest.raises(TypeError):
        Leaf("a", other=1)


def test_equality_and_hash():
    assert Leaf("a", span=1) == Leaf("a", span=2)
    assert hash(Leaf("a", span=1)) == hash(Leaf("a", span=2))
    assert Leaf("a") != Leaf("b")
    assert Leaf("a") != Standard("a")
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert Nothing() != Base()
    assert Leaf("a") != "a"


def test_frozen_and_slotted():
    leaf = Leaf("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        leaf.text = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del leaf.text
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        leaf.other = 1
    assert not hasattr(leaf, "__dict__")


def test_text_of_an_object():
    assert repr(Leaf("a", span=1)) == "Leaf(text='a', quoted=False)"
    assert repr(Nothing()) == "Nothing()"


def test_copies_and_pickles():
    pair = Pair(Leaf("a", span=1), Leaf("b"))
    for twin in (copy.copy(pair), copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        assert twin == pair
        assert twin.left.span == 1


def test_dataclasses_knows_them():
    assert dataclasses.is_dataclass(Leaf)
    assert [f.name for f in dataclasses.fields(Leaf)] == ["span", "text", "quoted"]
    assert dataclasses.replace(Leaf("a", span=1), text="b") == Leaf("b")
    assert dataclasses.replace(Leaf("a", span=1), text="b").span == 1
    assert dataclasses.asdict(Leaf("a")) == {"span": None, "text": "a", "quoted": False}
    assert Standard("a", True, 4, span=2).span == 2
    assert dataclasses.replace(Standard("a"), extra=5).extra == 5


def test_patterns():
    match Leaf("a", True):
        case Leaf(text, quoted):
            assert (text, quoted) == ("a", True)
        case _:
            pytest.fail("no match")


def test_same_tree_looks_at_every_compared_field():
    one = ast.PathSource(("a",))
    assert same_tree(one, ast.PathSource(("a",)))
    assert not same_tree(one, ast.PathSource(("b",)))
    assert not same_tree(ast.ReturnColumn("a", "INTEGER"), ast.ReturnColumn("a", "BIGINT"))
    assert not same_tree(ex.Literal(1), ex.Literal(True))


@record
class Count:
    rows: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name):
        self.rows += 1
        self.names.append(name)


@dataclass(slots=True)
class StandardCount:
    rows: int = 0
    names: list[str] = field(default_factory=list)

    add = Count.add


@pytest.mark.parametrize("kind", [Count, StandardCount])
def test_records_can_be_changed(kind):
    one, other = kind(), kind(0, [])
    one.add("a")
    assert (one.rows, one.names, other.names) == (1, ["a"], [])
    assert one != other
    other.add("a")
    assert one == other
    del other.rows
    assert not hasattr(other, "rows")
    with pytest.raises(AttributeError):
        one.other = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    twin = pickle.loads(pickle.dumps(one))
    assert twin == one
    assert dataclasses.replace(one, rows=7).rows == 7
    assert repr(one) == f"{kind.__name__}(rows=1, names=['a'])"
