"""Python functions as data: where a worker finds one, and what it takes and gives."""

from __future__ import annotations

from dataclasses import field

from zql.expr.expression import Column, Expr, SharedObject
from zql.resources import Resources
from zql.schema import DataType, Schema
from zql.source import Span
from zql.tree import Node, node

FIRST_ROWS = "its first results"
"""Where the type of a result comes from, when nothing says it."""


@node
class FunctionParameter(Node):
    """A parameter of a Python function.

    `passes_null` is True when NULL reaches the function as None (no annotation, or `T | None`);
    otherwise a NULL argument gives NULL without a call. `shard` is True for one that takes the
    shard that MAP SHARDS works on. In a function with `batch_size` the type is that of an element,
    and `form` how many of them are handed over: list, arrow, numpy, series, polars series; empty
    for a parameter that has one value for all rows. `annotated` and `keyword_only` say how Python
    has it, `default` is the value of a CREATE FUNCTION for an argument that is left out.
    """

    name: str
    type: DataType = ""
    passes_null: bool = True
    required: bool = True
    variadic: bool = False
    shard: bool = False
    form: str = ""
    annotated: bool = False
    keyword_only: bool = False
    default: Expr | None = field(default=None, compare=False, repr=False)


@node
class AggregateClass(Node):
    """How a Python class aggregates: an object of it is the state of a group.

    `parameters` are those of `__init__`, which has a `ctx` more with `context`. With `merges` two
    states can be made one.
    """

    parameters: tuple[FunctionParameter, ...] = ()
    context: bool = False
    merges: bool = False


@node
class PythonFunction(Node):
    """A Python function that a worker can load by itself.

    `path` is a file (imported under a private name), `module` an importable module, `blob` the
    cloudpickled function for one that lives in the caller's process (never written to a file), or
    `source` is its text in a script, from the line `source_line` of `source_name` on.
    `returns` is the type of the result, empty when only a probe can tell; `fields` are the columns
    of a record or of the records that an iterator gives. `digest` is a hash of the source.
    `reads` are the keys that a function of a record looks at, when its source shows them all;
    `reads_rows` the keys that it looks at in each record of its first and of its second parameter,
    if it goes through them. `form` is the kind of table that the first parameter is annotated with:
    table, batch, pandas or polars; empty for any other. With `context` it has a parameter `ctx`
    more, for what it is told of the task; `asks` are the shared objects that it asks for then, when
    its source shows them all. `told_by` says for people where the type of the result comes from.

    With `batch_size` a scalar call hands over lists of at most so many values. At most
    `concurrency` calls are under way at a time in a process, and one may take `timeout` seconds.
    `is_async` is True for a coroutine function or an async generator.

    `built` is True for a class: it is called as an object that each process makes once, of the
    pickled arguments `init` and the shared objects `init_shared`; `needs` are arguments that it
    lacks. `declared` is True when a CREATE FUNCTION says the types: arguments are cast to them.
    `renamed` are its parameters that Python knows under another name. A class that is an
    `aggregate` has the parameters of its `step` and the result of its `finish`. `resources` are
    what the operator around the call asks for.
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
    told_by: str = ""
    batch_size: int | None = None
    concurrency: int | None = None
    timeout: float | None = None
    is_async: bool = False
    source: str = field(default="", repr=False)
    source_name: str = ""
    source_line: int = 1
    built: bool = False
    init: bytes = field(default=b"", repr=False)
    init_shared: tuple[tuple[str, SharedObject], ...] = ()
    needs: tuple[str, ...] = ()
    declared: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    aggregate: AggregateClass | None = None
    resources: Resources | None = field(default=None, compare=False, repr=False)


@node
class PythonFormat(Node):
    """A file format of the user's own, under the name by which scripts choose it.

    `code` says where a worker finds the function that reads, or the class that `reads`, `writes`
    and `cuts` files (its method `splits`).
    """

    name: str
    suffixes: tuple[str, ...]
    code: PythonFunction
    reads: bool = True
    writes: bool = False
    cuts: bool = False


@node
class ErrorPolicy(Node):
    """What becomes of a row for which a Python call raises, or gives what does not fit its type.

    All calls of one operator have the same; `number` tells the operators of a statement apart,
    `operator` is its word. With SKIP the row goes, with NULL it gets NULLs. More than `most_rows`
    such rows, or more than `most_percent` of those that came, stop the run. When `facts` are there
    such rows are kept: the columns of `record` (users' names and columns) and the facts, which are
    the error, the operator, the file and the row in it. Rows that do not stand in their file any
    more have that file and their number (from 0) in the columns `places`.
    """

    number: int
    action: str
    operator: str
    most_rows: int | None = None
    most_percent: float | None = None
    record: tuple[tuple[str, Column], ...] = ()
    facts: tuple[Column, ...] = ()
    places: tuple[Column, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def kept(self) -> tuple[Column, ...]:
        """The columns of the input that rejects are made of."""
        return tuple(dict.fromkeys((*(column for _, column in self.record), *self.places)))

    @property
    def limited(self) -> bool:
        """Whether the run is another one when a row more fails."""
        return self.most_rows is not None or self.most_percent is not None or bool(self.facts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the rows that are kept."""
        return (*(column for _, column in self.record), *self.facts)
