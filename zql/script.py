"""One script on its way through a session: parsed, declared, bound and run, by statement."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from zql import inspection
from zql.declaring import Declaring, declared_name
from zql.errors import (
    BindError,
    ErrorList,
    Interrupted,
    ParseError,
    RunError,
    UdfError,
    UsageError,
    ZqlError,
)
from zql.execution.catalog import EngineCatalog
from zql.execution.engine import Engine
from zql.execution.settings import Settings
from zql.logical import plan as lp
from zql.logical.binder import bind
from zql.logical.catalog import ObjectTable
from zql.logical.context import Declarations
from zql.logical.doubts import Doubts
from zql.modules import Modules
from zql.optimizer.optimizer import Rewrite
from zql.optimizer.unseen_sorts import unseen_sorts
from zql.parameters import check_names, undeclared
from zql.physical.plan import PhysicalPlan
from zql.queries import Planner, Query, schema_of
from zql.shared_views import SharedView, SharedViews, writers_of
from zql.source import Source, Span
from zql.syntax import ast
from zql.syntax.parser import parse_leniently, parse_script
from zql.syntax.printer import print_query
from zql.syntax.whereabouts import first_line, operator_at
from zql.tree import Node, node, rewrite_down, walk

if TYPE_CHECKING:
    from zql.execution.history import RunNotes
    from zql.execution.report import RunReport
    from zql.execution.runner import Runner
    from zql.execution.stream import RowStream
    from zql.explain.explanation import Explanation

RECURSION_LIMIT = 20_000
"""Frames for walking plans; the parser's limits on depth keep their number far below."""


_OUTPUT_CODES = frozenset({"R727", "R751", "R752", "R753", "R755", "R756"})
"""What can be wrong with an output: such an error points at WRITE."""


@node
class StatementResult:
    """What one statement gave. `kind`: rows, written, text or done (nothing to show)."""

    kind: str
    statement: int
    rows: RowStream | None = None
    result: RunReport | None = None
    text: str = ""


@node
class Compiled:
    """A statement at each level of its compilation."""

    bound: lp.Root
    optimized: lp.Root
    trace: tuple[Rewrite, ...]
    stages: PhysicalPlan
    unfused: PhysicalPlan


class Host(Planner, Protocol):
    """What a script needs of its session."""

    declarations: Declarations
    previous: ast.Query | None
    settings: Settings
    disabled: frozenset[str]
    notes: RunNotes | None
    unfinished: bool

    def tables(self) -> list[str]: ...

    def engine(self) -> Engine: ...

    def runner(self) -> Runner: ...

    def compile(self, plan: lp.Root) -> Compiled: ...

    def explanation(
        self, plan: lp.Root, level: str, warnings: Sequence[str] = ()
    ) -> Explanation: ...

    def set(self, name: str, value: Any) -> None: ...

    def catalog(
        self,
        base_dir: str | None = None,
        tables: Mapping[str, object] | None = None,
        find: Callable[[str], object | None] | None = None,
    ) -> EngineCatalog: ...


