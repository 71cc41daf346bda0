"""Types come out as DuckDB writes them: DuckDB is asked."""

from __future__ import annotations

import duckdb
import pytest
from zql.errors import ParseError
from zql.source import Source
from zql.syntax.keywords import KEYWORDS
from zql.syntax.parser import parse_expression
from zql.syntax.type_names import ALIASES

SAME = """
BOOLEAN;TINYINT;SMALLINT;INTEGER;BIGINT;HUGEINT;UTINYINT;USMALLINT;UINTEGER;UBIGINT;UHUGEINT;FLOAT
DOUBLE;double precision;DECIMAL;decimal(5);DECIMAL(10, 2);NUMERIC(38,0);varchar;VARCHAR(10);TEXT
BLOB;BIT;DATE;TIME;timestamp;TIMESTAMPTZ;TIMESTAMP WITH TIME ZONE;TIME WITH TIME ZONE;TIMETZ
TIMESTAMP_S;TIMESTAMP_MS;TIMESTAMP_NS;INTERVAL;UUID;JSON;int[];INTEGER[3];INTEGER[][3][]
STRUCT(a INT, b TEXT[]);STRUCT("b c" INT, "x""y" INT);struct(a STRUCT(b INT))[];"integer"
MAP(TEXT, INT);MAP(VARCHAR, STRUCT(a INT)[])[];UNION(a INT, b TEXT);ENUM('a', 'b''c');VARIANT
""".replace("\n", ";").split(";")


@pytest.fixture(scope="module")
def typeof():
    with duckdb.connect() as connection:
        yield lambda text: connection.execute(f"SELECT typeof(NULL::{text})").fetchone()[0]


def parsed(text):
    casts = {
        parse_expression(Source("t", form)).type for form in (f"x::{text}", f"CAST(x AS {text})")
    }
    assert len(casts) == 1
    return casts.pop()


@pytest.mark.parametrize("text", [text for text in SAME if text])
def test_as_duckdb_writes_it(text, typeof):
    assert parsed(text) == typeof(text)
    assert parsed(parsed(text)) == parsed(text)


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_other_names_mean_the_same(alias, typeof):
    if alias in ("BYTES", "FLOAT64"):  # GoogleSQL's names, which DuckDB does not know
        assert parsed(alias) == {"BYTES": "BLOB", "FLOAT64": "DOUBLE"}[alias]
    else:
        assert parsed(alias) == typeof(alias)
    assert parsed(alias.lower()) == parsed(alias)


@pytest.mark.parametrize("word", [*sorted(KEYWORDS), "array", "column", "primary", "é", "1a", "A"])
def test_fields_of_any_name_are_sql(word, typeof):
    text = parsed(f'STRUCT("{word}" INTEGER)')
    assert typeof(text) == typeof(f'STRUCT("{word}" INTEGER)')


@pytest.mark.parametrize(
    "text",
    [
        "DECIMAL(39, 2)",
        "DECIMAL(2, 3)",
        "DECIMAL(1, 1, 1)",
        "DECIMAL('a')",
        "INT[1.5]",
        "INT(1.5)",
        "SELECT",
    ],
)
def test_no_type(text):
    with pytest.raises(ParseError):
        parsed(text)
