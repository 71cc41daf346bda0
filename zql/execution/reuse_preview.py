"""What a run would find done, for EXPLAIN: the same keys as a run has, and nothing is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zql.execution import tasks
from zql.execution.engine import Engine
from zql.execution.kept import KeptFile
from zql.execution.native import plan_of
from zql.execution.own_formats import format_of
from zql.execution.partitions import bytes_of_rows, dealing
from zql.execution.result_store import Entry
from zql.execution.reuse import Reuse, Tables, reuse_of
from zql.execution.settings import Settings
from zql.execution.sink import target_of
from zql.execution.sizes import files_of_share, split_of_files
from zql.execution.sorts import can_sort, choice
from zql.execution.sources import Input
from zql.execution.stages import is_python, shuffled_bytes
from zql.execution.write_shares import SHARES, in_shares
from zql.execution.writing import FileOutput, KeptOutput
from zql.logical.plan import Scan, StageResult
from zql.physical.dealt import sorted_alone, sorted_whole, undealt
from zql.physical.plan import (
    Collect,
    Drop,
    PhysicalPlan,
    Stage,
    WriteFiles,
    policies_of,
    rejects_of,
)
from zql.physical.split import CUT_BY
from zql.tree import walk


@dataclass(frozen=True, slots=True)
class Preview:
    """Of a stage, how many of its tasks are done; `tasks` is None when nothing can be said yet."""

    stage: int
    reused: int
    tasks: int | None

    @property
    def shown(self) -> str:
        """The same in words."""
        if self.tasks is None:
            return f"what is there of stage {self.stage} depends on the stages before it"
        if self.reused == self.tasks:
            return f"stage {self.stage} is there already"
        if not self.reused:
            return f"nothing is there of stage {self.stage}"
        return f"{self.reused:,} of {self.tasks:,} tasks of stage {self.stage} are there already"


def previews(
    plan: PhysicalPlan, settings: Settings, engine: Engine, tables: Tables
) -> Iterator[Preview]:
    """What a run of the plan would find, stage by stage; `tables` are those of the session."""
    look = _Look(plan, settings, engine, tables)
    try:
        for each in plan.stages:
            if each.spread is not None and each.spread.keys:
                continue  # they are dealt only where their groups are not there
            stage = undealt(each, dealing(plan, each)) if each.by_partition else each
            stage = look.sorting(stage)
            if look.leaves(stage):
                continue
            if not isinstance(stage.sink, Drop | Collect) or is_python(stage):
                yield look.at(stage)
    finally:
        look.reuse.close()


class _Look:
    def __init__(
        self, plan: PhysicalPlan, settings: Settings, engine: Engine, tables: Tables
    ) -> None:
        self.reuse: Reuse = reuse_of(plan, settings, engine.version(), tables)
        self._stages = plan.stages
        self._settings = settings
        self._engine = engine
        self._results: dict[int, tuple[KeptFile, ...]] = {}
        self._left: dict[int, Stage] = {}

    def leaves(self, stage: Stage) -> bool:
        """Whether the rows of a stage are not dealt to ranges, but sorted by who reads them."""
        if stage.spread is None or not stage.spread.order:
            return False
        settings = self._settings.for_stage(stage.resources, python=False)
        if choice(bytes_of_rows(plan_of(stage), self._results, {}), settings).deals:
            return False
        self._left[stage.id] = stage
        return True

    def sorting(self, stage: Stage) -> Stage:
        """The stage with the sorts in it that were left to it."""
        for number in stage.inputs:
            rows = self._left.get(number)
            if rows is not None and can_sort(stage, rows):
                stage = sorted_whole(stage, rows)
            elif rows is not None:
                self.at(sorted_alone(rows))
        return stage

    def at(self, stage: Stage) -> Preview:
        own = {stage.source.stage} if isinstance(stage.source, StageResult) else set()
        if not {*stage.inputs, *own} <= self._results.keys():
            return Preview(stage.id, 0, None)
        found = self._tasks(stage) if is_python(stage) else self._statement(stage)
        done = [entry for entry in found if entry is not None]
        if len(done) == len(found) and stage.spread is None:
            self._results[stage.id] = tuple(file for entry in done for file in entry.files)
            for number in (policy.number for policy in policies_of(stage)):
                self._results[rejects_of(number)] = tuple(_rejects(number, done))
        return Preview(stage.id, len(done), len(found))

    def _tasks(self, stage: Stage) -> list[Entry | None]:
        inputs = tasks.inputs_of(stage, self._engine, self._settings, self._results)
        count = len(inputs)
        outputs = [self._output(stage, number, count, whole=False) for number in range(count)]
        specs = tasks.specs(stage, inputs, outputs, self._settings, self._results)
        return self.reuse.peek_at_tasks(stage, specs, self._results)

    def _statement(self, stage: Stage) -> list[Entry | None]:
        parts = self._parts(stage)
        more: tuple[object, ...] = () if stage.spread is None else (stage.spread,)
        if in_shares(stage):
            more = (*more, SHARES)
        output = self._output(stage, 0, 1, whole=True)
        key = self.reuse.key_of(stage, self._results, output, *more)
        if len(parts) < 2:
            return [self.reuse.peek(key)]
        return [self.reuse.peek(self.reuse.key_of_part(key, part)) for part in parts]

    def _parts(self, stage: Stage) -> list[Input]:
        """The splits of which each gives a file of its own."""
        sink = stage.sink
        if not isinstance(sink, WriteFiles) or not stage.row_local:
            return []
        scans = {node for step in stage.steps for node in walk(step) if isinstance(node, Scan)}
        target = target_of(sink)
        if len(scans) != 1 or not target.sharded or not CUT_BY.isdisjoint(dict(target.options)):
            return []
        (scan,) = scans
        format_, options = format_of(scan.format, scan.own), dict(scan.options)
        total = sum(file.size for file in scan.files)
        size = split_of_files(total, self._settings.split_size).size
        return list(format_.splits(scan.files, options, size, self._engine))

    def _output(
        self, stage: Stage, number: int, count: int, *, whole: bool
    ) -> FileOutput | KeptOutput:
        """The form of what a stage leaves, as the run has it."""
        sink = stage.sink
        if not isinstance(sink, WriteFiles):
            return KeptOutput("")
        target = target_of(sink)
        told = (target.format, sink.names, target.compression, target.format_options, target.own)
        several = target.sharded and (target.shards or 1) > 1
        if several or target.partition_by or target.max_rows or target.file_size:
            return KeptOutput("")
        size = shuffled_bytes(stage, self._stages, self._results) if target.sharded else 0
        if files_of_share(size, size, size, self._settings.split_size) > 1:
            return KeptOutput("")
        if target.sharded and target.shards is None:
            return FileOutput("", *told, target.path(number, count))
        output = FileOutput("", *told, target.path(0, 1))
        if whole:
            return output
        if target.own is not None:
            return KeptOutput("")
        part = format_of(output.format, output.own).part_compression(output.compression)
        return replace(output, compression=part)


def _rejects(number: int, done: Sequence[Entry]) -> Iterator[KeptFile]:
    for entry in done:
        for each in entry.rejected:
            if each.policy == number and each.file is not None:
                yield each.file
