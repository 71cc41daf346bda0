"""Shared objects: made once, loaded once in each worker, the object itself without workers."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
import zql
from zql.execution import loader, pool

FUNCTIONS = """
import os
from pathlib import Path

class Lexicon:
    def __init__(self, words):
        self.words = words
        Path(f"made-{os.getpid()}").write_text("")

    def __getstate__(self):
        with open("stored.log", "a") as file:
            file.write("x")
        return {"words": self.words}

    def __setstate__(self, state):
        self.words = state["words"]
        with open(f"loaded-{os.getpid()}.log", "a") as file:
            file.write("x")

def lexicon(size, *, prefix: str = "w"):
    return Lexicon({f"{prefix}{i}": i for i in range(size)})

def number(word: str, lexicon) -> int | None:
    return lexicon.words.get(word)

def untyped(word, lexicon):
    return lexicon.words.get(word)

def of_row(row: dict, lexicon):
    return {"n": lexicon.words[row["word"]]}

def of_word(word: str, lexicon):
    return {"n": lexicon.words[word]}

def process(word: str, lexicon) -> int:
    return os.getpid()

def same(word: str, lexicon) -> int:
    return id(lexicon)

def fails(path: str):
    raise FileNotFoundError(path)

def closed():
    import threading
    return threading.Lock()

def counter():
    seen = []
    def count(word):
        seen.append(word)
        return len(seen)
    return count

def counted(word: str, count) -> int:
    return count(word)
"""
HEAD = """
IMPORT PYTHON 'udf.py';
DECLARE size BIGINT DEFAULT 1000;
DECLARE lex SHARED DEFAULT udf.lexicon($size, prefix => 'w');
"""


@pytest.fixture
def words(place):
    place.functions(FUNCTIONS)
    for part in range(4):
        place.rows(f"in-{part}.jsonl", [{"word": f"w{part * 10 + i}"} for i in range(10)])
    return place


def logs(place, pattern: str) -> list[str]:
    return [path.read_text() for path in sorted(place.folder.glob(pattern))]


def test_a_worker_loads_it_once(words):
    with words.session(workers=2) as session:
        session.settings = replace(session.settings, split_size=40)
        report = session.run(
            HEAD + "FROM 'in-*.jsonl' |> EXTEND udf.number(word, $lex) AS n |> WRITE 'out.jsonl';"
            "FROM 'in-*.jsonl' |> EXTEND udf.process(word, lexicon => $lex) AS p |> WRITE 'p.jsonl'"
        )
    assert report.counters["tasks"] > 10
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))
    assert logs(words, "stored.log") == ["x"]
    workers = {row["p"] for row in words.read("p.jsonl")}
    loaded = logs(words, "loaded-*.log")
    assert set(loaded) == {"x"}
    assert len(workers) <= len(loaded) <= 2
    assert [path.name for path in words.folder.glob("made-*")] == [f"made-{os.getpid()}"]


def test_without_workers_the_object_itself_is_used(words):
    with words.session() as session:
        query = session.query(HEAD + "FROM 'in-0.jsonl' |> EXTEND udf.number(word, $lex) AS n")
        assert [row["n"] for row in query.to_dicts()] == list(range(10))
        assert query.count() == 10
    assert logs(words, "stored.log") == logs(words, "loaded-*.log") == []
    assert len(list(words.folder.glob("made-*"))) == 1


def test_an_object_of_the_caller(words):
    lexicon = {f"w{i}": i for i in range(40)}

    def lookup(word: str, lexicon) -> int:
        return lexicon[word]

    with words.session() as session:
        session.udf(lookup)
        session.share("lex", lexicon)
        same = session.query(
            "IMPORT PYTHON 'udf.py'; FROM 'in-0.jsonl' |> SELECT udf.same(word, $lex)"
        )
        assert set(same.to_arrow().column(0).to_pylist()) == {id(lexicon)}
        session.run("FROM 'in-*.jsonl' |> SELECT lookup(word, $lex) AS n |> WRITE 'out.jsonl'")
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))


def test_arrays_are_mapped_and_read_only(words):
    np = pytest.importorskip("numpy")

    def at_place(word: str, table) -> str:
        a = table["a"]
        with open("/proc/self/maps") as file:
            mapped = sum("/shared-" in line and "/buffers" in line for line in file)
        return f"{a[int(word[1:])]} {mapped} {a.flags.writeable} {table['b'].sum()}"

    with words.session() as session:
        session.udf(at_place)
        session.share("t", {"a": np.arange(1_000_000), "b": np.ones((3, 5)), "c": np.zeros(0)})
        session.run("FROM 'in-*.jsonl' |> SELECT at_place(word, $t) AS x |> WRITE 'out.jsonl'")
    assert [row["x"] for row in words.read("out.jsonl")] == [f"{i} 1 False 15.0" for i in range(40)]


def test_a_function_whose_type_is_looked_for(words):
    words.run(
        HEAD + "FROM 'in-*.jsonl' |> SELECT udf.untyped(word, $lex) AS n |> WRITE 'out.jsonl'"
    )
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))


@pytest.mark.parametrize("call", ["of_row(lexicon => $lex)", "of_word(word, $lex)"])
def test_map_takes_it_by_name_and_by_place(words, call):
    words.run(HEAD + f"FROM 'in-*.jsonl' |> MAP udf.{call} |> WRITE 'out.jsonl'")
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))


def test_a_closure_is_an_object_too(words):
    script = "IMPORT PYTHON 'udf.py'; DECLARE c SHARED DEFAULT udf.counter(); "
    words.run(
        script + "FROM 'in-0.jsonl' |> SELECT udf.counted(word, $c) AS n |> WRITE 'out.jsonl'"
    )
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(1, 11))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("fails('model.bin')", r"udf.fails raised FileNotFoundError: model.bin, when it made \$x"),
        ("closed()", r"the shared object \$x cannot be stored for the workers: TypeError: .*lock"),
    ],
)
def test_what_cannot_be_made_or_stored(words, factory, message):
    script = f"IMPORT PYTHON 'udf.py';\nDECLARE x SHARED DEFAULT udf.{factory};\n"
    script += "FROM 'in-0.jsonl' |> SELECT udf.number(word, $x) AS n |> WRITE 'out.jsonl'"
    # Not in the session of all tests, which would keep the declaration.
    with words.session() as session, pytest.raises(zql.UdfError, match=message) as info:
        session.run(script)
    assert (info.value.code, info.value.line) == ("R714", 2)
    assert "out.jsonl" not in words.names()


def test_outputs_stay_while_the_object_is_made_the_same_way(words):
    script = "FROM 'in-*.jsonl' |> SELECT udf.number(word, $lex) AS n |> WRITE 'out/{shard}.jsonl' "
    script = HEAD + script + "OPTIONS (mode = 'skip')"
    words.run(script)
    with words.session() as session:
        assert session.run(script).counters["python_calls"] == 0
    with words.session() as session, pytest.raises(zql.StorageError, match="not what this plan"):
        session.run(script.replace("DEFAULT 1000", "DEFAULT 999"))


LIBRARIES = """
import os

