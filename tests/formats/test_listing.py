"""Which files a path, a pattern or a folder means."""

from __future__ import annotations

import os

import pytest
from zql.errors import StorageError, UsageError
from zql.storage import hive, patterns, registry
from zql.storage.listing import expand
from zql.storage.remote import shown


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"{}\n")

    return make


def found(*paths, **options):
    return [f.path for f in expand(paths, **options)]


def test_byte_order_and_no_file_twice(tree):
    tree("é.jsonl", "b.jsonl", "B.jsonl", "a.jsonl")
    assert found("*.jsonl", "a.jsonl") == ["B.jsonl", "a.jsonl", "b.jsonl", "é.jsonl"]


def test_the_literal_name_comes_before_the_pattern(tree):
    tree("[ab].jsonl", "a.jsonl")
    assert found("[ab].jsonl") == ["[ab].jsonl"]
    os.unlink("[ab].jsonl")
    assert found("[ab].jsonl") == ["a.jsonl"]


@pytest.mark.parametrize("name", ["[a].x", "a*b.x", "a?b.x", "{a,b}.x", "a\\[b.x", "[!x].x", "[.x"])
def test_an_escaped_name_is_found_again(tree, name):
    tree(name, "a.x", "aab.x", "b.x")
    assert found(name) == [name]
    if "{" not in name:
        os.rename(name, "other")
        assert name not in found("*")


def test_questions_ranges_and_negation(tree):
    tree("a1.x", "a2.x", "b1.x", "a10.x", "-.x", "].x")
    assert found("a?.x") == ["a1.x", "a2.x"]
    assert found("[a-b]1.x") == ["a1.x", "b1.x"]
    assert found("[!a]1.x") == ["b1.x"]
    assert found("[^a]1.x") == ["b1.x"]
    assert found("[]].x") == ["].x"]
    assert found("[a-].x") == ["-.x"]


def test_braces(tree):
    tree("a1.x", "a2.x", "a3.x", "b01.x", "b02.x", "c.x")
    assert found("a{1..3}.x") == ["a1.x", "a2.x", "a3.x"]
    assert found("{b0{2,1},c}.x") == ["b02.x", "b01.x", "c.x"]
    assert patterns.expand_braces("{01..3}") == ["01", "02", "03"]
    assert patterns.expand_braces("{3..1..2}") == ["3", "1"]
    assert patterns.expand_braces("{-1..1}") == ["-1", "0", "1"]
    assert patterns.expand_braces("{x}{,y}{") == ["{x}{", "{x}y{"]
    with pytest.raises(StorageError, match=r"a4\.x does not exist"):
        found("a{1,4}.x")
    with pytest.raises(UsageError, match="more than"):
        found("{1..1000000}")
    with pytest.raises(UsageError, match="more than"):
        found("{1..1000}{1..1000}")


def test_stars_at_any_depth(tree):
    tree("r/a.x", "r/x/b.x", "r/x/y/c.x", "r/x/y/c.y", "q/d.x")
    everything = ["r/a.x", "r/x/b.x", "r/x/y/c.x"]
    assert found("r/**/*.x") == everything
    assert found("r/**/**/*.x") == everything
    assert found("r/**/y/*.x") == ["r/x/y/c.x"]
    assert found("r/**") == [*everything, "r/x/y/c.y"]
    assert found("**/b.x") == ["r/x/b.x"]
    assert found("*/*.x") == ["q/d.x", "r/a.x"]


def test_links_make_no_loops(tree, tmp_path):
    tree("r/a.x", "other/b.x")
    os.symlink(tmp_path / "r", tmp_path / "r" / "self")
    os.symlink(tmp_path / "other", tmp_path / "r" / "link")
    os.symlink(tmp_path / "nowhere", tmp_path / "r" / "dead.x")
    assert found("r/**/*.x") == ["r/a.x"]
    assert found("r/link/*.x") == ["r/link/b.x"]
    assert found("r/*/*.x") == ["r/link/b.x", "r/self/a.x"]


def test_names_of_markers_are_passed_over_unless_named(tree):
    tree("d/a.x", "d/_SUCCESS", "d/.a.x.crc", "d/_temporary/0/b.x", "d/.h/c.x", "d/_k=1/e.x")
    assert found("d/*") == ["d/a.x"]
    assert found("d/**/*.x") == ["d/_k=1/e.x", "d/a.x"]
    assert found("d/_S*") == ["d/_SUCCESS"]
    assert found("d/.h/*.x") == ["d/.h/c.x"]
    assert found("d/_temporary/**") == ["d/_temporary/0/b.x"]


