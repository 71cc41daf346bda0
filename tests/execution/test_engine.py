import os
import signal
import stat
import threading
from contextlib import contextmanager

import duckdb
import pytest
from zql.errors import Interrupted
from zql.execution import engine as engine_module
from zql.execution.engine import Engine, EngineError
from zql.execution.settings import Settings

LONG = "SELECT count(*) FROM range(100000000) a, range(10000) b WHERE a.range % 7 = b.range % 5"


@pytest.fixture
def engine(tmp_path):
    with Engine(Settings(temp_dir=str(tmp_path))) as engine:
        yield engine


def test_rows_and_columns(engine):
    assert engine.rows("SELECT 1, 'a'") == [(1, "a")]
    assert engine.describe("SELECT 1 AS a, '{}'::JSON AS j") == [("a", "INTEGER"), ("j", "JSON")]


def test_errors_come_apart(engine):
    with pytest.raises(EngineError) as caught:
        engine.rows("SELECT ab FROM (SELECT 1 AS abc)")
    error = caught.value
    assert (error.kind, error.subtype, error.position) == ("Binder", "COLUMN_NOT_FOUND", 7)
    assert error.candidates == ("abc",)
    assert error.message.startswith('Referenced column "ab" not found')


def test_an_error_while_a_stream_runs(engine):
    sql = "SELECT (CASE WHEN range = 50000 THEN 'x' ELSE '1' END)::INT AS a FROM range(100000)"
    with engine.batches(sql, 4096) as stream, pytest.raises(EngineError) as caught:
        list(stream)
    assert caught.value.kind == "Conversion"
    assert engine.rows("SELECT 1") == [(1,)]


def test_a_closed_stream_frees_its_connection(engine):
    stream = engine.batches("SELECT range FROM range(1000000)", 1000)
    assert next(iter(stream)).num_rows == 1000
    stream.close()
    assert engine.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize("kind", ["rows", "stream"])
def test_ctrl_c_stops_a_statement(engine, kind):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted):
        engine.rows(LONG) if kind == "rows" else list(engine.batches(LONG, 10))
    assert engine.rows("SELECT 1") == [(1,)]


@contextmanager
def interrupting(engine):
    """Interrupts again and again: before a statement has begun it means nothing."""
    stop = threading.Event()

    def serve():
        while not stop.wait(0.1):
            engine.interrupt()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_interrupt_from_another_thread(engine):
    engine.rows("SELECT 1")
    with interrupting(engine), pytest.raises(Interrupted):
        engine.rows(LONG)


def test_times_are_utc_whatever_the_machine_says(engine, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    for connection in (engine, engine.cursor()):
        assert connection.rows("SELECT current_setting('TimeZone')") in ([("UTC",)], [("Etc/UTC",)])


def test_doors_are_shut(engine):
    names = ("autoinstall_known_extensions", "autoload_known_extensions")
    names += ("allow_community_extensions", "allow_unsigned_extensions")
    for name in names:
        assert str(engine.rows(f"SELECT current_setting('{name}')")[0][0]).lower() == "false"


def test_the_spill_folder_is_private_and_goes_away(tmp_path):
    engine = Engine(Settings(temp_dir=str(tmp_path), memory=90 << 20), memory=90 << 20)
    engine.rows("SELECT 1")
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    rows = engine.rows(
        "SELECT count() FROM (SELECT range || repeat('x', 100) AS a FROM range(2000000) ORDER BY a)"
    )
    assert rows == [(2000000,)]
    engine.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        "170141183460469231731687303715884105727::HUGEINT",
        "340282366920938463463374607431768211455::UHUGEINT",
        "'{\"a\": 1}'::JSON",
        "'12:00:00+02'::TIMETZ",
        "INTERVAL '1 year 2 days 3 us'",
        "'101'::BIT",
        "[1::HUGEINT]",
        "{'a': [true, NULL]}",
        "'c4c5a92a-1f2c-4a8b-9b1f-1d1d1d1d1d1d'::UUID",
    ],
)
def test_lossless_batches_come_back_as_they_were(engine, value):
    before = engine.rows(f"SELECT typeof(x), x::VARCHAR FROM (SELECT {value} AS x)")
    with engine.batches(f"SELECT {value} AS x", 10, lossless=True) as stream:
        (batch,) = stream
    engine.register("back", batch)
    assert engine.rows("SELECT typeof(x), x::VARCHAR FROM back") == before


def test_functions_have_kinds_and_stability(engine):
    functions = engine.functions()
    assert functions["lower"] == (frozenset({"scalar"}), False)
    assert functions["random"][1] is True
    assert "aggregate" in functions["sum"][0]


def test_copy_gives_the_number_of_rows(engine, tmp_path):
    path = tmp_path / "it's.csv"
    assert engine.copy("SELECT range FROM range(3)", str(path), "FORMAT csv") == 3
    assert path.read_text() == "range\n0\n1\n2\n"


def test_streams_without_the_private_interface(engine):
    """DuckDB's documented way gives the same, should the quicker one go away."""

    class Documented:
        def sql(self, text):
            return duckdb.connect().sql(text)

    reader = engine_module._reader(Documented(), "SELECT range AS a FROM range(5)", 2)
    assert [v for batch in reader for v in batch.column("a").to_pylist()] == [0, 1, 2, 3, 4]


def test_interrupt_reaches_cursors(engine):
    with engine.cursor() as cursor, interrupting(engine), pytest.raises(Interrupted):
        cursor.rows(LONG)