class ScriptRun:
    """One script on its way through a session."""

    def __init__(
        self,
        session: Host,
        source: Source,
        params: dict[str, Any],
        base_dir: str | None,
        tables: Mapping[str, object] | None,
        *,
        find: Callable[[str], object | None] | None = None,
        checking: bool = False,
        lenient: bool = False,
    ) -> None:
        self.session = session
        self.name = os.path.abspath(source.name) if base_dir is not None else source.name
        self.checking = checking
        # Plans are walked by recursion: a pipeline of 500 operators needs more than 1,000 frames.
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        session.engine().warm()
        self.syntax_errors: list[ParseError] = []
        if lenient:
            self.script, self.syntax_errors = parse_leniently(source)
        else:
            self.script = parse_script(source)
        shared = session.declarations
        self.declarations = shared
        if checking:
            self.declarations = shared.copy()
        values = {n: v for n, v in params.items() if isinstance(v, str) or not _is_table(v)}
        handed = {n: v for n, v in params.items() if n not in values}
        self.catalog = session.catalog(base_dir, {**(tables or {}), **handed}, find)
        modules = Modules(session.catalog)
        self.declarations.library = modules.library
        self.declaring = Declaring(
            self.declarations,
            self.catalog,
            params,
            lambda statement: modules.load(statement, base_dir),
            session.set,
        )
        self.doubts = modules.doubts = self.declaring.doubts
        self.parameter_errors: list[ZqlError] = []
        try:
            check_names(self.script, params, self.declarations)
        except ZqlError as error:
            _number(error, self.script)
            if not lenient:
                raise
            self.parameter_errors = error.errors if isinstance(error, ErrorList) else [error]
        self.declarations.parameters.update(undeclared(values, self.script))
        self.sharing = SharedViews(writers_of(self.script.statements, _writes))

    def results(self) -> Iterator[StatementResult]:
        with self.noted():
            for number, statement in enumerate(self.script.statements, 1):
                try:
                    yield from self.result(number, statement)
                except ZqlError as error:
                    raise _placed(error, number, statement) from None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Has the session note for `zql runs` what the script writes, and how it ends."""
        if not any(map(_writes, self.script.statements)):
            yield
            return
        from zql.execution.history import RunNotes

        notes = self.session.notes = RunNotes(self.name)
        self.session.unfinished = True
        state, reason = "interrupted", ""
        try:
            yield
            state = "done"
            self.session.unfinished = False
        except Interrupted:
            raise
        except ZqlError as error:
            state, reason = "failed", error.code
            raise
        finally:
            self.session.notes = None
            notes.end(state, reason)

    def result(self, number: int, statement: ast.Statement) -> Iterator[StatementResult]:
        match statement:
            case ast.QueryStatement():
                yield from self.outputs(number, statement, statement.query)
            case ast.CreateTable() | ast.AssertStatement() | ast.Show() | ast.Summarize():
                yield from self.outputs(number, statement, self.query_of(statement))
            case ast.Explain():
                yield StatementResult(
                    "text",
                    number,
                    text=self.explain(statement.query, statement.level).shown(statement.format),
                )
            case ast.Describe():
                plan = self.bind(statement.query, remember=False, doubts=Doubts())
                yield StatementResult("text", number, text=describe(plan))
            case _:
                self.begin_workers(number, statement)
                yield StatementResult("done", number, result=self.warned(statement))

    def begin_workers(self, number: int, statement: ast.Statement) -> None:
        """Starts the workers at a statement that brings functions, when one behind it writes."""
        brings = isinstance(statement, ast.ImportPython | ast.CreatePythonFunction)
        if brings and any(map(_writes, self.script.statements[number:])):
            self.session.runner().warm()

    def outputs(
        self, number: int, statement: ast.Statement, query: ast.Query
    ) -> Iterator[StatementResult]:
        """Runs a query: the rows that it shows, in order, then what it wrote."""
        before = len(self.doubts.texts)
        if not _leaves(query):
            plan = self.bind(query)
            stages = self.session.compile(plan).stages
            if len(stages.outputs) == 1:
                with call_places(stages):
                    streams = [self.session.runner().collect(stages)]
                report = None
            else:
                report, streams = self.run_plan(plan)
        else:
            report, streams = self.write_sharing(number, query)
        said = self.said_since(before)
        if said is not None and report is not None:
            report, said = replace(report, warnings=report.warnings + said.warnings), None
        for stream in streams:
            stream.on_error(lambda error: _placed(error, number, statement))
        waiting = list(streams)
        try:
            while waiting:
                yield StatementResult("rows", number, rows=waiting.pop(0), result=said)
                said = None
        finally:
            for stream in waiting:
                stream.close()
        if report is not None and not streams and not report.outputs:
            yield StatementResult("done", number, result=report)
        elif report is not None:
            yield StatementResult("written", number, result=report)

    def run(self) -> RunReport:
        with self.noted():
            return self.run_all()

    def run_all(self) -> RunReport:
        from zql.execution.report import merged

        reports = []
        for number, statement in enumerate(self.script.statements, 1):
            before = len(self.doubts.texts)
            try:
                if _writes(statement):
                    report, streams = self.write_sharing(number, self.query_of(statement))
                    for stream in streams:
                        stream.close()
                    reports.append(report)
                elif isinstance(statement, _GIVE_ROWS):
                    self.bind(self.query_of(statement))
                if _writes(statement) or isinstance(statement, _GIVE_ROWS):
                    said = self.said_since(before)
                    reports += [said] if said is not None else []
                else:
                    found = [r.result for r in self.result(number, statement)]
                    reports += [report for report in found if report is not None]
            except ZqlError as error:
                raise _placed(error, number, statement) from None
        return merged(reports)

    def write_sharing(self, number: int, query: ast.Query) -> tuple[RunReport, list[RowStream]]:
        """`write`, with the views kept that later statements read too."""
        from zql.execution.report import merged

        kept = []
        for view in self.shared_views(number):
            stages = self.session.compile(view.plan).stages
            with call_places(stages):
                kept.append(self.session.runner().run(stages))
        with self.sharing.read(number, self.declarations):
            report, streams = self.write(query)
        return merged([*kept, report]), streams

    def shared_views(self, number: int) -> Iterator[SharedView]:
        try:
            yield from self.sharing.wanted(
                number, self.declarations, lambda q: bind(q, self.catalog, self.declarations)
            )
        except BindError:
            return  # the statement's own binding tells it with its place

    def write(self, query: ast.Query) -> tuple[RunReport, list[RowStream]]:
        """Runs a query that writes.

        Types of files that nobody has read yet may come from their first rows: the run verifies
        them on all rows, and begins anew with types from every row when one does not fit. Outputs
        appear at the end only, so nobody sees the first try.
        """
        from zql.storage.jsonl_checked import SURPRISE

        self.catalog.sampled.clear()
        self.catalog.provisional = True
        try:
            plan = self.bind(query)
        finally:
            self.catalog.provisional = False
        sampled = list(self.catalog.sampled)
        # LIMIT may leave rows unread, which then nothing verifies.
        if sampled and any(isinstance(n, lp.Limit) for n in walk(plan)):
            plan, sampled = self.bind(query), []
        try:
            report, streams = self.run_plan(plan)
        except RunError as error:
            if not sampled or SURPRISE not in str(error):
                raise
            return self.run_plan(self.bind(query))
        # DuckDB does not read what a constant condition or an empty join makes needless.
        scans = [n for n in walk(plan) if isinstance(n, lp.Scan)]
        if len(scans) == 1 and report.counters.get("records_in"):
            for dataset in sampled:
                dataset.confirm()
        return report, streams

    def run_plan(self, plan: lp.Root) -> tuple[RunReport, list[RowStream]]:
        stages = self.session.compile(plan).stages
        try:
            with call_places(stages):
                done = self.session.runner().outputs(stages)
        except ZqlError as error:
            _point_at_output(error, plan)
            raise
        self.declare_tables(plan)
        return done

    def declare_tables(self, plan: lp.Root) -> None:
        """Makes the tables known that a statement has made, or would make."""
        for output in lp.outputs_of(plan):
            if isinstance(output, lp.Store):
                name, schema = output.table, schema_of(output)
                self.declarations.tables[name] = ObjectTable(name, schema)
            elif isinstance(output, lp.Write) and self.checking:
                self.catalog.pending.append(output)

    def check(self) -> list[ZqlError]:
        found: list[ZqlError] = [*self.syntax_errors, *self.parameter_errors]
        broken = [e.span.start for e in self.syntax_errors if e.span]
        lost = {e.message.partition("$")[2].partition(" ")[0] for e in self.parameter_errors}
        source = self.script.span.source if self.script.span else None
        starts: dict[int, int] = {}
        for nth, statement in enumerate(self.script.statements, 1):
            start = statement.span.start if statement.span else 0
            number = nth + sum(at < start for at in broken)
            starts[number] = start
            try:
                self.checked(statement)
            except Interrupted:
                raise
            except ZqlError as error:
                errors = error.errors if isinstance(error, ErrorList) else [error]
                found += [_placed(e, number, statement) for e in errors if not _follows(e, lost)]
                lost |= {declared_name(statement) or ""} - {""}

        def place(error: ZqlError) -> int:
            """Where it is in the script: for an error in a module, where that is imported."""
            if error.span and error.span.source is not source:
                return starts.get(error.statement or 0, -1)
            return error.span.start if error.span else -1

        return sorted(found, key=place)

    def checked(self, statement: ast.Statement) -> None:
        if isinstance(statement, _QUERIES):
            looks = isinstance(statement, ast.Explain | ast.Describe)
            doubts = Doubts() if looks else None
            plan = self.bind(self.query_of(statement), doubts=doubts)
            self.session.compile(plan)
            self.declare_tables(plan)
        else:
            self.declare(statement)

    def explained(self, level: str) -> Iterator[Explanation]:
        for number, statement in enumerate(self.script.statements, 1):
            try:
                if isinstance(statement, _QUERIES):
                    if _writes(statement) and level != "SYNTAX":
                        yield from self.explained_views(number, level)
                        with self.sharing.read(number, self.declarations):
                            yield self.explain(self.query_of(statement), level)
                    else:
                        yield self.explain(self.query_of(statement), level)
                else:
                    self.declare(statement)
            except ZqlError as error:
                raise _placed(error, number, statement) from None

    def explained_views(self, number: int, level: str) -> Iterator[Explanation]:
        for view in self.shared_views(number):
            *first, last = map(str, view.readers)
            head = f"The view {view.name} is computed once, for statements {', '.join(first)}"
            yield self.session.explanation(view.plan, level).titled(f"{head} and {last}")

    def single_query(self, text: str, params: Mapping[str, Any] | None) -> Query:
        *before, last = self.script.statements or (None,)
        if not isinstance(last, _GIVE_ROWS):
            raise UsageError("the text must end with a query", code="U606")
        for number, statement in enumerate(before, 1):
            if isinstance(statement, _GIVE_ROWS):
                raise UsageError(
                    "the text holds more than one query",
                    code="U606",
                    hint="zql.run(..) runs scripts",
                )
            for _ in self.result(number, statement):
                pass
        plan = self.bind(self.query_of(last))
        if lp.rows_of(plan) is None or not isinstance(plan, lp.Query | lp.Program):
            several = len(lp.outputs_of(plan)) > 1
            raise UsageError(
                "this query has several outputs" if several else "this query writes",
                code="U606",
                hint="zql.run(..) runs it; or leave WRITE away and call .write(path)",
            )
        last_number = len(self.script.statements)
        return Query(
            self.session,
            plan,
            text,
            params,
            self.catalog.held,
            lambda error: _placed(error, last_number, last),
        )

    def query_of(self, statement: Any) -> ast.Query:
        """The query that a statement is, or stands for. Raises `BindError`."""
        match statement:
            case ast.CreateTable():
                store = ast.StoreTable(statement.name, statement.replace, span=statement.span)
                return replace(statement.query, operators=(*statement.query.operators, store))
            case ast.AssertStatement():
                return inspection.assertion(statement)
            case ast.Show():
                return self.shown(statement)
            case ast.Summarize():
                query = self.whole(statement.query)
                plan = self.bind(query, remember=False)
                rows = lp.rows_of(plan)
                if rows is None:
                    raise BindError(
                        "SUMMARIZE takes a query with one result",
                        code="P406",
                        span=statement.query.span,
                    )
                return inspection.summary(query, schema_of(rows), statement.span)
            case _:
                found: ast.Query = statement.query
                return found

    def shown(self, statement: ast.Show) -> ast.Query:
        """The rows of SHOW, and the operators behind it."""
        session, declarations = self.session, self.declarations
        names: tuple[str, ...]
        match statement.what:
            case "TABLES":
                objects = list(self.catalog.object_names())
                names, rows = inspection.TABLES, inspection.tables(declarations, objects)
            case "FUNCTIONS":
                names = inspection.FUNCTIONS
                rows = inspection.functions(declarations, session.engine())
            case _:
                names = inspection.SETTINGS
                rows = inspection.settings(session.settings, session.disabled)
        return inspection.shown(statement, names, rows, statement.span)

    def whole(self, query: ast.Query) -> ast.Query:
        """A query that goes on from the result before with that one's beginning."""
        before = self.session.previous
        if not query.items and before is not None:
            return replace(before, operators=before.operators + query.operators)
        return query

    def bind(
        self, query: ast.Query, *, remember: bool = True, doubts: Doubts | None = None
    ) -> lp.Root:
        """The plan of a query; what is doubtful in it is noted, as a rule among the script's."""
        before = self.session.previous
        query = self.whole(query)
        plan = bind(
            query, self.catalog, self.declarations, self.doubts if doubts is None else doubts
        )
        if doubts is None:  # else it is EXPLAIN, which has a note on sorts, or DESCRIBE
            for sort in unseen_sorts(plan):
                _doubt_sort(self.doubts, sort, query)
        if isinstance(plan, lp.Query) and remember and not self.checking:
            if before is not None:
                query = _spelled_out(query, before)
            self.session.previous = query
            # The last result is a view too: FROM _
            last = ast.CreateView(ast.Identifier("_"), query, replace=True)
            self.session.declarations.views["_"] = last
        return plan

    def explain(self, query: ast.Query, level: str) -> Explanation:
        """A query at a level; for ANALYZE it is run, outputs and all."""
        if level == "SYNTAX":
            from zql.explain.explanation import syntax

            return syntax(print_query(query))
        doubts = Doubts()
        plan = self.bind(query, remember=False, doubts=doubts)
        try:
            with call_places(self.session.compile(plan).stages):
                found = self.session.explanation(plan, level, doubts.texts)
        except ZqlError as error:
            _point_at_output(error, plan)
            raise
        if self.checking or level == "ANALYZE":
            self.declare_tables(plan)
        return found

    def declare(self, statement: ast.Statement) -> None:
        self.declaring.declare(statement)

    def warned(self, statement: ast.Statement) -> RunReport | None:
        """Takes a declaration in; what it warns of, as a report of nothing else."""
        before = len(self.doubts.texts)
        self.declare(statement)
        return self.said_since(before)

    def said_since(self, before: int) -> RunReport | None:
        """The warnings behind the first ones, as a report of nothing else."""
        from zql.execution.report import RunReport

        found = tuple(self.doubts.texts[before:])
        return RunReport(warnings=found) if found else None


