"""A Python call ready to be made on batches: its function loaded, its arguments found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zql.execution import kinds, traces
from zql.execution.arguments import to_python
from zql.execution.kinds import Kind
from zql.execution.misfit import Misfit, show
from zql.execution.refused import RefusedCallError
from zql.expr.expression import Column, Expr, SharedObject, TaskContext
from zql.expr.functions import FunctionParameter, PythonFunction
from zql.logical.plan import MapRows, PythonAggregate, PythonColumn, Reduce

if TYPE_CHECKING:
    import pyarrow as pa

    from zql.execution.calls_ahead import Ahead

Catch = type[BaseException] | tuple[type[BaseException], ...]


class Constants(Protocol):
    """What is the same for all calls of a task."""

    def __call__(self, expr: Expr, /) -> tuple[Any, Kind]:
        """The value of a constant argument, and its type."""

    def load(self, function: PythonFunction, /) -> Callable[..., Any]:
        """The function itself. Raises whatever the user's module raises."""


AsText = Callable[["pa.RecordBatch", str, Kind], "pa.Array"]
"""A column of a batch in its wire type, when Arrow's own type says nothing to Python."""


_GO_ON = "ON ERROR SKIP INTO 'rejects.jsonl' behind the operator goes on without what fails"


class CallError(Exception):
    """A call that failed, or whose result does not fit.

    `row` is the row of the batch. `message` goes on after the function's name and has no place in
    it: who knows file and row adds them.
    """

    def __init__(
        self,
        code: str,
        function: str,
        row: int,
        message: str,
        *,
        hint: str | None = None,
        notes: tuple[str, ...] = (),
        fatal: bool = False,
        last: int | None = None,
    ) -> None:
        """A `fatal` one ends the run whatever ON ERROR says; `last` is the last of many rows."""
        super().__init__(message)
        self.fatal = fatal
        self.code = code
        self.function = function
        self.row = row
        self.last = last
        self.message = message
        self.hint = hint
        self.notes = notes

    def given(self, args: Sequence[Any]) -> CallError:
        """The error with what the function was given."""
        self.notes = (*self.notes, f"it was given {', '.join(map(show, args))}")
        return self


def failed(
    function: PythonFunction, row: int, error: BaseException, hint: str | None = _GO_ON
) -> CallError:
    """What a function raised, as text: some exceptions cannot be sent to another process.

    The `hint` is what else can be done than to mend it.
    """
    if isinstance(error, RefusedCallError):
        notes = error.frames or traces.frames(error)
        told = (error.code, function.name, row, error.message)
        return CallError(*told, hint=error.hint, notes=notes, fatal=error.fatal)
    no_memory = isinstance(error, MemoryError)
    return CallError(
        "R731" if no_memory else "R710",
        function.name,
        row,
        f"raised {traces.told(error)}",
        hint="raise the memory budget (--memory), or lower split_size" if no_memory else hint,
        notes=traces.frames(error),
        fatal=not isinstance(error, Exception) or no_memory,
    )


class Argument(NamedTuple):
    """A column by name, or a constant `value`; a `strict` one is never handed None."""

    column: str | None
    value: Any
    kind: Kind
    strict: bool


class Bound(NamedTuple):
    """`call` takes the arguments by position; the first ones form a dict with the keys `record`.

    `forms` say how each argument of a function with `batch_size` is handed over; `ahead` makes the
    calls in another way than one by one.
    """

    function: PythonFunction
    call: Callable[..., Any]
    arguments: tuple[Argument, ...]
    record: tuple[str, ...]
    forms: tuple[str, ...] = ()
    ahead: Ahead | None = None

    def callable_rows(self, batch: pa.RecordBatch, guard: list[bool] | None) -> list[bool] | None:
        """For which rows the call is made, by guard and NULLs; None for all of them."""
        rows = guard
        for argument in self.arguments:
            if not argument.strict:
                continue
            if argument.column is None:
                valid = [argument.value is not None] * batch.num_rows
            else:
                column = batch.column(argument.column)
                if not column.null_count:
                    continue
                valid = column.is_valid().to_pylist()
            rows = valid if rows is None else [a and b for a, b in zip(rows, valid, strict=True)]
        return None if rows is None or all(rows) else rows

    def argument_rows(self, batch: pa.RecordBatch, as_text: AsText) -> Iterator[tuple[Any, ...]]:
        """The arguments of each row of a batch. Raises `CallError`."""
        count = batch.num_rows
        columns = [self._values(a, batch, as_text, count) for a in self.arguments]
        if self.record:
            width = len(self.record)
            dicts = [
                dict(zip(self.record, row, strict=True))
                for row in zip(*columns[:width], strict=True)
            ]
            columns = [dicts, *columns[width:]]
        return zip(*columns, strict=True) if columns else iter([()] * count)

    def _values(
        self, argument: Argument, batch: pa.RecordBatch, as_text: AsText, count: int
    ) -> Sequence[Any]:
        if argument.column is None:
            return list(repeat(argument.value, count))
        array = batch.column(argument.column)
        if kinds.travels_as_text(argument.kind) and not _is_plain(array.type):
            array = as_text(batch, argument.column, argument.kind)
        try:
            return to_python(array, argument.kind)
        except Misfit as misfit:
            raise CallError(
                "R712",
                self.function.name,
                misfit.row,
                f"cannot be handed {misfit.value}: {misfit.why}",
                hint="CAST the argument to VARCHAR",
            ) from None


