"""Sessions: settings, names, and the way of a script from text to results."""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zql.errors import (
    ErrorList,
    UsageError,
    ZqlError,
    did_you_mean,
    nearest,
)
from zql.execution.catalog import Columns, EngineCatalog
from zql.execution.engine import Engine
from zql.execution.handed import HandedTables
from zql.execution.own_formats import OwnFormats
from zql.execution.settings import Settings
from zql.execution.shared import SharedObjects
from zql.execution.stored import StoredTables
from zql.expr.expression import SharedObject
from zql.expr.functions import ErrorPolicy, PythonFormat, PythonFunction
from zql.logical import plan as lp
from zql.logical.bind_partition_by import by_partition
from zql.logical.catalog import ProbeWay, Shared
from zql.logical.context import Declarations
from zql.optimizer.optimizer import RULES, optimize
from zql.optimizer.rules.partition_aggregates import in_parts, partition_aggregates
from zql.optimizer.rules.partition_sorts import partition_sorts, sorts_in_parts
from zql.parameters import CommandLineValue
from zql.physical.fuse import fuse_steps
from zql.physical.plan import Collect, Drop, PhysicalPlan
from zql.physical.share import share_groups
from zql.physical.split import split
from zql.queries import Query
from zql.resources import Resources
from zql.script import Compiled, ScriptRun, StatementResult, call_places
from zql.settings_text import SETTINGS, parse_bytes, setting_value
from zql.source import Source
from zql.syntax import ast
from zql.syntax.parser import parse_script
from zql.syntax.printer import print_statement
from zql.tree import Node, rewrite_up

if TYPE_CHECKING:
    from zql.execution.history import RunNotes
    from zql.execution.report import RunReport
    from zql.execution.runner import Runner
    from zql.execution.stream import RowStream
    from zql.explain.explanation import Explanation

RunResult = "RunReport"
__all__ = ["CommandLineValue", "Compiled", "Session", "StatementResult", "default_session"]


Script = Source | str | os.PathLike[str]
"""A script: its text, or a path, which as a text ends in `.zql`."""


