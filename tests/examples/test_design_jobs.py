"""The fourteen jobs that the language was designed for, run one after the other on small data.

Later ones read what earlier ones write. What a script says that a test machine has not (an object
store), or that the language forbids (COMBINE with ORDER BY), is replaced, and said here.
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from design_jobs import documents, write_inputs
from zql.session import Session
from zql.source import Source
from zql.storage.hive import folder_values

SCRIPTS = Path(__file__).parents[1] / "syntax" / "scripts"
REPLACED = {
    "07_join_licences": [
        ("'s3://bucket/docs/*.parquet'", "'data/docs/*.parquet'"),
        ("'s3://bucket/docs_licensed/'", "'out/licensed/'"),
    ],
    "13_reducer": [(" COMBINE th.partial_merge", "")],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All scripts run; the folder, and what each of them showed."""
    folder = tmp_path_factory.mktemp("jobs")
    write_inputs(folder)
    shown = {}
    with pytest.MonkeyPatch.context() as patch, Session(workers=2) as session:
        patch.chdir(folder)
        for path in sorted(SCRIPTS.glob("*.zql")):
            text = path.read_text()
            for old, new in REPLACED.get(path.stem, ()):
                assert old in text
                text = text.replace(old, new)
            source = Source(path.name, text)
            shown[path.stem] = [
                next(iter(result.rows.batches())).to_pylist()
                for result in session.statements(source, base_dir=str(folder))
                if result.rows is not None
            ]
    return folder, shown


def rows(folder, name):
    """The rows of the Parquet files of an output, with the values of its folders."""
    files = sorted((folder / "out" / name).rglob("*.parquet"))
    return [
        row | {k: v for k, v in folder_values(str(file)).items() if k not in row}
        for file in files
        for row in pq.read_table(file, partitioning=None).to_pylist()
    ]


def test_01_titles(done):
    folder, _ = done
    files = sorted(folder.glob("out/titles-*-of-00002.jsonl.gz"))
    texts = [gzip.decompress(file.read_bytes()).decode() for file in files]
    titles = [json.loads(line) for text in texts for line in text.splitlines()]
    assert len(files) == 2
    assert [t["title"] for t in titles] == [f"title {i}" for i in range(9) if i != 3] * 2


def test_02_quality_filter(done):
    folder, _ = done
    good = rows(folder, "good")
    assert 0 < len(good) < 200
    assert all(row["score"] >= 0.5 for row in good)
    (reject,) = [
        json.loads(line)
        for f in folder.glob("out/rejects/*.jsonl")
        for line in f.read_text().splitlines()
    ]
    assert reject["id"] == "d007"
    assert "no text at all" in reject["_error"]


def test_03_exact_dedupe(done):
    folder, _ = done
    found = {row["id"] for row in rows(folder, "dedup")}
    newest = {}
    for doc in documents():
        best = newest.get(doc["text"])
        if best is None or (doc["crawled_at"], best["id"]) > (best["crawled_at"], doc["id"]):
            newest[doc["text"]] = doc
    assert found == {doc["id"] for doc in newest.values()}


def test_04_near_dedupe(done):
    folder, _ = done
    ids = [row["id"] for row in rows(folder, "near_dedup")]
    assert len(ids) == len(set(ids)) < len({doc["text"] for doc in documents()})


def test_05_tokenise(done):
    folder, shown = done
    tokens = rows(folder, "tokens")
    ((total,),) = shown["05_tokenise"]
    assert total["docs"] == len(tokens) == len(rows(folder, "near_dedup"))
    assert total["total_tokens"] == sum(row["n_tokens"] for row in tokens)
    assert all(0 in row["tokens"] and 50256 in row["tokens"] for row in tokens)


def test_06_word_count(done):
    folder, _ = done
    with (folder / "out/wordcount.csv").open() as file:
        assert list(csv.reader(file)) == [["word", "n"], ["the", "12"], ["cat", "7"]]


def test_07_join_licences(done):
    folder, _ = done
    found = rows(folder, "licensed")
    assert {row["licence"] for row in found} == {"cc0", "mit", "unknown"}
    assert len(found) == 150
    assert "raw_html" not in found[0]
    folders = {path.name for path in (folder / "out/licensed").iterdir() if path.is_dir()}
    assert folders == {"licence=cc0", "licence=mit", "licence=unknown"}


def test_08_sessions(done):
    folder, _ = done
    found = {(r["user_id"], r["session_no"]): r["urls"] for r in rows(folder, "sessions")}
    assert found == {
        ("a", 1): ["/a0", "/a10"],
        ("a", 2): ["/a50", "/a55"],
        ("b", 1): ["/b5"],
        ("b", 2): ["/b36"],
    }


def test_09_shuffle(done):
    folder, _ = done
    files = sorted((folder / "out/shuffled").glob("part-*.parquet"))
    counts = [pq.read_metadata(file).num_rows for file in files]
    ids = [row["id"] for row in rows(folder, "shuffled")]
    tokens = [row["id"] for row in rows(folder, "tokens")]
    assert len(files) == 256
    assert max(counts) - min(counts) <= 1
    assert sorted(ids) == sorted(tokens)
    assert ids != tokens


def test_10_stratified_split(done):
    folder, _ = done
    parts = {
        name: [
            json.loads(line)["id"]
            for f in sorted((folder / "out" / name).glob("*.jsonl"))
            for line in f.read_text().splitlines()
        ]
        for name in ("train", "val")
    }
    assert not set(parts["train"]) & set(parts["val"])
    assert sorted(parts["train"] + parts["val"]) == sorted(r["id"] for r in rows(folder, "good"))


def test_11_top_per_domain(done):
    _, shown = done
    first, second = shown["11_top_per_domain"]
    assert len(first) == len(second) == 15
    assert {r["id"] for r in first} == {r["id"] for r in second}


def test_12_dirty_csv(done):
    folder, _ = done
    lines = (folder / "out/rejects.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in lines]
    assert [r["email"] for r in rejects] == ["c@x.org", "d@x.org"]
    customers = {r["id"]: r["email"] for r in rows(folder, "customers")}
    assert customers == {1: "a2@x.org", 2: None}


def test_13_reducer(done):
    folder, _ = done
    found = {r["thread_id"]: (r["text"], r["n"]) for r in rows(folder, "threads")}
    assert found == {"t1": ("first / second", 2), "t2": ("only", 1)}
    (bad,) = map(json.loads, (folder / "out/bad_mail.jsonl").read_text().splitlines())
    assert bad["thread"] == "t3"


def test_14_pack_sequences(done):
    folder, shown = done
    packed = rows(folder, "packed")
    assert len(list((folder / "out/packed").glob("*.parquet"))) == 64
    assert all(len(row["tokens"]) == 2048 for row in packed)
    top, (counted,) = shown["14_pack_sequences"]
    assert len(top) == 15
    assert counted["n"] == sum(r["tokens"][0] == 50256 or r["tokens"][-1] != 0 for r in packed)
