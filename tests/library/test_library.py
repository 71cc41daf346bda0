"""The table functions that ZQL brings along, against others that do the same."""

from __future__ import annotations

import random
from itertools import combinations, count, pairwise

import pytest
from datasketch import MinHash, MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.session import Session
from zql.source import Source

_numbers = count()


@pytest.fixture(scope="module")
def session():
    with Session(threads=2) as made:
        list(made.statements(Source("first", "VALUES (1)")))  # what a session changes, it has now
        yield made


def rows_of(session, table, pipe):
    """The rows of a pipe over columns of Python values."""
    name = f"table_{next(_numbers)}"
    return session.query(f"FROM {name} {pipe}", tables={name: table}).to_arrow().to_pylist()


# ---- connected_components ------------------------------------------------------------------------


def components(edges):
    """Union-find: each node with the smallest one that it is connected to."""
    parent = {}

    def root(node):
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        first, second = root(a), root(b)
        parent[max(first, second)] = min(first, second)
    return {node: root(node) for node in parent}


def connected(session, edges):
    table = {"a": [a for a, _ in edges], "b": [b for _, b in edges]}
    found = rows_of(session, table, "|> CALL connected_components(src => a, dst => b)")
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["component"] for row in found}


NODES = st.integers(0, 12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NODES, NODES), min_size=1, max_size=20))
def test_small_graphs(session, edges):
    assert connected(session, edges) == components(edges)


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs(session, seed):
    numbers = random.Random(seed)
    edges = [(numbers.randrange(2000), numbers.randrange(2000)) for _ in range(900)]
    assert connected(session, edges) == components(edges)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_chain_of_100_000_nodes(session, mixed):
    nodes = list(range(100_001))
    if mixed:
        random.Random(1).shuffle(nodes)
    found = connected(session, list(pairwise(nodes)))
    assert len(found) == 100_001
    assert set(found.values()) == {0}


def test_a_star_and_a_clique(session):
    edges = [(0, n) for n in range(1, 3000)] + list(combinations(range(5000, 5050), 2))
    assert connected(session, edges) == components(edges)


def test_nodes_of_text_and_edges_that_are_none(session):
    edges = [("b", "a"), ("b", "c"), ("x", "x"), ("y", None)]
    assert connected(session, edges) == {"a": "a", "b": "a", "c": "a", "x": "x"}


# ---- train_test_split ----------------------------------------------------------------------------


def test_a_split_has_about_its_shares_and_keeps_keys_together(session):
    table = {"k": [n % 5000 for n in range(10_000)], "n": list(range(10_000))}
    found = rows_of(session, table, "|> CALL train_test_split(k, test => 0.2, validation => 0.1)")
    assert [row["n"] for row in found] == table["n"]
    parts = {row["k"]: row["split"] for row in found}
    assert all(parts[row["k"]] == row["split"] for row in found)
    shares = {part: list(parts.values()).count(part) / 5000 for part in set(parts.values())}
    assert shares == {
        "train": pytest.approx(0.7, abs=0.03),
        "validation": pytest.approx(0.1, abs=0.02),
        "test": pytest.approx(0.2, abs=0.03),
    }


def test_a_larger_test_set_holds_the_smaller(session):
    table = {"k": list(range(1000))}

    def tests(share):
        found = rows_of(session, table, f"|> CALL train_test_split(k, test => {share})")
        return {row["k"] for row in found if row["split"] == "test"}

    assert tests(0) < tests(0.1) < tests(0.5) < tests(1.0) == set(range(1000))


def test_the_split_of_a_key_never_changes(session):
    found = rows_of(session, {"k": list("abcdefgh")}, "|> CALL train_test_split(k, test => 0.5)")
    assert [row["k"] for row in found if row["split"] == "test"] == list("ceg")


# ---- minhash and near_dedupe ---------------------------------------------------------------------

WORDS = [f"word{n}" for n in range(4000)]


def corpus(seed=3, bases=60):
    """Texts in families: each base, and copies with more and more words replaced."""
    numbers = random.Random(seed)
    texts = []
    for _ in range(bases):
        base = numbers.choices(WORDS, k=numbers.randrange(60, 200))
        texts.append(" ".join(base))
        for changes in (0, 1, 3, 6, 12):
            copy = list(base)
            for _ in range(changes):
                copy[numbers.randrange(len(copy))] = numbers.choice(WORDS)
            texts.append(" ".join(copy))
    numbers.shuffle(texts)
    return texts


def shingles(text, ngram=5):
    words = text.lower().split()
    return {" ".join(words[i : i + ngram]) for i in range(max(1, len(words) - ngram + 1))}


def jaccard(a, b):
    return len(a & b) / len(a | b)