def _doubt_sort(doubts: Doubts, sort: lp.Sort, query: ast.Query) -> None:
    """Warns of a sort for nobody that stands in the query itself: others may read a view."""
    span, around = sort.keys[0].expr.span, query.span
    if span is None or around is None or span.source is not around.source:
        return
    if around.start <= span.start < around.end:
        doubts.add("nothing sees the order that ORDER BY makes: it can be left out", span)


def _number(error: ZqlError, script: ast.Script) -> None:
    """Tells of each error in which statement its place is."""
    for each in error.errors if isinstance(error, ErrorList) else [error]:
        for number, statement in enumerate(script.statements, 1):
            around = statement.span
            if each.span and around and around.start <= each.span.start < around.end:
                _placed(each, number, statement)


def _spelled_out(query: ast.Query, before: ast.Query) -> ast.Query:
    """A query that is to be `_` may not read the former `_` by name: it holds it instead."""

    def hold(node: Any) -> Any:
        match node:
            case ast.Aliased(item=ast.NameSource(name="_")):
                return replace(node, item=ast.QuerySource(before))
            case ast.NameSource(name="_"):
                return ast.Aliased(ast.QuerySource(before), ast.Identifier("_"))
            case _:
                return node

    return cast("ast.Query", rewrite_down(query, hold))


