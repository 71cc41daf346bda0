"""Sessions: settings, names, and the way of a script from text to results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from zql.errors import (
    BindError,
    ErrorList,
    Interrupted,
    ParseError,
    RunError,
    UdfError,
    UsageError,
    ZqlError,
    did_you_mean,
    nearest,
)
from zql.execution.catalog import EngineCatalog
from zql.execution.engine import Engine
from zql.execution.settings import Settings
from zql.explain import explain_logical, explain_stages, explain_trace
from zql.expr.functions import PythonFunction
from zql.logical import plan as lp
from zql.logical.binder import bind
from zql.logical.context import Context, Declarations
from zql.optimizer.optimizer import RULES, Rewrite, optimize
from zql.parameters import CommandLineValue, check_names, declare, undeclared
from zql.physical.fuse import fuse_steps
from zql.physical.plan import PhysicalPlan
from zql.physical.split import split
from zql.queries import Query, schema_of
from zql.settings_text import SETTINGS, parse_bytes, setting_value
from zql.source import Source, Span
from zql.syntax import ast
from zql.syntax.parser import parse_leniently, parse_script
from zql.syntax.whereabouts import common_place, first_line, operator_at
from zql.tree import rewrite_down, walk

if TYPE_CHECKING:
    from zql.execution.report import RunReport
    from zql.execution.runner import Runner
    from zql.execution.stream import RowStream

RunResult = "RunReport"
__all__ = ["CommandLineValue", "Compiled", "Session", "StatementResult", "default_session"]


@dataclass(frozen=True)
class StatementResult:
    """What one statement gave. `kind`: rows, written, text or done (nothing to show)."""

    kind: str
    statement: int
    rows: RowStream | None = None
    result: RunReport | None = None
    text: str = ""


@dataclass(frozen=True)
class Compiled:
    """A statement at each level of its compilation."""

    bound: lp.Write | lp.Query
    optimized: lp.Write | lp.Query
    trace: tuple[Rewrite, ...]
    stages: PhysicalPlan


class Session:
    """Runs scripts and queries; keeps views, parameters, imports and settings between them.

    A context manager: leaving it ends the workers and removes temporary files. `memory_limit` is
    in bytes, or text such as `4GB`, for all processes together.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        temp_dir: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        from zql.execution.settings import Secret

        self.settings = Settings(
            workers=None if workers is None else setting_value("workers", workers),
            threads=None if threads is None else setting_value("threads", threads),
            memory=parse_bytes(memory_limit) if memory_limit is not None else None,
            temp_dir=temp_dir,
            storage_options=Secret(storage_options),
        )
        self.disabled: frozenset[str] = frozenset()
        self._declarations = Declarations()
        self._objects: dict[str, object] = {}
        self._engine: Engine | None = None
        self._runner: Runner | None = None
        self._previous: ast.Query | None = None
        for name, value in (config or {}).items():
            self.set(name, value)

    # ---- settings and life ---------------------------------------------------------------------

    def set(self, name: str, value: Any) -> None:
        """Changes a setting, as `SET name = value` does. Raises `UsageError`."""
        wanted = name.lower()
        if wanted == "optimizer":
            self.disabled = frozenset() if setting_value(wanted, value) else ALL_RULES
            return
        if wanted == "disabled_rules":
            self.disabled = _rule_names(value)
            return
        if wanted not in SETTINGS:
            known = [*SETTINGS, "optimizer", "disabled_rules"]
            near = nearest(wanted, known)
            raise UsageError(
                f'unknown setting "{name}"',
                code="U603",
                hint=did_you_mean(near) or f"settings: {', '.join(sorted(known))}",
            )
        changed = replace(self.settings, **{SETTINGS[wanted]: setting_value(wanted, value)})
        if changed != self.settings:
            self._stop()
            self.settings = changed

    def register(self, name: str, value: object) -> None:
        """Makes an Arrow object, data frame or list of dicts readable as `FROM name`."""
        from zql.execution.catalog import arrow_table

        self._objects[name] = arrow_table(name, value)

    def unregister(self, name: str) -> None:
        """Forgets an object."""
        self._objects.pop(name, None)

    def udf(
        self, function: Callable[..., Any], name: str | None = None, **options: Any
    ) -> PythonFunction:
        """Makes a Python function callable by its name in this session's queries."""
        from zql.execution.introspect import python_function

        found = python_function(function, **options)
        self._declarations.functions[name or found.name] = found
        return found

    def tables(self) -> list[str]:
        """Names that FROM knows: views and objects."""
        return [v for v in (*self._declarations.views, *self._objects) if v != "_"]

    def interrupt(self) -> None:
        """Stops what runs; from any thread."""
        if self._runner is not None:
            self._runner.interrupt()
        if self._engine is not None:
            self._engine.interrupt()

    def close(self) -> None:
        """Ends workers and removes temporary files; the session can be used again."""
        self._stop()

    def _stop(self) -> None:
        runner, self._runner = self._runner, None
        engine, self._engine = self._engine, None
        if runner is not None:
            runner.close()
        if engine is not None:
            engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def engine(self) -> Engine:
        """The DuckDB connection that answers questions of the binder."""
        if self._engine is None:
            self._engine = Engine(self.settings)
        return self._engine

    def runner(self) -> Runner:
        """What runs physical plans."""
        if self._runner is None:
            from zql.execution.runner import Runner

            self._runner = Runner(self.settings, self._objects, self.engine())
        return self._runner

    # ---- scripts -------------------------------------------------------------------------------

    def statements(
        self,
        source: Source,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> Iterator[StatementResult]:
        """Runs a script statement by statement, as the results are asked for.

        Parsing and parameters are checked before the first one runs. Raises `ZqlError`.
        """
        run = _Script(self, source, dict(params or {}), base_dir, tables)
        yield from run.results()

    def run(
        self,
        script: str | os.PathLike[str],
        params: Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, object] | None = None,
    ) -> RunReport:
        """Runs a script (a path that ends in `.zql`, or text); the reports of its WRITEs as one.

        Queries without WRITE are checked and not run: nobody would see their rows.
        """
        source, base_dir = _source(script)
        return _Script(self, source, dict(params or {}), base_dir, tables).run()

    def check(
        self,
        source: Source,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
    ) -> list[ZqlError]:
        """Parses and binds a script without running it; all its errors, sorted by place."""
        try:
            script = _Script(
                self, source, dict(params or {}), base_dir, None, checking=True, lenient=True
            )
        except ErrorList as errors:
            return errors.errors
        except ZqlError as error:
            return [error]
        return script.check()

    def explain(
        self,
        source: Source,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        level: str = "STAGES",
    ) -> str:
        """The plans of a script's queries. Raises `ZqlError`."""
        script = _Script(self, source, dict(params or {}), base_dir, None, checking=True)
        return "\n\n".join(script.explained(level))

    def dry_run(
        self,
        source: Source,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
    ) -> str:
        """What a run would do: the stages of each statement, their inputs and outputs."""
        return self.explain(source, params, base_dir=base_dir)

    # ---- queries -------------------------------------------------------------------------------

    def query(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, object] | None = None,
        scan_locals: bool = True,
        _depth: int = 1,
    ) -> Query:
        """A query, parsed and bound now, run when its rows are asked for. Raises `ZqlError`.

        Statements before it (DECLARE, IMPORT, CREATE) are taken in. Names that the session does not
        know are looked up among the caller's variables, when those hold tables.
        """
        frame = sys._getframe(_depth) if scan_locals else None  # noqa: SLF001 - its one way
        find = _frame_finder(frame) if frame is not None else None
        source = Source("<query>", text)
        script = _Script(self, source, dict(params or {}), None, tables, find=find)
        return script.single_query(text, params)

    def then(self, query: Query, text: str, params: Mapping[str, Any] | None) -> Query:
        """A query with more operators; see `Query.then`."""
        joined = f"{query.text.rstrip().rstrip(';')}\n{text}"
        return self.query(joined, {**query.params, **(params or {})}, scan_locals=False)

    def write_query(self, query: Query, path: str, options: Mapping[str, Any]) -> RunReport:
        """Writes a query's rows; see `Query.write`."""
        plan = query._plan  # noqa: SLF001 - a query belongs to its session
        target = self._catalog().write_target(path, options)
        write = lp.Write(plan.input, path, target.format, plan.names, target.mode, target.options)
        return self.runner().run(self.compile(write).stages)

    def open_rows(self, plan: lp.Query) -> RowStream:
        """Runs a bound query; its rows as a stream."""
        return self.runner().collect(self.compile(plan).stages)

    def print_rows(self, plan: lp.Query) -> None:
        """Prints a bound query's rows as a table."""
        from zql.display.box import render_box
        from zql.display.preview import read_preview

        rows = self.open_rows(plan)
        try:
            sys.stdout.write(render_box(read_preview(rows, None)) + "\n")
        finally:
            rows.close()

    def describe_plan(self, plan: lp.Query | lp.Write, level: str) -> str:
        """The plan as text at a level: LOGICAL, TRACE or STAGES."""
        compiled = self.compile(plan)
        if level == "LOGICAL":
            return explain_logical(compiled.bound)
        if level == "TRACE":
            return explain_trace(compiled.bound, compiled.trace)
        if level == "STAGES":
            return explain_stages(compiled.stages)
        raise UsageError(
            f'unknown level "{level.lower()}"', code="U604", hint="levels: logical, trace, stages"
        )

    def compile(self, plan: lp.Write | lp.Query) -> Compiled:
        """A bound plan, optimized and cut into stages."""
        optimized, trace = optimize(plan, self.disabled)
        if not isinstance(optimized, lp.Write | lp.Query):
            raise TypeError(optimized)
        stages = split(optimized)
        if fuse_steps.__name__ not in self.disabled:
            stages = fuse_steps(stages)
        return Compiled(plan, optimized, trace, stages)

    def _catalog(
        self,
        base_dir: str | None = None,
        tables: Mapping[str, object] | None = None,
        find: Callable[[str], object | None] | None = None,
    ) -> EngineCatalog:
        objects = dict(tables or {})

        def look(name: str) -> object | None:
            if name in objects:
                return objects[name]
            return find(name) if find is not None else None

        return EngineCatalog(
            self.engine,
            self._objects,
            find=look,
            base_dir=base_dir,
            probe=self._probe,
            storage_options=self.settings.storage_options.reveal(),
        )

    def _probe(
        self, function: PythonFunction, plan: lp.LogicalPlan, record: Any, keywords: Any
    ) -> PythonFunction:
        limited = lp.Query(lp.Limit(plan, 100), tuple(c.name for c in plan.columns))
        return self.runner().probe(function, self.compile(limited).stages, record, keywords)