@pytest.fixture(scope="module")
def texts():
    return corpus()


@pytest.fixture(scope="module")
def sets(texts):
    return [shingles(text) for text in texts]


def signatures(session, texts, options=""):
    found = rows_of(session, {"t": texts}, f"|> CALL minhash(t{options}) |> ORDER BY doc")
    assert [row["doc"] for row in found] == list(range(1, len(texts) + 1))
    return found


def similar_pairs(sets):
    return [
        (i, j, s)
        for i, j in combinations(range(len(sets)), 2)
        if (s := jaccard(sets[i], sets[j])) > 0.2
    ]


def test_sets_of_shingles_are_those_of_the_words(session, texts, sets):
    found = signatures(session, texts)
    assert [len(row["shingles"]) for row in found] == [len(s) for s in sets]
    hashed = [set(row["shingles"]) for row in found]
    for i, j, similarity in similar_pairs(sets):
        assert jaccard(hashed[i], hashed[j]) == pytest.approx(similarity, abs=1e-9)


def test_signatures_estimate_as_well_as_those_of_datasketch(session, texts, sets):
    found = signatures(session, texts)
    theirs = []
    for each in sets:
        sketch = MinHash(num_perm=128)
        for shingle in each:
            sketch.update(shingle.encode())
        theirs.append(sketch)
    ours, others = [], []
    for i, j, similarity in similar_pairs(sets):
        a, b = found[i]["signature"], found[j]["signature"]
        ours.append(sum(x == y for x, y in zip(a, b, strict=True)) / 128 - similarity)
        others.append(theirs[i].jaccard(theirs[j]) - similarity)

    def error(differences):
        return (sum(d * d for d in differences) / len(differences)) ** 0.5

    assert len(ours) > 500
    assert abs(sum(ours) / len(ours)) < 0.02, "biased"
    assert error(ours) < 128**-0.5
    assert error(ours) < 1.25 * error(others)


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.9])
def test_near_duplicates_are_those_that_datasketch_finds(session, texts, sets, threshold):
    """Each kept text is far from all kept ones before it, but for a few; each lost one is near."""
    kept = rows_of(
        session,
        {"n": list(range(len(texts))), "t": texts},
        f"|> CALL near_dedupe(t, threshold => {threshold}) |> SELECT n",
    )
    numbers = [row["n"] for row in kept]
    assert numbers == sorted(numbers), "the order of the input"
    near = [(i, j) for i, j, s in similar_pairs(sets) if s >= threshold]
    group = components([(n, n) for n in range(len(texts))] + near)
    expected = {n for n in range(len(texts)) if group[n] == n}
    # Precision: what has gone was near another; nothing that is far from all others goes.
    assert set(numbers) >= expected
    missed = len(set(numbers) - expected)
    duplicates = len(texts) - len(expected)
    assert duplicates > 50
    # Recall at least that of datasketch's LSH, which does not verify.
    assert missed / duplicates <= max(0.02, lsh_missed(sets, threshold) / duplicates + 0.02)


def lsh_missed(sets, threshold):
    index = MinHashLSH(threshold=threshold, num_perm=128)
    near = []
    for n, each in enumerate(sets):
        sketch = MinHash(num_perm=128)
        for shingle in each:
            sketch.update(shingle.encode())
        found = [int(other) for other in index.query(sketch)]
        near += [(other, n) for other in found if jaccard(sets[other], each) >= threshold]
        index.insert(str(n), sketch)
    group = components([(n, n) for n in range(len(sets))] + near)
    true = [(i, j) for i, j, s in similar_pairs(sets) if s >= threshold]
    best = components([(n, n) for n in range(len(sets))] + true)
    return sum(group[n] == n != best[n] for n in range(len(sets)))


def test_exact_copies_always_go_and_texts_without_words_stay(session):
    texts = ["a b c", "A, b: C!", None, "", "...", "a b c", "d", "D"]
    found = rows_of(
        session, {"n": list(range(8)), "t": texts}, "|> CALL near_dedupe(t, num_perm => 16)"
    )
    assert found == [{"n": n, "t": texts[n]} for n in (0, 2, 3, 4, 6)]


def test_other_parameters(session, texts):
    small = signatures(session, texts[:5], ", num_perm => 16, ngram => 2, seed => 9")
    other = signatures(session, texts[:5], ", num_perm => 16, ngram => 2, seed => 10")
    assert [len(row["signature"]) for row in small] == [16] * 5
    assert [row["shingles"] for row in small] == [row["shingles"] for row in other]
    assert all(a["signature"] != b["signature"] for a, b in zip(small, other, strict=True))
    assert [len(row["shingles"]) for row in small] == [len(shingles(t, 2)) for t in texts[:5]]