def test_a_bare_star_and_a_folder_take_known_suffixes_only(tree):
    tree("d/a.jsonl", "d/b.jsonl.gz", "d/c.jsonl.tmp.1f3a", "d/README.md", "d/s/d.parquet")
    known = registry.suffixes()
    assert found("d/*", suffixes=known) == ["d/a.jsonl", "d/b.jsonl.gz"]
    assert found("d", suffixes=known) == ["d/a.jsonl", "d/b.jsonl.gz", "d/s/d.parquet"]
    assert found("d/", suffixes=known) == found("d", suffixes=known)
    assert found("d/*.md", suffixes=known) == ["d/README.md"]
    tree("e/x.txt")
    with pytest.raises(StorageError, match="no data file in the folder e"):
        found("e", suffixes=known)


def test_nothing_found_names_the_pattern_and_the_escape(tree):
    tree("a.x")
    with pytest.raises(StorageError) as caught:
        found("no[th]ing/*.x")
    assert caught.value.code == "R721"
    assert "no[th]ing/*.x" in str(caught.value)
    assert "no[[]th]ing/[*].x" in str(caught.value)
    with pytest.raises(StorageError, match=r"b\.x does not exist") as caught:
        found("b.x")
    assert caught.value.code == "R720"
    assert os.getcwd() in str(caught.value)


def test_a_name_that_is_no_utf8_is_an_error(tmp_path):
    with open(os.fsencode(tmp_path) + b"/a\xff.x", "w"):
        pass
    with pytest.raises(StorageError, match="no UTF-8"):
        found(f"{tmp_path}/*")


def test_file_urls_and_home(tree, tmp_path, monkeypatch):
    tree("a.x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found(f"file://{tmp_path}/a.x") == [f"{tmp_path}/a.x"]
    assert found("~/a.x") == [f"{tmp_path}/a.x"]


def test_versions_tell_changes(tree):
    tree("a.x")
    [before] = expand(["a.x"])
    os.utime("a.x", ns=(1, 1_000_000_001))
    [after] = expand(["a.x"])
    assert (before.size, after.version) == (3, "1000000001")
    assert before.version != after.version


def test_formats_by_suffix():
    for path, name in {
        "a.jsonl": "jsonl", "a.JSONL.GZ": "jsonl", "a.ndjson.zst": "jsonl", "a.json": "jsonl",
        "a.csv.bz2": "csv", "a.tsv": "tsv", "a.parquet": "parquet", "x.y/a.pq": "parquet",
    }.items():  # fmt: skip
        assert registry.format_of(path).name == name
    assert registry.format_of("a.txt") is None
    assert registry.format_of("jsonl") is None


def test_two_formats_or_none_are_errors(tree):
    tree("a.jsonl", "b.csv", "c.txt")
    with pytest.raises(StorageError, match=r"a\.jsonl is jsonl, b\.csv is csv"):
        registry.format_of_all(expand(["a.jsonl", "b.csv"]))
    with pytest.raises(StorageError, match="read_json"):
        registry.format_of_all(expand(["c.txt"]))
    with pytest.raises(UsageError, match='did you mean "parquet"'):
        registry.by_name("parkuet")


def test_folder_columns():
    assert hive.folder_values("a/k=1/x=%C3%A9%2F/k2=a=b/f=1.x") == {
        "k": "1", "x": "é/", "k2": "a=b"
    }  # fmt: skip
    assert hive.folder_values("k=__HIVE_DEFAULT_PARTITION__/=1/a.x") == {"k": None}
    for value in ("a/b", "..", "", "é", "=", "%", None, "a b", hive.NULL, f"{hive.NULL}x"):
        folder = hive.folder_name("k y", value)
        assert "/" not in folder
        assert hive.folder_values(f"{folder}/a.x") == {"k y": value}


def test_where_folders_of_values_begin():
    assert hive.above_folders("a/b/k=1/l=2/x.csv") == "a/b/"
    assert hive.above_folders("a/k=1/b/x.csv") == "a/k=1/b/"
    assert hive.above_folders("k=1/x.csv") == hive.above_folders("x.csv") == ""
    assert hive.above_folders("/x.csv") == "/"


def test_secrets_are_not_shown():
    assert shown("s3://key:secret@bucket/a?sig=1") == "s3://bucket/a"
    assert shown("a?b@c://d") == "a?b@c://d"


def test_unreadable_is_told_from_missing(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    (tmp_path / "d").mkdir(mode=0)
    with pytest.raises(StorageError, match="cannot read"):
        found(f"{tmp_path}/d/a.x")