class Session:
    """Runs scripts and queries; keeps views, parameters, imports and settings between them.

    A context manager: leaving it ends the workers and removes temporary files. `memory_limit` is
    in bytes, or text such as `4GB`, for all processes together. `stage_resources` say what stages
    of each statement may use, by their place in it from 0: EXPLAIN shows them, and counts from 1.
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
        stage_resources: Mapping[int, Resources] | None = None,
    ) -> None:
        from zql.execution.settings import Secret

        self.settings = Settings(
            workers=None if workers is None else setting_value("workers", workers),
            threads=None if threads is None else setting_value("threads", threads),
            memory=parse_bytes(memory_limit) if memory_limit is not None else None,
            temp_dir=temp_dir,
            storage_options=Secret(storage_options),
        )
        self.stage_resources = _checked_resources(stage_resources or {})
        self._most_stages = 0
        self.disabled: frozenset[str] = frozenset()
        self.declarations = Declarations()
        self._objects: dict[str, object] = {}
        self._handed = HandedTables()
        self._tables = StoredTables()
        self._shared = SharedObjects()
        self._described: dict[str, Columns] = {}
        self.formats = OwnFormats()
        self._engine: Engine | None = None
        self._runner: Runner | None = None
        self.previous: ast.Query | None = None
        self.notes: RunNotes | None = None
        self.unfinished = False
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
        """Makes a Python function callable by its name in this session's queries.

        The options are those of `@zql.udf`, and win over it.
        """
        from zql.execution.introspect import python_function

        found = python_function(function, name, **options)
        self.declarations.functions[found.name] = found
        return found

    def format(
        self,
        target: Any,
        name: str | None = None,
        *,
        suffixes: str | Sequence[str] | None = None,
    ) -> PythonFormat:
        """Makes a format of a function that reads, or of a class, for this session's queries.

        Name and suffixes are those of `@zql.format`, where they are not given. Raises `UsageError`.
        """
        from zql.execution.own_formats import declared

        found = declared(target, name, suffixes)
        self.formats.add(found)
        return found

    def share(self, name: str, value: object) -> None:
        """Makes any object an argument `$name` of Python functions in this session's queries.

        It is stored once for all workers, and each loads it when it first needs it; arrays in it
        stay mapped to the file. `DECLARE name SHARED DEFAULT module.factory(..)` does it in a
        script.
        """
        key = f"{name}-{os.urandom(8).hex()}"
        self._shared.put(key, value)
        self.declarations.parameters[name] = SharedObject(name, key)

    def tables(self) -> list[str]:
        """Names that FROM knows: views and objects."""
        return [
            v
            for v in (*self.declarations.views, *self.declarations.tables, *self._objects)
            if v != "_"
        ]

    def interrupt(self) -> None:
        """Stops what runs; from any thread."""
        if self._runner is not None:
            self._runner.interrupt()
        if self._engine is not None:
            self._engine.interrupt()

    def close(self) -> None:
        """Ends workers, forgets tables, removes temporary files; the session can be used again."""
        self._stop()
        for name in self._tables.tables:
            self.declarations.tables.pop(name, None)
        self._tables.close(unfinished=self.unfinished)
        self._shared.close()

    def _stop(self) -> None:
        self._described.clear()
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

            self._runner = Runner(
                self.settings,
                ChainMap(self._objects, self._handed.tables),
                self.engine(),
                self._tables,
                self._shared,
            )
        self._runner.notes = self.notes
        return self._runner

    # ---- scripts -------------------------------------------------------------------------------

    def statements(
        self,
        source: Script,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> Iterator[StatementResult]:
        """Runs a script statement by statement, as the results are asked for.

        Parsing and parameters are checked before the first one runs. Raises `ZqlError`.
        """
        text, base_dir = _source(source, base_dir)
        run = ScriptRun(self, text, dict(params or {}), base_dir, tables)
        yield from run.results()

    def run(
        self,
        script: str | os.PathLike[str],
        params: Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, object] | None = None,
        stage_resources: Mapping[int, Resources] | None = None,
    ) -> RunReport:
        """Runs a script (a path that ends in `.zql`, or text); the reports of its WRITEs as one.

        Queries without WRITE are checked and not run: nobody would see their rows. With
        `stage_resources` those of the session do not count.
        """
        source, base_dir = _source(script)
        before, self._most_stages = self.stage_resources, 0
        if stage_resources is not None:
            self.stage_resources = _checked_resources(stage_resources)
        try:
            report = ScriptRun(self, source, dict(params or {}), base_dir, tables).run()
            unknown = [n for n in stage_resources or () if n >= self._most_stages]
            return replace(report, warnings=(*report.warnings, *map(self._no_stage, unknown)))
        finally:
            self.stage_resources = before

    def _no_stage(self, number: int) -> str:
        return (
            f"stage_resources: there is no stage {number}; they are counted from 0, one less than "
            f"in EXPLAIN, and no statement has more than {self._most_stages}"
        )

    def check(
        self,
        source: Script,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        warnings: list[str] | None = None,
    ) -> list[ZqlError]:
        """Parses and binds a script without running it; all its errors, sorted by place.

        What is no error and is rarely meant is added to `warnings`.
        """
        text, base_dir = _source(source, base_dir)
        try:
            script = ScriptRun(
                self, text, dict(params or {}), base_dir, None, checking=True, lenient=True
            )
        except ErrorList as errors:
            return errors.errors
        except ZqlError as error:
            return [error]
        errors_found = script.check()
        if warnings is not None:
            warnings += script.doubts.texts
        return errors_found

    def explain(
        self,
        source: Script,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        level: str = "stages",
        format: str = "text",
    ) -> str:
        """The plans of a script's queries: a level and a format of `zql explain`.

        Level `analyze` runs the script. Raises `ZqlError`.
        """
        from zql.explain.explanation import FORMATS, all_shown, checked

        form = checked("format", format, FORMATS)
        found = self.explanations(source, params, base_dir=base_dir, level=level)
        return all_shown(found, form)

    def explanations(
        self,
        source: Script,
        params: Mapping[str, Any] | None = None,
        *,
        base_dir: str | None = None,
        level: str = "stages",
    ) -> list[Explanation]:
        """Each query of a script at a level, as text and as data. Raises `ZqlError`."""
        from zql.explain.explanation import LEVELS, checked

        wanted = checked("level", level, LEVELS)
        runs = wanted == "ANALYZE"
        text, base_dir = _source(source, base_dir)
        script = ScriptRun(self, text, dict(params or {}), base_dir, None, checking=not runs)
        return list(script.explained(wanted))

    def dry_run(
        self,
        source: Script,
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
        script = ScriptRun(self, source, dict(params or {}), None, tables, find=find)
        return script.single_query(text, params)

    def then(self, query: Query, text: str, params: Mapping[str, Any] | None) -> Query:
        """A query with more operators; see `Query.then`."""
        joined = f"{query.text.rstrip().rstrip(';')}\n{text}"
        given = {**query.params, **(params or {})}
        return self.query(joined, given, tables=query.tables, scan_locals=False)

    def write_query(self, query: Query, path: str, options: Mapping[str, Any]) -> RunReport:
        """Writes a query's rows; see `Query.write`."""
        target = self.catalog().write_target(path, options)

        def write(rows: lp.Query) -> lp.Write:
            place = by_partition(target, rows.names, rows.input.columns, {})
            told = (rows.input, path, place.format, rows.names, place.mode, place.options)
            return lp.Write(*told, own=place.own)

        plan = lp.with_rows(query._plan, write)  # noqa: SLF001 - a query belongs to its session
        stages = self.compile(plan).stages
        with call_places(stages):
            return self.runner().run(stages)

    def open_rows(self, plan: lp.Query | lp.Program) -> RowStream:
        """Runs a bound query; its rows as a stream."""
        compiled = self.compile(plan).stages
        with call_places(compiled):
            if len(compiled.outputs) == 1:
                return self.runner().collect(compiled)
            _, (rows,) = self.runner().outputs(compiled)
            return rows

    def print_rows(self, rows: RowStream) -> None:
        """Prints rows as a table, and closes them."""
        from zql.display.box import render_box
        from zql.display.preview import read_preview

        try:
            sys.stdout.write(render_box(read_preview(rows, None)) + "\n")
        finally:
            rows.close()

    def explanation(self, plan: lp.Root, level: str, warnings: Sequence[str] = ()) -> Explanation:
        """A bound statement at one of LEVELS but SYNTAX; for ANALYZE it is run."""
        from zql.explain.explanation import logical, stages, trace
        from zql.explain.notes import notes_of
        from zql.explain.sizes import size_notes

        compiled = self.compile(plan)
        if level == "LOGICAL":
            return logical(compiled.bound)
        if level == "TRACE":
            return trace(compiled.bound, compiled.trace)
        report = self.measured(compiled.stages) if level == "ANALYZE" else None
        notes = notes_of(
            compiled.bound,
            compiled.trace,
            compiled.optimized,
            compiled.stages,
            compiled.unfused,
            self.disabled,
            warnings,
            self._reusable(compiled.stages) if report is None else (),
        )
        numbers = size_notes(compiled.stages, self.settings)
        return stages(compiled.stages, (*notes, *numbers), report)

    def _reusable(self, plan: PhysicalPlan) -> list[str]:
        """What a run would find done, for EXPLAIN, where it would look."""
        if not (self.settings.cache or (plan.writes and self.settings.resume)):
            return []
        from zql.execution.reuse_preview import previews

        found = previews(plan, self.settings, self.engine(), self._tables.tables)
        return [each.shown for each in found]

    def measured(self, plan: PhysicalPlan) -> RunReport:
        """Runs a plan for its figures: outputs are written, rows for the caller thrown away."""
        dropped = tuple(
            replace(stage, sink=Drop()) if isinstance(stage.sink, Collect) else stage
            for stage in plan.stages
        )
        return self.runner().run(replace(plan, stages=dropped), measured=True)

    def explain_query(self, query: Query, level: str, format: str) -> str:
        """A query's plans; see `Query.explain`."""
        from zql.explain.explanation import FORMATS, LEVELS, checked, syntax

        wanted, form = checked("level", level, LEVELS), checked("format", format, FORMATS)
        if wanted == "SYNTAX":
            last = parse_script(Source("<query>", query.text)).statements[-1]
            return syntax(print_statement(last)).shown(form)
        return self.explanation(query._plan, wanted).shown(form)  # noqa: SLF001 - its session

    def compile(self, plan: lp.Root) -> Compiled:
        """A bound plan, optimized and cut into stages."""
        optimized, rewrites = optimize(plan, self.disabled)
        asked = self.settings.partitions
        if asked is not None and partition_aggregates.__name__ not in self.disabled:
            optimized = in_parts(optimized, asked)
        if asked is not None and partition_sorts.__name__ not in self.disabled:
            optimized = sorts_in_parts(optimized, asked)
        if not isinstance(optimized, lp.Root):
            raise TypeError(optimized)
        unfused = split(optimized)
        stages = fuse_steps(unfused) if fuse_steps.__name__ not in self.disabled else unfused
        if share_groups.__name__ not in self.disabled:
            stages = share_groups(stages)
        self._most_stages = max(self._most_stages, len(stages.stages))
        stages = stages.asking(self.stage_resources)
        return Compiled(plan, optimized, rewrites, stages, unfused)

    def catalog(
        self,
        base_dir: str | None = None,
        tables: Mapping[str, object] | None = None,
        find: Callable[[str], object | None] | None = None,
    ) -> EngineCatalog:
        return EngineCatalog(
            self.engine,
            self._objects,
            find=find or (lambda _name: None),
            tables=tables,
            handed=self._handed,
            base_dir=base_dir,
            probe=self._probe,
            storage_options=self.settings.storage_options.reveal(),
            described=self._described,
            formats=self.formats,
        )

    def _probe(
        self,
        function: PythonFunction,
        plan: lp.LogicalPlan,
        record: Any,
        keywords: Any,
        tolerant: bool,
        shared: Shared,
        way: ProbeWay,
    ) -> PythonFunction:
        limited = lp.Query(lp.Limit(_lenient(plan), 100), tuple(c.name for c in plan.columns))
        compiled = self.compile(limited).stages.stages
        stages = PhysicalPlan(tuple(replace(stage, resources=None) for stage in compiled))
        return self.runner().probe(
            function, stages, record, keywords, way, tolerant=tolerant, shared=shared
        )