def _is_plain(type_: pa.DataType) -> bool:
    import pyarrow as pa

    if isinstance(type_, pa.BaseExtensionType):
        return False
    return all(_is_plain(type_.field(i).type) for i in range(type_.num_fields))


def loaded(function: PythonFunction, constants: Constants, catch: Catch) -> Callable[..., Any]:
    """The function itself. Raises `CallError`."""
    try:
        return constants.load(function)
    except catch as error:
        message = f"{load_verb(function)} {traces.told(error)}"
        raise CallError("R713", function.name, 0, message, notes=traces.frames(error)) from None


def load_verb(function: PythonFunction) -> str:
    """The words for what could not be done, when a function cannot be loaded."""
    return "cannot be built:" if function.built else "cannot be loaded:"


def bind(
    target: PythonColumn | MapRows | Reduce | PythonAggregate, constants: Constants, catch: Catch
) -> Bound:
    """Loads the function and evaluates the constant arguments. Raises `CallError`.

    Of an aggregate class it is `step`, which takes the state first.
    """
    function = target.function
    call = loaded(function, constants, catch)
    if isinstance(target, PythonAggregate):
        call = call.step  # type: ignore[attr-defined]
    if isinstance(target, PythonColumn) and function.iterates and not function.is_async:
        call = _listed(call)
    record: tuple[str, ...] = ()
    arguments: list[Argument] = []
    if isinstance(target, MapRows | Reduce) and not target.args:
        record = tuple(name for name, _ in target.record)
        arguments = [Argument(c.name, None, kinds.parse(c.type), False) for _, c in target.record]
    forms: list[str] = []
    for position, expr in enumerate(target.args):
        arguments.append(_argument(expr, constants, _at(function, position)))
        forms.append(_form(function, _at(function, position), expr))
    varying = []
    for key, expr in target.keywords:
        argument = _argument(expr, constants, _named(function, key))
        form = _form(function, _named(function, key), expr)
        known = argument.value is not None or not argument.strict
        if argument.column is None and known and not form:
            call = partial(call, **{key: argument.value})
        else:
            varying.append(key)
            arguments.append(argument)
            forms.append(form)
    if varying:
        call = _with_keywords(call, tuple(varying))
    return Bound(function, call, tuple(arguments), record, tuple(forms))


def _form(function: PythonFunction, parameter: FunctionParameter | None, expr: Expr) -> str:
    """How a function with `batch_size` takes the values of an argument; empty for one value."""
    if function.batch_size is None or isinstance(expr, SharedObject | TaskContext):
        return ""
    return parameter.form if parameter is not None else "list"


def _argument(expr: Expr, constants: Constants, parameter: FunctionParameter | None) -> Argument:
    strict = parameter is not None and not parameter.passes_null
    if isinstance(expr, Column):
        return Argument(expr.name, None, kinds.parse(expr.type), strict)
    value, kind = constants(expr)
    return Argument(None, value, kind, strict)


def _at(function: PythonFunction, position: int) -> FunctionParameter | None:
    parameters = function.parameters
    if position < len(parameters):
        return parameters[position]
    return parameters[-1] if parameters and parameters[-1].variadic else None


def _named(function: PythonFunction, name: str) -> FunctionParameter | None:
    return next((p for p in function.parameters if p.name == name), None)


def _listed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Reads an iterator to its end, where its exceptions are the call's."""

    def listed(*args: Any, **keywords: Any) -> Any:
        found = call(*args, **keywords)
        return None if found is None else list(found)

    return listed


def _with_keywords(call: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Takes the last arguments by position and passes them on by name."""
    count = len(names)

    def with_keywords(*args: Any) -> Any:
        return call(*args[:-count], **dict(zip(names, args[-count:], strict=True)))

    return with_keywords
