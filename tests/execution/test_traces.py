"""The frames of user code in messages."""

import types

from zql.execution import traces


def raised(source: str) -> Exception:
    module = types.ModuleType("rec")
    exec(compile(source, "/nowhere/rec.py", "exec"), module.__dict__)
    try:
        module.f(0)
    except Exception as error:  # noqa: BLE001 - to be looked at
        return error
    raise AssertionError("nothing was raised")


def test_lines_that_are_repeated_are_told_once():
    error = raised(
        "def f(n):\n    return g(n)\ndef g(n):\n    return 1 / 0 if n > 40 else g(n + 1)\n"
    )
    assert [line.replace(__file__, "") for line in traces.frames(error)[-2:]] == [
        'File "/nowhere/rec.py", line 2, in f',
        'File "/nowhere/rec.py", line 4, in g (and 41 more times)',
    ]


def test_of_many_frames_the_last_are_told():
    error = raised("def f(n):\n    return g(n)\ndef g(n):\n    return f(n + 1 / (20 - n))\n")
    frames = traces.frames(error)
    assert len(frames) == 12
    assert len(set(frames)) == 2


def test_a_recursion_does_not_take_long(monkeypatch):
    asked = []
    monkeypatch.setattr(traces, "_libraries", lambda: asked.append(1) or ())
    monkeypatch.setattr(traces, "_line", lambda *_: asked.append(1) or "")
    traces.frames(raised("def f(n):\n    return g(n)\ndef g(n):\n    return f(n)\n"))
    assert len(asked) <= 13  # and not some for each of thousands of frames
