"""Python functions as data: where a worker finds one, and what it takes and gives."""

from __future__ import annotations

from dataclasses import field

from zql.expr.expression import Column
from zql.schema import DataType, Schema
from zql.source import Span
from zql.tree import Node, node


@node
class FunctionParameter(Node):
    """A parameter of a Python function.

    `passes_null` is True when NULL reaches the function as None (no annotation, or `T | None`);
    otherwise a NULL argument gives NULL without a call. `shard` is True for one that takes the
    shard that MAP SHARDS works on.
    """

    name: str
    type: DataType = ""
    passes_null: bool = True
    required: bool = True
    variadic: bool = False
    shard: bool = False


@node
class PythonFunction(Node):
    """A Python function that a worker can load by itself.

    `path` is a file (imported under a private name), `module` an importable module, or `blob` the
    cloudpickled function for one that lives in the caller's process (never written to a file).
    `returns` is the type of the result, empty when only a probe can tell; `fields` are the columns
    of a record or of the records that an iterator gives. `digest` is a hash of the source.
    `reads` are the keys that a function of a record looks at, when its source shows them all;
    `reads_rows` the keys that it looks at in each record of its first and of its second parameter,
    if it goes through them. `form` is the kind of table that the first parameter is annotated with:
    table, batch, pandas or polars; empty for any other. With `context` it has a parameter `ctx`
    more, for what it is told of the task; `asks` are the shared objects that it asks for then, when
    its source shows them all.
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
    reads_rows: tuple[tuple[str, ...] | None, ...] = (None, None)
    form: str = ""
    context: bool = False
    asks: tuple[str, ...] | None = None


@node
class ErrorPolicy(Node):
    """What becomes of a row for which a Python call raises, or gives what does not fit its type.

    All calls of one operator have the same; `number` tells the operators of a statement apart,
    `operator` is its word. With SKIP the row goes, with NULL it gets NULLs. More than `most_rows`
    such rows, or more than `most_percent` of those that came, stop the run. When `facts` are there
    such rows are kept: the columns of `record` (users' names and columns) and the facts, which are
    the error, the operator, the file and the row in it.
    """

    number: int
    action: str
    operator: str
    most_rows: int | None = None
    most_percent: float | None = None
    record: tuple[tuple[str, Column], ...] = ()
    facts: tuple[Column, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def limited(self) -> bool:
        """Whether the run is another one when a row more fails."""
        return self.most_rows is not None or self.most_percent is not None or bool(self.facts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the rows that are kept."""
        return (*(column for _, column in self.record), *self.facts)