def _lenient(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan for a look at a few rows: none is kept as a reject, and any number may fail."""

    def visit(node: Node) -> Node:
        if not isinstance(node, ErrorPolicy):
            return node
        return replace(node, most_rows=None, most_percent=None, record=(), facts=())

    lenient: lp.LogicalPlan = rewrite_up(plan, visit)
    return lenient


ALL_RULES = frozenset({*RULES, fuse_steps.__name__, share_groups.__name__})
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


_RESOURCES_HINT = 'stage_resources={0: zql.Resources(cpu=8, memory="32GB")}'


def _checked_resources(given: Mapping[Any, Any]) -> Mapping[int, Resources]:
    """What stages may use. Raises `UsageError`."""
    if not isinstance(given, Mapping):
        raise UsageError(
            f"stage_resources takes a dict, not {type(given).__name__}",
            code="U607",
            hint=_RESOURCES_HINT,
        )
    for number, resources in given.items():
        whole = isinstance(number, int) and not isinstance(number, bool) and number >= 0
        if not whole or not isinstance(resources, Resources):
            raise UsageError(
                f"stage_resources takes stages, from 0, and their Resources, not "
                f"{number!r}: {resources!r}",
                code="U607",
                hint=_RESOURCES_HINT,
            )
    return dict(given)


def _source(script: Script, base_dir: str | None = None) -> tuple[Source, str | None]:
    """The text of a script and the folder that its paths start from. Raises `UsageError`."""
    if isinstance(script, Source):
        return script, base_dir
    text = os.fspath(script)
    is_path = isinstance(script, os.PathLike) or (text.endswith(".zql") and "\n" not in text)
    if not is_path:
        return Source("<script>", text), base_dir
    try:
        with open(text, encoding="utf-8-sig", newline="") as file:
            folder = base_dir or os.path.dirname(os.path.abspath(text))
            return Source(text, file.read()), folder
    except OSError as error:
        raise UsageError(f"cannot read {text}: {error.strerror}", code="U601") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{text} is not UTF-8: byte {error.start}", code="U602") from None


def _frame_finder(frame: Any) -> Callable[[str], object | None]:
    def find(name: str) -> object | None:
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        return value if hasattr(value, "__arrow_c_stream__") else None

    return find


_DEFAULT: Session | None = None


def default_session() -> Session:
    """The session behind `zql.query` and `zql.run`."""
    global _DEFAULT  # noqa: PLW0603 - one for the process
    if _DEFAULT is None:
        _DEFAULT = Session()
    return _DEFAULT
