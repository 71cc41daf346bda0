"""Shared objects: made once, stored once, loaded at most once in each worker that needs them."""

from __future__ import annotations

import json
import mmap
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from zql.errors import UdfError
from zql.execution import loader, traces
from zql.execution.instances import OF_WORKER, Instances
from zql.execution.printed import aside
from zql.execution.temporary_folders import make_folder, remove_folder
from zql.expr.expression import SharedObject
from zql.expr.functions import PythonFunction
from zql.tree import Node, walk

if TYPE_CHECKING:
    from zql.source import Span

_ALIGNED = 64
_LARGE = 16 << 20
"""Bytes of arrays from which on an object is let go for its mapped file."""
_PICKLE, _BUFFERS, _FACTS = "object.pickle", "buffers", "facts.json"


class Objects(Mapping[str, Any]):
    """Shared objects by key, and the objects of classes that are called where they are."""

    instances: Instances


class SharedObjects:
    """The shared objects of one session."""

    def __init__(self) -> None:
        self.instances = Instances()
        """Objects of classes that are called in the session's own process."""
        self._given: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._stored: dict[str, str] = {}

    def put(self, key: str, value: Any) -> None:
        """Takes in an object that its owner has made."""
        self._given[key] = value

    def here(self, objects: Sequence[SharedObject]) -> Objects:
        """The objects themselves by key; made now when nobody has needed them yet.

        Raises `UdfError`.
        """
        return Here({shared.key: self._value(shared) for shared in objects}, self.instances)

    def stored(self, objects: Sequence[SharedObject], folder: str) -> Mapping[str, str]:
        """By key the folders, inside of `folder`, from which workers load them.

        Raises `UdfError` for what cannot be pickled.
        """
        for shared in objects:
            if shared.key not in self._stored:
                path = make_folder(folder, "shared")
                try:
                    large = store(self._value(shared), path, shared.name, shared.place) >= _LARGE
                    if large and shared.key in self._made:
                        # What was made here is held by nobody else: its arrays need not be twice
                        # in memory, once here and once as the mapped file.
                        self._made[shared.key] = load(path)
                except BaseException:
                    remove_folder(path)
                    raise
                self._stored[shared.key] = path
        return {shared.key: self._stored[shared.key] for shared in objects}

    def forget_stored(self) -> None:
        """To be called when the folder of what was stored is gone."""
        self._stored.clear()

    def close(self) -> None:
        """Forgets what factories have made, and would make again; what was put stays.

        Objects of classes are closed.
        """
        self.instances.close()
        self._made.clear()
        self.forget_stored()

    def _value(self, shared: SharedObject) -> Any:
        if shared.key in self._given:
            return self._given[shared.key]
        if shared.key not in self._made:
            self._made[shared.key] = self._make(shared)
        return self._made[shared.key]

    def _make(self, shared: SharedObject) -> Any:
        factory = shared.factory
        if not isinstance(factory, PythonFunction):
            raise UdfError(
                f"the shared object ${shared.name} is gone", code="R714", span=shared.place
            )
        given = self.here(objects_of(factory))
        try:
            with loader.no_bytecode(), aside(f"${shared.name}"):
                make = self.instances.load(factory, given)
                return make(*shared.args, **dict(shared.keywords))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - user code
            raise UdfError(
                f"{factory.name} raised {traces.told(error)}, when it made ${shared.name}",
                code="R714",
                span=shared.place,
                notes=traces.frames(error),
            ) from None


def objects_of(node: Node) -> tuple[SharedObject, ...]:
    """The shared objects that a plan, or a part of one, hands to its functions."""
    found = {n.key: n for n in walk(node) if isinstance(n, SharedObject)}
    return tuple(found.values())


def store(value: Any, folder: str, name: str, place: Span | None = None) -> int:
    """Writes an object into a folder; its buffers (of arrays) apart, where they can be mapped.

    Gives the size of the buffers. Raises `UdfError` for what cannot be pickled.
    """
    import cloudpickle

    sizes: list[int] = []
    for module in loader.source_modules():
        cloudpickle.register_pickle_by_value(module)
    with (
        open(os.path.join(folder, _PICKLE), "wb") as file,
        open(os.path.join(folder, _BUFFERS), "wb") as buffers,
    ):

        def apart(buffer: pickle.PickleBuffer) -> None:
            sizes.append(_write_aligned(buffers, buffer.raw()))

        try:
            cloudpickle.Pickler(file, protocol=5, buffer_callback=apart).dump(value)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the objects inside raise
            raise UdfError(
                f"the shared object ${name} cannot be stored for the workers: {traces.told(error)}",
                code="R714",
                span=place,
                hint="share what it is made of, a path say, and let the function open it",
            ) from None
    facts = {"sizes": sizes, "files": _user_files(), "search": loader.searched()}
    with open(os.path.join(folder, _FACTS), "w", encoding="utf-8") as file_of_facts:
        json.dump(facts, file_of_facts)
    return sum(sizes)


def _write_aligned(file: IO[bytes], data: memoryview) -> int:
    file.write(data)
    file.write(bytes(-data.nbytes % _ALIGNED))
    return data.nbytes


def _user_files() -> dict[str, str]:
    """The files that `loader` has imported, by the names of their modules."""
    found = {n: m for n, m in list(sys.modules.items()) if loader.is_private(n)}
    return {name: str(module.__file__) for name, module in found.items()}


class _Unpickler(pickle.Unpickler):
    """Finds the classes of users' files too, whose modules have names that only `loader` knows."""

    files: Mapping[str, str] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        if module in self.files and module not in sys.modules:
            loader.import_file(self.files[module])
        return super().find_class(module, name)


class Here(dict[str, Any], Objects):
    """The objects themselves by key, in the process that made them."""

    def __init__(self, objects: Mapping[str, Any], instances: Instances) -> None:
        super().__init__(objects)
        self.instances = instances


class Stored(Objects):
    """Stored objects by key, each loaded when it is first asked for, once in a process."""

    instances = OF_WORKER
    _loaded: dict[str, Any] = {}  # noqa: RUF012 - of all instances, by folder

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders

    def __getitem__(self, key: str) -> Any:
        folder = self._folders[key]
        if folder not in self._loaded:
            self._loaded[folder] = load(folder)
        return self._loaded[folder]

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


def load(folder: str) -> Any:
    """An object that `store` has written. Arrays in it are read-only maps of the file.

    Raises `UdfError`.
    """
    with open(os.path.join(folder, _FACTS), encoding="utf-8") as file:
        facts = json.load(file)
    try:
        for path in facts["search"]:
            loader.search(path)
        with open(os.path.join(folder, _PICKLE), "rb") as source:
            # Made by this program for its own workers, in a folder that only this user can enter.
            unpickler = _Unpickler(source, buffers=_mapped(folder, facts["sizes"]))
            unpickler.files = facts["files"]
            return unpickler.load()
    except Exception as error:  # noqa: BLE001 - user code
        raise UdfError(
            f"a shared object cannot be loaded in a worker: {traces.told(error)}",
            code="R714",
            notes=traces.frames(error),
        ) from None


def _mapped(folder: str, sizes: Sequence[int]) -> list[memoryview]:
    """The buffers, mapped: the pages are the same in all workers."""
    if not any(sizes):
        return [memoryview(b"")] * len(sizes)
    with open(os.path.join(folder, _BUFFERS), "rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    found, start = [], 0
    for size in sizes:
        found.append(whole[start : start + size])
        start += size + -size % _ALIGNED
    return found