def tokenizer(vocabulary: int):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.decoder = decoders.ByteLevel()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([f"w{i} words and words again" for i in range(40)], trainer)
    return made

def encode(word: str, tokenizer) -> list[int]:
    return tokenizer.encode(word + " and words").ids

def decode(tokens: list[int], tokenizer) -> str:
    return tokenizer.decode(tokens)

def classifier():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(CountVectorizer(analyzer="char"), MultinomialNB())
    return model.fit([f"w{i}" for i in range(40)], [i % 2 for i in range(40)])

def classify(word: str, model) -> int:
    return int(model.predict([word])[0])
"""


def test_a_trained_tokenizer(words):
    pytest.importorskip("tokenizers")
    words.functions(LIBRARIES, "lib.py")
    head = "IMPORT PYTHON 'lib.py'; DECLARE t SHARED DEFAULT lib.tokenizer(300);"
    text = (
        "FROM 'in-*.jsonl' |> EXTEND lib.encode(word, $t) AS ids |> EXTEND lib.decode(ids, $t) AS x"
    )
    words.run(f"{head} {text} |> WRITE 'out.jsonl'")
    found = words.read("out.jsonl")
    assert [row["x"] for row in found] == [f"w{i} and words" for i in range(40)]
    assert max(len(row["ids"]) for row in found) < len("w11 and words")
    with words.session() as session:
        assert session.query(f"{head} {text}").to_dicts() == found


def test_a_model_of_scikit_learn(words):
    pytest.importorskip("sklearn")
    words.functions(LIBRARIES, "lib.py")
    head = "IMPORT PYTHON 'lib.py'; DECLARE m SHARED DEFAULT lib.classifier();"
    text = "FROM 'in-*.jsonl' |> SELECT lib.classify(word, $m) AS label"
    words.run(f"{head} {text} |> WRITE 'out.jsonl'")
    with words.session() as session:
        assert session.query(f"{head} {text}").to_dicts() == words.read("out.jsonl")


def test_a_large_dict_is_not_sent_with_each_task(words, monkeypatch):
    words.functions(
        "import os\n"
        "def large() -> dict:\n    return {f'w{i}': i for i in range(1_000_000)}\n"
        "def find(word: str, found) -> int:\n    return found[word]\n",
        "large.py",
    )
    sizes = []
    run = pool.Pool.run

    def measured(self, jobs, seconds=None):
        sizes.extend(len(pickle.dumps(job)) for job in jobs)
        return run(self, jobs, seconds)

    monkeypatch.setattr(pool.Pool, "run", measured)
    monkeypatch.setattr(loader, "_folders", [])  # those of all tests are sent along
    words.run(
        "IMPORT PYTHON 'large.py'; DECLARE d SHARED DEFAULT large.large();"
        "FROM 'in-*.jsonl' |> SELECT large.find(word, $d) AS n |> WRITE 'out.jsonl'"
    )
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))
    assert len(sizes) == 4
    assert max(sizes) < 20_000


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="PSS is Linux's")
def test_an_array_is_in_memory_once():
    """In a process of its own, as this one holds much by now; 1000 gives the figures of 1 GB."""
    pytest.importorskip("numpy")
    script = os.path.join(os.path.dirname(__file__), "shared_memory.py")
    done = subprocess.run(
        [sys.executable, script, "200", "4"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 0.9 * 200 < found["after"] - found["before"] < 1.3 * 200


def test_what_a_factory_made_is_mapped_here_too(words):
    pytest.importorskip("numpy")
    words.functions(
        "import numpy\n"
        "def made():\n    with open('made.log', 'a') as file:\n        file.write('x')\n"
        "    return numpy.arange(3_000_000)\n"
        "def at(word: str, array) -> str:\n"
        "    n = int(word[1:])\n    return f'{array[n]} {array.flags.writeable}'\n",
        "arrays.py",
    )
    head = "IMPORT PYTHON 'arrays.py'; DECLARE a SHARED DEFAULT arrays.made();"
    text = "FROM 'in-0.jsonl' |> SELECT arrays.at(word, $a) AS x"
    with words.session() as session:
        before = session.query(f"{head} {text}").to_dicts()
        session.run(f"{head} {text} |> WRITE 'out.jsonl'")
        after = session.query(f"{head} {text}").to_dicts()
    assert [row["x"] for row in before] == [f"{i} True" for i in range(10)]
    assert [row["x"] for row in after] == [f"{i} False" for i in range(10)]
    assert words.read("out.jsonl") == after
    assert (words.folder / "made.log").read_text() == "x"


def test_the_guides_example(place):
    """The founding guide's: an object is handed over once, and a mapper asks its context for it."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers, trainers

    text = "ZQL runs a Python function of each record; a tokenizer is loaded once per worker. "
    records = [{"id": i, "text": text * (1 + i % 3)} for i in range(40)]
    place.rows("in.jsonl", records)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    tokenizer.train_from_iterator([record["text"] for record in records], trainer)

    def tokenize(record, ctx):
        tokens = ctx.shared("tokenizer").encode(record["text"]).ids
        ctx.counter("tokens").add(len(tokens))
        return {"id": record["id"], "tokens": tokens}

    with place.session(2) as session:
        session.share("tokenizer", tokenizer)
        session.udf(tokenize)
        report = session.run(
            "SET split_size = 2000; FROM 'in.jsonl' |> MAP tokenize |> WRITE 'out-{shard}.jsonl'"
        )
    written = sorted(place.read("out-*.jsonl"), key=lambda row: row["id"])
    assert written == [{"id": r["id"], "tokens": tokenizer.encode(r["text"]).ids} for r in records]
    assert report.counters["tokens"] == sum(len(row["tokens"]) for row in written)
    assert len(report.outputs) > 1
