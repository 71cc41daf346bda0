"""The names of fail points: what they say, and that some run comes by each."""

import pytest
from zql import failpoints


def test_what_is_asked_for():
    assert failpoints.parse("") == ()
    kill, wait, each = failpoints.parse(
        "task_begun:2:kill, before_rename:1:sleep=0.5,batch_read:*:exit"
    )
    assert kill == ("task_begun", 2, "kill", 1.0)
    assert wait == ("before_rename", 1, "sleep", 0.5)
    assert each.nth == 0


@pytest.mark.parametrize(
    "text", ["nowhere:1:kill", "task_begun:1:explode", "task_begun:kill", "task_begun:x:kill"]
)
def test_what_cannot_be_asked_for(text):
    with pytest.raises(ValueError, match="ZQL_FAILPOINT: "):
        failpoints.parse(text)


def test_some_run_comes_by_each_point(clean, references):
    seen = set()
    for job in references:
        assert clean.wait(clean.go(job)) == 0, clean.errors()
        seen |= {path.name for path in clean.counts.iterdir()}
    assert seen == set(failpoints.POINTS)
