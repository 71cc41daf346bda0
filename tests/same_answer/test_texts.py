"""Rules about texts and about first rows give what is there without them, on texts made to hurt."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.session import ALL_RULES, Session

EXAMPLES = int(os.environ.get("ZQL_EXAMPLES", "40"))
SPACES = " \t\n\r\f\v\x1c\x85\xa0\u1680\u2003\u200b\u2028\u202f\u3000"
TEXTS = st.one_of(st.none(), st.text(st.sampled_from(SPACES + "aabé_-İß𝄞"), max_size=12))
CHARACTERS = st.text(st.sampled_from("ab \té_-"), max_size=4)
PATTERNS = st.sampled_from(
    [r"\s+", " +", r"[ \t]+", r"[\s\v]+", r"[\n\r]+", r"\s*", r"\S+", "a+", r"\s", r"[^ ]+"]
)


@pytest.fixture(scope="module")
def session():
    with Session(workers=1, threads=2) as made:
        made.query("VALUES (1)").to_arrow()  # what a session changes, it has now
        yield made


def answers(session, text):
    """The rows with all rules, and with none."""
    found = []
    for session.disabled in (frozenset(), ALL_RULES):
        found.append(session.query(text, scan_locals=False).to_arrow().to_pylist())
    session.disabled = frozenset()
    return found


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(TEXTS, min_size=1, max_size=8),
    CHARACTERS,
    CHARACTERS,
    PATTERNS,
    st.sampled_from([" ", "\t", "\n", "_", "a", ""]),
    st.sampled_from(["g", "", "i"]),
)
def test_texts(session, tmp_path, rows, before, after, pattern, instead, options):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"x": row}) + "\n" for row in rows))
    one = f"regexp_replace(x, {quoted(pattern)}, {quoted(instead)}, {quoted(options)})"
    with_rules, without = answers(
        session,
        f"FROM read_json('{path}', columns => {{x: 'VARCHAR'}}) |> SELECT"
        f" translate(x, {quoted(before)}, {quoted(after)}) AS a, {one} AS b,"
        f" trim(x) AS c, md5(trim({one})) AS d, CASE WHEN x > 'a' THEN trim(x || '!') END AS e",
    )
    assert with_rules == without


def test_what_trim_takes_away_is_what_the_pattern_says(session):
    wrong = (
        "FROM range(1, 1114112) AS r (i) |> WHERE i NOT BETWEEN 55296 AND 57343"
        " |> EXTEND chr(i::INTEGER) AS c"
        r" |> WHERE (trim(c) = '') <> regexp_matches(c, '\p{Zs}') |> SELECT i"
    )
    assert answers(session, wrong) == [[], []]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))), max_size=12),
    st.sampled_from(["", "ORDER BY k DESC", "ORDER BY k, n", "ORDER BY k NULLS FIRST"]),
    st.integers(1, 3),
)
def test_first_rows(session, tmp_path, rows, order, files):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i in range(files):
        part = rows[i * len(rows) // files : (i + 1) * len(rows) // files]
        columns = {
            "g": pa.array([g for g, _ in part], pa.int64()),
            "k": pa.array([k for _, k in part], pa.int64()),
            "n": pa.array(range(len(part)), pa.int64()),
            "text": pa.array([f"{i}:{n}" for n in range(len(part))], pa.string()),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet", row_group_size=2)
    with_rules, without = answers(
        session,
        f"FROM '{tmp_path}/*.parquet' |> WHERE k IS NULL OR k < 2"
        f" |> DISTINCT ON (g % 3) {order} |> SELECT g, text, k",
    )
    assert with_rules == without
