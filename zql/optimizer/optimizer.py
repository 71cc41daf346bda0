"""The rules in order, and the one place that runs them: traced, switched off, verified here."""

from __future__ import annotations

from collections.abc import Callable, Collection

from zql.errors import InternalError
from zql.logical.plan import LogicalPlan
from zql.optimizer import invariants
from zql.optimizer.rules.broadcast_joins import broadcast_joins
from zql.optimizer.rules.check_every_row import check_every_row
from zql.optimizer.rules.fold_python_aggregates import fold_python_aggregates
from zql.optimizer.rules.guard_trims import guard_trims
from zql.optimizer.rules.isolate_python_calls import isolate_python_calls
from zql.optimizer.rules.keep_row_order import keep_row_order
from zql.optimizer.rules.match_what_changes import match_what_changes
from zql.optimizer.rules.merge_projections import merge_projections
from zql.optimizer.rules.partition_aggregates import partition_aggregates
from zql.optimizer.rules.partition_shuffles import partition_shuffles
from zql.optimizer.rules.partition_sorts import partition_sorts
from zql.optimizer.rules.prune_columns import prune_columns
from zql.optimizer.rules.push_filters_down import push_filters_down
from zql.optimizer.rules.push_limits_down import push_limits_down
from zql.optimizer.rules.read_late import read_late
from zql.optimizer.rules.replace_characters import replace_characters
from zql.tree import node

Rule = Callable[[LogicalPlan], LogicalPlan]


@node
class Batch:
    """Rules run in turn until none changes the plan, `passes` rounds at most.

    The rules of a required batch cannot be switched off.
    """

    name: str
    rules: tuple[Rule, ...]
    passes: int = 20
    required: bool = False


BATCHES = (
    # First: the others then see Python calls as operators, which they can move past.
    # Calls in arguments of Python aggregates have left them then.
    Batch("isolate", (isolate_python_calls, fold_python_aggregates), passes=1, required=True),
    # Filters before limits: a limit below a filter would hold it up.
    Batch("push filters down", (push_filters_down,)),
    Batch("push limits down", (push_limits_down,)),
    # Last: what the moves left without a use goes, and what is then only passed on.
    Batch("prune", (prune_columns, merge_projections)),
    # Behind them: which columns are wanted at all decides. Both readings are pruned then.
    Batch("read late", (read_late, prune_columns, merge_projections)),
    Batch("shuffles", (partition_shuffles,), passes=1),
    # Behind what compares expressions: they are no longer what was written. What the first makes
    # the second makes cheap.
    Batch("texts", (match_what_changes, replace_characters, guard_trims), passes=1),
    # The rules before it move operators; which of them then sees an order is known here.
    Batch("order", (keep_row_order,), passes=1, required=True),
    # Behind it: aggregates may have an order by place since then.
    Batch("aggregates", (partition_aggregates,), passes=1),
    # Behind "order", too: what puts rows back in their places is a sort.
    Batch("sorts", (partition_sorts,), passes=1),
    # Behind all that moves columns and adds operators: what a join reads is known then.
    Batch("joins", (broadcast_joins,), passes=1),
    Batch("checks", (check_every_row,), passes=1, required=True),
)

RULES = {rule.__name__: rule for batch in BATCHES if not batch.required for rule in batch.rules}
"""The rules that can be switched off, by name."""


@node
class Rewrite:
    """One change: the rule that made it, and the plan behind it."""

    rule: str
    plan: LogicalPlan


def optimize(
    plan: LogicalPlan, disabled: Collection[str] = ()
) -> tuple[LogicalPlan, tuple[Rewrite, ...]]:
    """The plan after all rules but the disabled ones, and each change on the way.

    Raises `InternalError` when a rule breaks the plan or a batch does not come to rest.
    """
    trace: list[Rewrite] = []
    for batch in BATCHES:
        plan = _run(batch, plan, disabled, trace)
    return plan, tuple(trace)


def _run(
    batch: Batch, plan: LogicalPlan, disabled: Collection[str], trace: list[Rewrite]
) -> LogicalPlan:
    for _ in range(batch.passes):
        changed = False
        for rule in batch.rules:
            if rule.__name__ in disabled and not batch.required:
                continue
            after = rule(plan)
            if after != plan:
                invariants.check(plan, after, rule.__name__)
                plan, changed = after, True
                trace.append(Rewrite(rule.__name__, plan))
        if not changed or batch.passes == 1:
            return plan
    raise InternalError(f"the batch of rules {batch.name!r} does not come to rest")
