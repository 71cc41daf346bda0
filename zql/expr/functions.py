"""Python functions as data: where a worker finds one, and what it takes and gives."""

from __future__ import annotations

from dataclasses import field

from zql.schema import DataType, Schema
from zql.tree import Node, node


@node
class FunctionParameter(Node):
    """A parameter of a Python function.

    `passes_null` is True when NULL reaches the function as None (no annotation, or `T | None`);
    otherwise a NULL argument gives NULL without a call.
    """

    name: str
    type: DataType = ""
    passes_null: bool = True
    required: bool = True
    variadic: bool = False


@node
class PythonFunction(Node):
    """A Python function that a worker can load by itself.

    `path` is a file (imported under a private name), `module` an importable module, or `blob` the
    cloudpickled function for one that lives in the caller's process (never written to a file).
    `returns` is the type of the result, empty when only a probe can tell; `fields` are the columns
    of a record or of the records that an iterator gives. `digest` is a hash of the source.
    `reads` are the keys that a function of a record looks at, when its source shows them all.
    """

    name: str
    qualname: str
    path: str = ""
    module: str = ""
    blob: bytes = field(default=b"", repr=False)
    parameters: tuple[FunctionParameter, ...] = ()
    returns: DataType = ""
    fields: Schema | None = None
    iterates: bool = False
    volatile: bool = False
    digest: str = ""
    reads: tuple[str, ...] | None = None
