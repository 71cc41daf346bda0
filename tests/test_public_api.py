"""What `import zql` promises, word by word: a change here is a change for users."""

import subprocess
import sys

import zql

NAMES = [
    "BindError",
    "Context",
    "ErrorList",
    "Interrupted",
    "ParameterError",
    "ParseError",
    "Query",
    "Resources",
    "Result",
    "RunError",
    "RunReport",
    "Session",
    "Shard",
    "StorageError",
    "UdfError",
    "UsageError",
    "ZqlError",
    "default_session",
    "format",
    "format_script",
    "query",
    "run",
    "udf",
]
QUERY = {
    "arrow_schema", "batches", "collect", "columns", "count", "explain", "first", "params",
    "schema", "show", "tables", "text", "then", "to_arrow", "to_dicts", "to_pandas", "to_polars",
    "to_reader", "types", "write",
}  # fmt: skip
SESSION = {
    "close", "interrupt", "query", "register", "run", "set", "share", "tables", "udf", "unregister",
}  # fmt: skip


def test_names_are_these():
    assert sorted(zql.__all__) == NAMES


def test_each_name_is_there():
    for name in NAMES:
        assert getattr(zql, name) is not None


def test_unknown_names_are_attribute_errors():
    assert not hasattr(zql, "frobnicate")


def test_methods_of_queries_are_these():
    query = zql.query("FROM VALUES (1) AS t(x)")
    assert {name for name in dir(query) if not name.startswith("_")} == QUERY


def test_sessions_have_their_methods():
    assert set(dir(zql.Session)) >= SESSION


def test_every_error_is_a_zql_error():
    errors = [getattr(zql, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(error, zql.ZqlError) for error in [*errors, zql.Interrupted])


def test_importing_loads_nothing_heavy():
    script = "import sys, zql; print([m for m in ('duckdb', 'pyarrow', 'joblib', 'lark', 'fsspec', "
    script += "'numpy', 'click') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
