"""Calls that are made behind come in their order, and their errors are not lost."""

import threading

import pytest
from zql.execution.behind import Behind


def test_calls_are_made_in_order_by_another_thread():
    made = []
    with Behind(2) as behind:
        for number in range(100):
            behind.do(lambda n: made.append((n, threading.current_thread())), number)
    assert [number for number, _ in made] == list(range(100))
    assert threading.current_thread() not in {thread for _, thread in made}


def test_an_error_comes_at_a_later_call_or_at_the_end():
    def fail():
        raise OSError("full")

    with pytest.raises(OSError, match="full"), Behind() as behind:
        behind.do(fail)
    made = []

    def ask():
        with Behind(1) as behind:
            behind.do(fail)
            for number in range(10):
                behind.do(int)
                made.append(number)

    with pytest.raises(OSError, match="full"):
        ask()
    assert len(made) < 5


def test_what_fails_meanwhile_drops_what_waits():
    begun, go, made = threading.Event(), threading.Event(), []

    def wait():
        begun.set()
        go.wait(10)

    def leave():
        with Behind() as behind:
            behind.do(wait)
            behind.do(made.append, 1)
            begun.wait(10)
            threading.Timer(0.1, go.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert made == []
