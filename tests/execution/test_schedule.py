"""Stages that read nothing of each other are done side by side; their failures and their order."""

import os
import signal
import threading
import time

import pytest
from zql.errors import Interrupted, UdfError
from zql.execution import schedule
from zql.source import Source

IMPORT = "IMPORT PYTHON 'udf.py' AS q;\n"


@pytest.fixture
def place(place):
    for name in "ab":
        place.rows(f"{name}.jsonl", [{"id": k, "a": k % 7} for k in range(50)])
    place.functions(
        """
        import os, time

        def meet(id: int, mine: str, other: str) -> int:
            # Comes back when the other branch is at work too.
            open(mine, "w").close()
            end = time.monotonic() + 20
            while not os.path.exists(other):
                if time.monotonic() > end:
                    raise TimeoutError(f"{other} never came")
                time.sleep(0.01)
            return id

        def bad(id: int) -> int:
            raise ValueError("bad")

        def worse(id: int) -> int:
            raise KeyError("worse")

        def slow(id: int) -> int:
            open("slow", "w").close()
            time.sleep(0.2)
            return id

        def twice(id: int) -> int:
            return 2 * id
        """
    )
    return place


BRANCHES = (
    "FROM (FROM 'a.jsonl' |> EXTEND {} AS x |> SELECT id, x) AS l"
    " |> JOIN (FROM 'b.jsonl' |> EXTEND {} AS y |> SELECT id, y) AS r ON l.id = r.id"
    " |> SELECT l.id, x, y |> ORDER BY id |> WRITE '{}'"
)


def test_two_branches_that_wait_for_each_other(place):
    left, right = "q.meet(id, 'left', 'right')", "q.meet(id, 'right', 'left')"
    report = place.run(IMPORT + BRANCHES.format(left, right, "out.jsonl"))
    assert [row["id"] for row in place.read("out.jsonl")] == list(range(50))
    assert [stage.id for stage in report.stages] == [1, 2, 4]


def test_side_by_side_gives_what_one_after_the_other_gives(place, monkeypatch):
    text = IMPORT + (
        "FROM 'a.jsonl' |> EXTEND q.twice(id) AS x"
        " |> FORK (|> WHERE x > 10 |> WRITE '{0}/a-{{shard}}.jsonl'),"
        " (|> EXTEND q.twice(x) AS z |> WRITE '{0}/b.parquet'),"
        " (|> AGGREGATE sum(x) AS s GROUP AND ORDER BY a |> WRITE '{0}/c.csv')"
    )
    place.run(text.format("beside"))
    monkeypatch.setattr(schedule, "is_worth_threads", lambda plan: False)
    place.run(text.format("after"))
    names = [n for n in place.names("beside") if not n.startswith("_")]
    assert len(names) == 3
    assert place.bytes("beside/[abc]*") == place.bytes("after/[abc]*")


def test_the_first_failure_ends_the_others_and_the_first_stage_is_told(place):
    for calls in (("q.bad(id)", "q.slow(id)"), ("q.slow(id)", "q.bad(id)")):
        began = time.monotonic()
        with pytest.raises(UdfError, match="bad"):
            place.run(IMPORT + BRANCHES.format(*calls, "out.jsonl"))
        assert time.monotonic() - began < 9, "50 calls of slow take 10 s"
        assert "out.jsonl" not in place.names()
    for _ in range(3):
        with pytest.raises(UdfError, match=r"worse|bad"):
            place.run(IMPORT + BRANCHES.format("q.worse(id)", "q.bad(id)", "out.jsonl"))
    place.run(IMPORT + BRANCHES.format("q.twice(id)", "q.twice(id)", "out.jsonl"))


def test_ctrl_c_ends_all_of_them(place):
    with place.session() as session:

        def press():
            while not os.path.exists("slow"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Interrupted):
            session.run(IMPORT + BRANCHES.format("q.slow(id)", "q.twice(id)", "out.jsonl"))
        thread.join()
        assert time.monotonic() - began < 9
        assert "out.jsonl" not in place.names()
        session.run(IMPORT + BRANCHES.format("q.twice(id)", "q.twice(id)", "out.jsonl"))


def test_what_a_stage_needs(place):
    session = place.shared(2)

    def plan(text):
        found = []
        compile_ = session.compile
        session.compile = lambda p: found.append(compile_(p).stages) or compile_(p)
        try:
            session.explain(Source("<test>", IMPORT + text))
        finally:
            del session.compile
        return found[-1]

    graph = plan(BRANCHES.format("q.twice(id)", "q.slow(id)", "out.jsonl"))
    assert schedule.needs(graph) == {1: set(), 2: set(), 3: {1, 2}, 4: {3}}
    assert schedule.is_worth_threads(graph)
    chain = plan("FROM 'a.jsonl' |> EXTEND q.twice(id) AS x |> ORDER BY x |> WRITE 'x.jsonl'")
    assert not schedule.is_worth_threads(chain)
    rejects = plan(
        "FROM 'a.jsonl' |> EXTEND q.twice(id) AS x ON ERROR SKIP INTO 'r.jsonl' |> WRITE 'x.jsonl'"
    )
    reading = [s.id for s in rejects.stages if any(n < 0 for n in s.inputs)]
    assert reading
    assert all(schedule.needs(rejects)[number] for number in reading)
