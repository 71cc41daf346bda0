"""Records that functions of many rows gave, gathered into batches of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zql.execution import kinds
from zql.execution.binding import CallError, Catch, Constants, failed, loaded
from zql.execution.call_timeout import Timed
from zql.execution.misfit import Misfit, show
from zql.execution.results import records_to_arrow
from zql.execution.udf import ORDINAL, is_record, iterator_of, record_misfit
from zql.expr.expression import Expr
from zql.expr.functions import PythonFunction
from zql.logical.plan import MapRows, Reduce

if TYPE_CHECKING:
    import pyarrow as pa


class Given(NamedTuple):
    """A record and who gave it: the number of a row or a group, for whoever asks."""

    record: Any
    giver: int


def with_constants(
    function: PythonFunction,
    keywords: Sequence[tuple[str, Expr]],
    constants: Constants,
    catch: Catch,
) -> Callable[..., Any]:
    """The function, with its named arguments. Raises `CallError` when it cannot be loaded."""
    from functools import partial

    call = loaded(function, constants, catch)
    values = {name: constants(expr)[0] for name, expr in keywords}
    return alone(function, partial(call, **values) if values else call)


def alone(function: PythonFunction, call: Callable[..., Any]) -> Callable[..., Any]:
    """A function as a plain one that can be called by itself, with its time limit if it has one."""
    if function.is_async:
        from zql.execution.async_calls import waited

        call = waited(call)
    if function.timeout is not None:
        call = Timed(call, function.name, function.timeout).call
    return call


def items_of(function: PythonFunction, found: Any, kind: str, catch: Catch) -> Iterator[Any]:
    """What a call gave, one by one, its exceptions as `CallError`; None is nothing."""
    if found is None:
        return
    items = None
    try:
        items = iterator_of(found)
    except catch as error:
        raise failed(function, 0, error) from None
    if items is None:
        wanted = "a record or an iterable of them" if kind == "REDUCE" else "an iterable of records"
        message = f"gave {show(found)}, where {kind} takes {wanted}"
        raise CallError("R711", function.name, 0, message, hint="return a list, or yield records")
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except catch as error:
            raise failed(function, 0, error) from None
        yield item


def gathered(
    call: MapRows | Reduce, given: Iterable[Given], most_rows: int
) -> Iterator[list[Given]]:
    """Records in lists of `most_rows`; a scalar is one when the call has one column."""
    single = call.names[0] if len(call.names) == 1 and isinstance(call, MapRows) else None
    found: list[Given] = []
    for record, giver in given:
        if single is not None and not is_record(record):
            record = {single: record}  # noqa: PLW2901 - the same value, as a record
        found.append(Given(record, giver))
        if len(found) >= most_rows:
            yield found
            found = []
    if found:
        yield found


def record_columns(call: MapRows | Reduce, given: Sequence[Given]) -> list[pa.Array]:
    """Records as the columns of the call. Raises `CallError` with the giver as its row."""
    values = [record for record, _ in given]
    try:
        return records_to_arrow(values, call.names, [kinds.parse(c.type) for c in call.made])
    except Misfit as misfit:
        record, giver = given[misfit.row]
        raise record_misfit(call, misfit, record, giver) from None


def as_batch(
    columns: list[pa.Array], names: Sequence[str], numbers: Sequence[int] | None
) -> pa.RecordBatch:
    """Columns as a batch; `numbers` are the rows' hidden numbers, when the steps carry them."""
    import pyarrow as pa

    names = list(names)
    if numbers is not None:
        columns = [*columns, pa.array(numbers, pa.int64())]
        names.append(ORDINAL)
    return pa.RecordBatch.from_arrays(columns, names)
