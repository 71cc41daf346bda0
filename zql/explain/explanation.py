"""The levels of EXPLAIN, and the forms in which each can be had."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zql.errors import UsageError, did_you_mean, masked, nearest
from zql.explain.document import (
    Document,
    logical_document,
    stages_document,
    syntax_document,
    trace_document,
)
from zql.explain.figures import analyzed_text, with_figures
from zql.explain.mermaid import mermaid
from zql.explain.notes import Note
from zql.explain.text import logical_text, stages_text, trace_text
from zql.logical import plan as lp
from zql.optimizer.optimizer import Rewrite
from zql.physical.plan import PhysicalPlan
from zql.syntax.keywords import EXPLAIN_FORMATS, EXPLAIN_LEVELS

if TYPE_CHECKING:
    from zql.execution.report import RunReport

LEVELS, FORMATS = EXPLAIN_LEVELS, EXPLAIN_FORMATS


@dataclass(frozen=True)
class Explanation:
    """One query at one level, as text and as data."""

    text: str
    document: Document

    def titled(self, title: str) -> Explanation:
        """The same with a line above it that says what it is."""
        return Explanation(f"{title}:\n{self.text}", {**self.document, "title": title})

    def shown(self, format: str) -> str:
        """In one of FORMATS."""
        if format == "JSON":
            return _json(self.document)
        return mermaid(self.document) if format == "MERMAID" else self.text


def checked(kind: str, word: str, known: Sequence[str]) -> str:
    """A level or a format as it is called here, whatever its case. Raises `UsageError`."""
    if word.upper() in known:
        return word.upper()
    names = [name.lower() for name in known]
    raise UsageError(
        f'EXPLAIN has no {kind} "{word.lower()}"',
        code="U604",
        hint=did_you_mean(nearest(word.lower(), names)) or f"{kind}s: {', '.join(names)}",
    )


def all_shown(explanations: Sequence[Explanation], format: str) -> str:
    """The queries of a script: text and flowcharts one after the other, JSON as one array."""
    if format == "JSON":
        return _json([each.document for each in explanations])
    return "\n\n".join(each.shown(format) for each in explanations)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def syntax(text: str) -> Explanation:
    """A query in its canonical spelling."""
    return Explanation(text, syntax_document(text))


def logical(plan: lp.LogicalPlan) -> Explanation:
    """The bound plan."""
    return Explanation(masked(logical_text(plan)), logical_document(plan))


def trace(plan: lp.LogicalPlan, rewrites: Sequence[Rewrite]) -> Explanation:
    """What each rule of the optimizer changed."""
    return Explanation(masked(trace_text(plan, rewrites)), trace_document(plan, rewrites))


def stages(
    plan: PhysicalPlan, notes: Sequence[Note], report: RunReport | None = None
) -> Explanation:
    """The stages, and what the optimizer did; with a report what a run of them measured."""
    document = stages_document(plan, notes)
    if report is None:
        return Explanation(masked(stages_text(plan, notes)), document)
    text = masked(analyzed_text(plan, report))
    return Explanation(text, with_figures(document, plan, report))