RECURSION_LIMIT = 20_000
"""Frames for walking plans; the parser's limits on depth keep their number far below."""

ALL_RULES = frozenset({*RULES, fuse_steps.__name__})
"""Every rule that can be switched off."""


def _rule_names(value: Any) -> frozenset[str]:
    names = [value] if isinstance(value, str) else list(value)
    for name in names:
        if name not in ALL_RULES:
            near = nearest(name, sorted(ALL_RULES))
            raise UsageError(
                f'unknown rule "{name}"',
                code="U605",
                hint=did_you_mean(near) or f"rules: {', '.join(sorted(ALL_RULES))}",
            )
    return frozenset(names)


def _source(script: str | os.PathLike[str]) -> tuple[Source, str | None]:
    text = os.fspath(script)
    is_path = isinstance(script, os.PathLike) or (text.endswith(".zql") and "\n" not in text)
    if not is_path:
        return Source("<script>", text), None
    try:
        with open(text, encoding="utf-8-sig", newline="") as file:
            return Source(text, file.read()), os.path.dirname(os.path.abspath(text))
    except OSError as error:
        raise UsageError(f"cannot read {text}: {error.strerror}", code="U601") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{text} is not UTF-8: byte {error.start}", code="U602") from None


def _frame_finder(frame: Any) -> Callable[[str], object | None]:
    def find(name: str) -> object | None:
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        return value if hasattr(value, "__arrow_c_stream__") else None

    return find


