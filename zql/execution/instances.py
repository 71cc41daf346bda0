"""Classes that stand for functions: one object of each in a process, made when it is needed."""

from __future__ import annotations

import atexit
import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from zql.execution import loader, traces
from zql.execution.printed import aside
from zql.execution.typed_arguments import adapted
from zql.expr.functions import PythonFunction

_LOG = logging.getLogger("zql.functions")


class Instances:
    """The objects that calls are made of, until they are closed together.

    A worker process has one such collection; in the coordinator's process each session has one.
    At the latest they are closed when the process ends in order.
    """

    def __init__(self) -> None:
        self.note: Callable[[], None] = _nothing
        """Called when there is an object that wants to be closed."""
        self._made: dict[tuple[Any, ...], tuple[Any, Callable[..., Any]]] = {}

    def load(self, function: PythonFunction, objects: Mapping[str, Any]) -> Callable[..., Any]:
        """What is called for a function: itself, or the object of its class.

        `objects` are shared ones by key. Raises whatever the user's code raises.
        """
        call = self._object(function, objects) if function.built else loader.load(function)
        return _renamed(call, dict(function.renamed)) if function.renamed else call

    def close(self) -> None:
        """Lets go of the objects, the last one first, and calls `close` of those that have it."""
        atexit.unregister(self.close)
        while self._made:
            made, _ = self._made.popitem()[1]
            if _closes(made):
                try:
                    with aside(type(made).__name__):
                        made.close()
                except Exception as error:  # noqa: BLE001 - user code, and nobody waits for it
                    _LOG.warning("%s.close raised %s", type(made).__name__, traces.told(error))

    def _object(self, function: PythonFunction, objects: Mapping[str, Any]) -> Any:
        shared = tuple((name, each.key) for name, each in function.init_shared)
        key = (*loader.key_of(function), function.init, shared)
        if key not in self._made:
            given = pickle.loads(function.init) if function.init else {}  # noqa: S301 - our own
            given |= {name: objects[stored] for name, stored in shared}
            with aside(function.name):
                made = loader.load(function)(**given)
            method = made.__call__
            call = adapted(method)
            self._made[key] = (made, made if call is method else call)
            if _closes(made):
                atexit.register(self.close)
                self.note()
        return self._made[key][1]


def _nothing() -> None:
    pass


def _closes(made: Any) -> bool:
    return callable(getattr(type(made), "close", None))


def _renamed(call: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """The function with its parameters called as the script calls them."""

    def renamed(*args: Any, **keywords: Any) -> Any:
        return call(*args, **{names.get(name, name): value for name, value in keywords.items()})

    return renamed


OF_WORKER = Instances()
"""Those of this process, when it is a worker."""
