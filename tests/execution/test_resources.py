"""Resources of stages: what is asked for is what there is, and no more."""

import pytest
import zql
from zql.errors import BindError, RunError, UsageError
from zql.execution import gpus

IMPORT = "IMPORT PYTHON 'udf.py' AS q;\n"


@pytest.fixture
def place(place):
    for i in range(6):
        place.rows(f"in{i}.jsonl", [{"id": i * 10 + k, "a": k} for k in range(10)])
    place.functions(
        """
        import os, time

        def slow(id: int) -> int:
            # Who works now, and how many others do.
            mine = f"busy/{os.getpid()}"
            open(mine, "w").close()
            found = 0
            for _ in range(10):
                time.sleep(0.002)
                found = max(found, len(os.listdir("busy")))
            os.unlink(mine)
            return found

        def also_slow(id: int) -> int:
            return slow(id)

        def device(id: int) -> str:
            return os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        """
    )
    (place.folder / "busy").mkdir()
    return place


def most_at_a_time(place, hint, session=None, **more):
    text = (
        f"{IMPORT}FROM 'in*.jsonl' |> EXTEND {hint} q.slow(id) AS busy"
        " |> AGGREGATE max(busy) AS most |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"
    )
    (session or place.shared(3)).run(text, **more)
    return place.read("out.jsonl")[0]["most"]


def test_workers_of_a_stage_are_so_many_at_a_time(place):
    assert most_at_a_time(place, "@{workers = 1}") == 1
    assert most_at_a_time(place, "@{workers = 2}") == 2
    assert most_at_a_time(place, "") == 3
    one = {0: zql.Resources(cpu=1, memory="1GB")}
    assert most_at_a_time(place, "", stage_resources=one) == 1
    assert most_at_a_time(place, "@{workers = 3}", stage_resources=one) == 3, "workers win over cpu"


def test_a_stage_may_have_more_workers_than_the_others(place):
    with place.session(workers=1) as session:
        assert most_at_a_time(place, "", session) == 1
        assert most_at_a_time(place, "@{workers = 4}", session) > 1


LIMITS = "current_setting('threads') AS threads, current_setting('memory_limit') AS memory"


def settings_of(session, text):
    return session.query(text).to_arrow().to_pylist()[0]


def test_a_stage_of_sql_has_its_threads_and_its_memory_and_then_others_again(place):
    with place.session(threads=2, memory_limit="1GB") as session:
        before = settings_of(session, f"FROM range(1) |> SELECT {LIMITS}")
        assert before["threads"] == 2
        asked = f"FROM range(1) |> SELECT @{{threads = 3, memory = '400MB'}} {LIMITS}"
        inside = settings_of(session, asked)
        assert inside == {"threads": 3, "memory": "286.1 MiB"}
        assert settings_of(session, f"FROM range(1) |> SELECT {LIMITS}") == before
        session.stage_resources = {0: zql.Resources(cpu=5)}
        assert settings_of(session, f"FROM range(1) |> SELECT {LIMITS}")["threads"] == 5


def test_a_task_has_its_threads_and_its_share_of_the_memory(place):
    text = (
        f"{IMPORT}FROM 'in*.jsonl' |> EXTEND {{}} q.device(id) AS d |> SELECT d, {LIMITS}"
        " |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite')"
    )
    session = place.shared(3)
    session.run(text.format("@{threads = 2, workers = 2, memory = '1GiB'}"))
    share = (1 << 30) * 8 // 10 // 2 * 100 // 125 // 2
    rows = place.read("out.jsonl")
    assert {(r["threads"], r["memory"]) for r in rows} == {(2, f"{share / (1 << 20):.1f} MiB")}
    session.run(text.format(""))
    assert place.read("out.jsonl")[0]["threads"] == 1
    assert place.read("out.jsonl")[0]["memory"] != f"{share / (1 << 20):.1f} MiB"


def test_tasks_are_so_many_and_so_big(place):
    text = f"{IMPORT}FROM 'big.jsonl' |> EXTEND {{}} q.device(id) AS d"
    text += " |> WRITE '{}/{{shard}}.jsonl'"
    place.rows("big.jsonl", [{"id": i, "a": 0} for i in range(1000)])
    assert len(place.run(text.format("@{shards = 7}", "a")).outputs) == 7
    assert len(place.run(text.format("@{split_size = '4kB'}", "b")).outputs) == 5
    assert len(place.run(text.format("", "c")).outputs) == 1


def test_operators_that_ask_for_different_things_are_stages_of_their_own(place):
    text = (
        f"{IMPORT}FROM 'in*.jsonl' |> EXTEND @{{workers = 1}} q.slow(id) AS one"
        " |> EXTEND @{workers = 2} q.also_slow(id) AS two"
        " |> AGGREGATE max(one) AS one, max(two) AS two |> WRITE 'out.jsonl'"
    )
    place.run(text)
    assert place.read("out.jsonl") == [{"one": 1, "two": 2}]


# ---- GPUs --------------------------------------------------------------------------------------


def test_gpus_that_are_not_there(place, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = (
        f"{IMPORT}FROM 'in*.jsonl' |> EXTEND @{{gpus = 1}} q.device(id) AS d |> WRITE 'out.jsonl'"
    )
    with pytest.raises(
        RunError, match="stage 1 asks for 1 GPU for each task, and this machine has"
    ):
        place.run(text)
    assert "out.jsonl" not in place.names()


def test_each_worker_sees_its_own_gpu(place, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    text = (
        f"{IMPORT}FROM 'in*.jsonl' |> EXTEND @{{gpus = 1}} q.device(id) AS d |> WRITE 'out.jsonl'"
    )
    with place.session(workers=2) as session:
        session.run(text)
    assert {row["d"] for row in place.read("out.jsonl")} <= {"5", "7"}


def test_gpus_are_found_and_counted(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "null"):
        (tmp_path / name).touch()
    assert gpus.visible(str(tmp_path)) == ("0", "2", "10")
    assert gpus.visible(str(tmp_path / "none")) == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert [gpus.most_at_a_time(each, "x") for each in (0.25, 1, 2, 3)] == [12, 3, 1, 1]


# ---- what is refused ---------------------------------------------------------------------------


def test_what_cannot_be(place):
    with pytest.raises(
        UsageError, match="stage_resources takes stages, from 0, and their Resources"
    ):
        place.shared(3).run("FROM range(1) |> WRITE 'x.jsonl'", stage_resources={0: 8})
    with pytest.raises(UsageError, match="takes a number from 1 to 1024"):
        zql.Resources(cpu=0)
    with pytest.raises(UsageError, match='"much" is no size'):
        zql.Resources(memory="much")
    with pytest.raises(BindError, match="workers takes a number from 1 to 1024"):
        place.run("FROM range(1) |> SELECT @{workers = 5000} range |> WRITE 'x.jsonl'")


def test_a_stage_that_is_not_there_is_warned_of(place):
    one = zql.Resources(cpu=1)
    report = place.shared(1).run("FROM range(3) |> WRITE 'x.csv'", stage_resources={0: one, 9: one})
    (warning,) = report.warnings
    assert "no stage 9" in warning
    with pytest.raises(UsageError, match="takes a dict, not list"):
        place.shared(1).run("FROM range(1)", stage_resources=[one])