class _Script:
    """One script on its way through a session."""

    def __init__(
        self,
        session: Session,
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
        self.checking = checking
        self.imported: set[str] = set()
        # Plans are walked by recursion: a pipeline of 500 operators needs more than 1,000 frames.
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        session.engine().warm()
        self.syntax_errors: list[ParseError] = []
        if lenient:
            self.script, self.syntax_errors = parse_leniently(source)
        else:
            self.script = parse_script(source)
        shared = session._declarations  # noqa: SLF001 - of this session
        self.declarations = shared
        if checking:
            self.declarations = Declarations(
                dict(shared.views),
                dict(shared.modules),
                dict(shared.functions),
                dict(shared.parameters),
            )
        values = {n: v for n, v in params.items() if isinstance(v, str) or not _is_table(v)}
        handed = {n: v for n, v in params.items() if n not in values}
        self.catalog = session._catalog(base_dir, {**(tables or {}), **handed}, find)  # noqa: SLF001
        self.params = params
        self.parameter_errors: list[ZqlError] = []
        try:
            check_names(self.script, params, self.declarations)
        except ZqlError as error:
            if not lenient:
                raise
            self.parameter_errors = error.errors if isinstance(error, ErrorList) else [error]
        self.declarations.parameters.update(undeclared(values, self.script))

    def results(self) -> Iterator[StatementResult]:
        for number, statement in enumerate(self.script.statements, 1):
            try:
                result = self.result(number, statement)
            except ZqlError as error:
                raise _placed(error, number, statement) from None
            yield result

    def result(self, number: int, statement: ast.Statement) -> StatementResult:
        match statement:
            case ast.QueryStatement():
                if _writes(statement.query):
                    return StatementResult("written", number, result=self.write(statement.query))
                plan = self.bind(statement.query)
                stages = self.session.compile(plan).stages
                with _call_places(stages):
                    rows = self.session.runner().collect(stages)
                rows.on_error(lambda error: _placed(error, number, statement))
                return StatementResult("rows", number, rows=rows)
            case ast.Explain():
                return StatementResult("text", number, text=self.explain(statement))
            case ast.Describe():
                plan = self.bind(statement.query, remember=False)
                return StatementResult("text", number, text=describe(plan))
            case _:
                self.declare(statement)
                return StatementResult("done", number)

    def run(self) -> RunReport:
        from zql.execution.report import merged

        reports = []
        for number, statement in enumerate(self.script.statements, 1):
            try:
                if isinstance(statement, ast.QueryStatement):
                    if _writes(statement.query):
                        reports.append(self.write(statement.query))
                    else:
                        self.bind(statement.query)
                else:
                    self.result(number, statement)
            except ZqlError as error:
                raise _placed(error, number, statement) from None
        return merged(reports)

    def write(self, query: ast.Query) -> RunReport:
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
            report = self.run_plan(plan)
        except RunError as error:
            if not sampled or SURPRISE not in str(error):
                raise
            return self.run_plan(self.bind(query))
        # DuckDB does not read what a constant condition or an empty join makes needless.
        scans = [n for n in walk(plan) if isinstance(n, lp.Scan)]
        if len(scans) == 1 and report.counters.get("records_in"):
            for dataset in sampled:
                dataset.confirm()
        return report

    def run_plan(self, plan: lp.Write | lp.Query) -> RunReport:
        stages = self.session.compile(plan).stages
        with _call_places(stages):
            return self.session.runner().run(stages)

    def check(self) -> list[ZqlError]:
        found: list[ZqlError] = [*self.syntax_errors, *self.parameter_errors]
        broken = [e.span.start for e in self.syntax_errors if e.span]
        lost = {e.message.partition("$")[2].partition(" ")[0] for e in self.parameter_errors}
        for place, statement in enumerate(self.script.statements, 1):
            start = statement.span.start if statement.span else 0
            number = place + sum(at < start for at in broken)
            try:
                self.checked(statement)
            except Interrupted:
                raise
            except ZqlError as error:
                errors = error.errors if isinstance(error, ErrorList) else [error]
                found += [_placed(e, number, statement) for e in errors if not _follows(e, lost)]
                lost |= _declared(statement)
        return sorted(found, key=lambda e: e.span.start if e.span else -1)

    def checked(self, statement: ast.Statement) -> None:
        if isinstance(statement, ast.QueryStatement | ast.Explain | ast.Describe):
            plan = self.bind(statement.query)
            self.session.compile(plan)
            if isinstance(plan, lp.Write):
                self.catalog.pending.append((plan.uri, plan.format, schema_of(plan)))
        else:
            self.declare(statement)

    def explained(self, level: str) -> Iterator[str]:
        for number, statement in enumerate(self.script.statements, 1):
            try:
                if isinstance(statement, ast.QueryStatement | ast.Explain | ast.Describe):
                    plan = self.bind(statement.query)
                    if isinstance(plan, lp.Write):
                        self.catalog.pending.append((plan.uri, plan.format, schema_of(plan)))
                    yield self.session.describe_plan(plan, level)
                else:
                    self.declare(statement)
            except ZqlError as error:
                raise _placed(error, number, statement) from None

    def single_query(self, text: str, params: Mapping[str, Any] | None) -> Query:
        *before, last = self.script.statements or (None,)
        if not isinstance(last, ast.QueryStatement):
            raise UsageError("the text must end with a query", code="U606")
        for statement in before:
            if isinstance(statement, ast.QueryStatement):
                raise UsageError(
                    "the text holds more than one query",
                    code="U606",
                    hint="zql.run(..) runs scripts",
                )
            self.result(0, statement)
        plan = self.bind(last.query)
        if isinstance(plan, lp.Write):
            raise UsageError(
                "this query writes files",
                code="U606",
                hint="zql.run(..) runs it; or leave WRITE away and call .write(path)",
            )
        return Query(self.session, plan, text, params)

    def bind(self, query: ast.Query, *, remember: bool = True) -> lp.Write | lp.Query:
        before = self.session._previous  # noqa: SLF001
        if not query.items and before is not None:
            query = replace(before, operators=before.operators + query.operators)
        plan = bind(query, self.catalog, self.declarations)
        if isinstance(plan, lp.Query) and remember and not self.checking:
            if before is not None:
                query = _spelled_out(query, before)
            self.session._previous = query  # noqa: SLF001
            # The last result is a view too: FROM _
            last = ast.CreateView(ast.Identifier("_"), query, replace=True)
            self.session._declarations.views["_"] = last  # noqa: SLF001
        return plan

    def explain(self, statement: ast.Explain) -> str:
        if statement.level == "SYNTAX":
            from zql.syntax.printer import print_query

            return print_query(statement.query)
        plan = self.bind(statement.query, remember=False)
        return self.session.describe_plan(plan, statement.level)

    def declare(self, statement: ast.Statement) -> None:
        declarations = self.declarations
        context = Context(self.catalog, declarations, _no_query)
        match statement:
            case ast.Declare():
                value = declare(statement, self.params, self.catalog, context)
                declarations.parameters[statement.name.text] = value
            case ast.CreateView():
                self.create_view(statement)
            case ast.ImportPython():
                alias = statement.alias.text if statement.alias else _module_name(statement)
                if alias in self.imported:
                    raise BindError(
                        f'two imports are called "{alias}"',
                        code="N217",
                        span=statement.span,
                        hint=f"IMPORT PYTHON .. AS another_{alias}",
                    )
                self.imported.add(alias)
                declarations.modules[alias] = context.at(
                    statement.span, lambda: self.catalog.module(statement.target, statement.is_path)
                )
            case ast.SetOption():
                from zql.logical.bind_source import constant_value

                value = constant_value(context, statement.value)
                context.at(
                    statement.name.span, lambda: self.session.set(statement.name.text, value)
                )
            case _:
                raise BindError(
                    "this statement is not supported yet", code="P404", span=statement.span
                )

    def create_view(self, statement: ast.CreateView) -> None:
        name = statement.name.text
        if name in self.declarations.views and not statement.replace:
            raise BindError(
                f'the view "{name}" is there already',
                code="N217",
                span=statement.name.span,
                hint="CREATE OR REPLACE TEMP VIEW",
            )
        plan = bind(statement.query, self.catalog, self.declarations)
        if isinstance(plan, lp.Write):
            raise BindError("a view cannot write", code="P406", span=statement.query.span)
        self.declarations.views[name] = statement


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


def _no_query(query: ast.Query, _outer: object) -> Any:
    raise BindError("a subquery cannot stand here", code="P409", span=query.span)


def _module_name(statement: ast.ImportPython) -> str:
    if statement.is_path:
        return os.path.splitext(os.path.basename(statement.target))[0]
    return statement.target.rsplit(".", 1)[-1]


def _placed(error: ZqlError, number: int, statement: ast.Statement) -> ZqlError:
    """The error with its statement's number, and the statement's place when it has no other."""
    for each in error.errors if isinstance(error, ErrorList) else [error]:
        each.statement = each.statement or number
        if each.span is None and each.suspects:
            each.span = common_place(statement, each.suspects)
            each.notes += (_one_of(each.suspects),)
        if each.span is None and statement.span is not None:
            each.span = first_line(statement.span)
        if each.span is not None and each.operator is None:
            found = operator_at(statement, each.span)
            each.operator = found[0] if found else None
    return error


_MOST_SUSPECTS = 4


def _one_of(suspects: Sequence[Span]) -> str:
    """The note for a failure of one of several expressions."""
    shown = [f"{s.text} (line {s.line})" for s in suspects if "\n" not in s.text]
    more = [".."] if len(suspects) > _MOST_SUSPECTS else []
    return f"it was one of: {', '.join(shown[:_MOST_SUSPECTS] + more)}"


def _declared(statement: ast.Statement) -> set[str]:
    """The name that a statement would have declared."""
    match statement:
        case ast.Declare() | ast.CreateView():
            return {statement.name.text}
        case ast.ImportPython():
            return {statement.alias.text if statement.alias else _module_name(statement)}
        case _:
            return set()


def _follows(error: ZqlError, lost: set[str]) -> bool:
    """Whether an error only says that a name is missing whose own statement had an error."""
    names = error.message.replace("$", '"').split('"')[1::2]
    unknown = error.code in ("A501", "N205", "N211", "N203")
    return unknown and any(name.split(" ")[0].split(".")[0] in lost for name in names)


def _writes(query: ast.Query) -> bool:
    return bool(query.operators) and isinstance(query.operators[-1], ast.Write)


@contextmanager
def _call_places(plan: PhysicalPlan) -> Iterator[None]:
    """Gives an error of a Python function the place of its call in the script."""
    try:
        yield
    except UdfError as error:
        for node in walk(plan):
            if isinstance(node, lp.PythonColumn | lp.MapRows) and node.span and not error.span:
                name = node.function.name
                error.span = node.span if error.message.startswith(f"{name} ") else None
        raise


def describe(plan: lp.Query | lp.Write) -> str:
    """Names and types of a query's columns, a line each."""
    fields = schema_of(plan)
    width = max((len(f.name) for f in fields), default=0)
    return "\n".join(f"{f.name:<{width}}  {f.type}" for f in fields)


_DEFAULT: Session | None = None


def default_session() -> Session:
    """The session behind `zql.query` and `zql.run`."""
    global _DEFAULT  # noqa: PLW0603 - one for the process
    if _DEFAULT is None:
        _DEFAULT = Session()
    return _DEFAULT