def _is_table(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_arrow")


def _placed(error: ZqlError, number: int, statement: ast.Statement) -> ZqlError:
    """The error with its statement's number, and the statement's place when it has no other."""
    for each in error.errors if isinstance(error, ErrorList) else [error]:
        each.statement = each.statement or number
        if each.span is None and each.suspects:
            each.span, *others = each.suspects
            each.label = "here, or in one of the places below"
            each.notes += (_places(others),)
        if each.span is None and statement.span is not None:
            each.span = first_line(statement.span)
        if each.span is not None and each.operator is None:
            each.operator = operator_at(statement, each.span)
    return error


def _point_at_output(error: ZqlError, plan: lp.Root) -> None:
    """Gives an error about an output the place of its WRITE."""
    writes = [o for o in lp.outputs_of(plan) if isinstance(o, lp.Write) and o.span is not None]
    named = [w for w in writes if w.uri in error.message] or writes
    own = [w for w in writes if w.own and error.message.startswith(f"{w.own.code.name}.write ")]
    named = own or named
    if (
        (own or error.code in _OUTPUT_CODES)
        and error.span is None
        and named
        and named[0].span is not None
    ):
        error.span = first_line(named[0].span)


_MOST_PLACES = 4


def _places(spans: Sequence[Span]) -> str:
    """The note that lists where else a failure may have been."""
    shown = [f"{s.text} (line {s.line})" for s in spans[:_MOST_PLACES] if "\n" not in s.text]
    return f"or {', '.join([*shown, '..'] if spans[_MOST_PLACES:] else shown)}"


def _follows(error: ZqlError, lost: set[str]) -> bool:
    """Whether an error only says that a name is missing whose own statement had an error."""
    names = error.message.replace("$", '"').split('"')[1::2]
    unknown = error.code in ("A501", "N205", "N211", "N203")
    return unknown and any(name.split(" ")[0].split(".")[0] in lost for name in names)


_GIVE_ROWS = (ast.QueryStatement, ast.Show, ast.Summarize)
_QUERIES = (
    ast.QueryStatement,
    ast.CreateTable,
    ast.AssertStatement,
    ast.Show,
    ast.Summarize,
    ast.Explain,
    ast.Describe,
)
"""Statements that hold a query to be planned."""


def _writes(statement: ast.Statement) -> bool:
    """Whether a statement is run for what it leaves behind, or for the error that it may give."""
    match statement:
        case ast.CreateTable() | ast.AssertStatement():
            return True
        case ast.QueryStatement():
            return _leaves(statement.query)
        case ast.Show():
            return _leaves(ast.Query((), statement.operators))
        case _:
            return False


def _leaves(query: ast.Query) -> bool:
    """Whether a query leaves something behind: it has a WRITE or CREATE TABLE in any branch."""
    kinds = (ast.Write, ast.StoreTable, ast.Finish)
    return any(isinstance(n, kinds) for op in query.operators for n in walk(op))


@contextmanager
def call_places(plan: PhysicalPlan) -> Iterator[None]:
    """Gives an error of a Python function or an assertion the place in the script."""
    try:
        yield
    except UdfError as error:
        for node in walk(plan):
            name, span = _function_of(node)
            if isinstance(node, lp.Scan) and error.message.startswith(f"{name}.write "):
                continue  # the writer of the same class
            if span and not error.span:
                name = re.escape(name)
                named = re.match(rf"{name}(\.\w+)? |.*, while it called {name}\Z", error.message)
                error.span = span if named else None
        raise
    except RunError as error:
        if error.code == "R760" and error.span is None:
            texts = {n.text: n.span for n in walk(plan) if isinstance(n, lp.Check)}
            said = error.message.removeprefix("assertion failed: ")
            error.span = next((texts[t] for t in texts if said.startswith(t)), None)
        raise


def _function_of(node: Node) -> tuple[str, Span | None]:
    """The function that an operator calls, or the user's own reader of a scan, and its place."""
    if isinstance(node, lp.PythonColumn | lp.MapRows | lp.Reduce | lp.PythonAggregate):
        return node.function.name, node.span
    if isinstance(node, lp.Scan) and node.own is not None:
        return node.own.code.name, node.span
    return "", None


def describe(plan: lp.Root) -> str:
    """Names and types of a query's columns, a line each; several outputs one after the other."""
    outputs = (o for o in lp.main_outputs(plan) if not isinstance(o, lp.Finish))
    return "\n\n".join(_described(output) for output in outputs)


def _described(output: lp.Query | lp.Write | lp.Store) -> str:
    fields = schema_of(output)
    width = max((len(f.name) for f in fields), default=0)
    return "\n".join(f"{f.name:<{width}}  {f.type}" for f in fields)
