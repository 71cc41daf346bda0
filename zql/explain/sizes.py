"""The notes of EXPLAIN on numbers: how big the parts of a run are, what stages may use, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zql.execution import partitions, sizes, sorts
from zql.execution.machine import allowed_memory
from zql.execution.native import plan_of
from zql.execution.own_formats import format_of
from zql.execution.settings import Settings
from zql.execution.sizes import mib
from zql.execution.stages import shuffle_of
from zql.execution.write_shares import in_shares
from zql.explain.notes import Note
from zql.explain.text import is_sharded
from zql.logical import plan as lp
from zql.physical.plan import Keep, PhysicalPlan, Stage, WriteFiles
from zql.physical.split import CUT_BY
from zql.resources import Resources
from zql.schema import InputFile
from zql.tree import walk

_SIZED = ("max_rows_per_file", "file_size_bytes")


def size_notes(plan: PhysicalPlan, settings: Settings) -> Iterator[Note]:
    """The numbers of a statement: none of one whose input is so small that it is not cut."""
    yield from _exchanges(plan, settings)
    scans = [s for stage in plan.stages for s in (stage.source, *walk(stage)) if _is_scan(s)]
    total = sum(file.size for scan in dict.fromkeys(scans) for file in scan.files)  # type: ignore[union-attr]
    asked = any(stage.resources is not None for stage in plan.stages)
    if total <= sizes.SMALLEST_SPLIT and not asked:
        return
    for stage in plan.stages:
        own = settings.for_stage(stage.resources, python=stage.source is not None)
        if total > sizes.SMALLEST_SPLIT:
            yield from (
                Note("sizes", f"stage {stage.id}: {text}")
                for text in _parts(stage, own, plan.stages)
            )
        if stage.resources is not None:
            yield Note(
                "resources",
                f"stage {stage.id} asks for {_asked(stage.resources)}: {_uses(stage, own)}",
            )
    if total > sizes.SMALLEST_SPLIT:
        yield from _of_the_run(plan, settings)


def _exchanges(plan: PhysicalPlan, settings: Settings) -> Iterator[Note]:
    """To how many partitions rows are dealt, and why."""
    for stage in plan.stages:
        spread = stage.spread
        if stage.by_partition:
            own = settings.for_stage(stage.resources, python=False)
            yield Note("sizes", _partitions(stage, partitions.dealing(plan, stage), own))
        elif spread is not None and spread.order:
            own = settings.for_stage(stage.resources, python=False)
            yield Note("sizes", _ranges(stage, spread.parts, own))
        elif spread is not None and not spread.keys:
            size = sum(f.size for n in walk(stage) if isinstance(n, lp.Scan) for f in n.files)
            reads = [n for n in walk(stage) if isinstance(n, lp.StageResult | lp.MemoryScan)]
            why = f"for {mib(size)} of files" if size or not reads else "for rows yet to be made"
            why = "as set" if settings.partitions else why
            yield Note("sizes", f"stage {stage.id}: {spread.parts} partitions: {why}")


def _partitions(stage: Stage, rows: Stage, settings: Settings) -> str:
    """Whether the rows of a stage are dealt out for another one, and to how many partitions."""
    parts = rows.spread.parts if rows.spread else 1
    plan = plan_of(rows)
    size = partitions.bytes_of_rows(plan, {}, {})
    found, count = partitions.choice(size, settings), f"{parts} partitions"
    if found.deals:
        each = f" of about {mib(size // parts)}" if size >= sizes.SMALLEST_SPLIT else ""
        return f"stage {stage.id}: {count}{each}: {found.reason}"
    if any(isinstance(node, lp.StageResult | lp.MemoryScan) for node in walk(plan)):
        memory = mib(settings.native_memory() // partitions.SHARE)
        return f"stage {stage.id}: {count}, if there are more than {memory} of rows for it"
    return f"stage {stage.id}: one statement, with stage {rows.id}: {found.reason}"


def _ranges(stage: Stage, parts: int, settings: Settings) -> str:
    """Whether the rows of a stage are dealt to ranges of what they are sorted by."""
    plan = plan_of(stage)
    size = partitions.bytes_of_rows(plan, {}, {})
    found = sorts.choice(size, settings)
    if found.deals:
        each = f" of about {mib(size // parts)}" if size >= sizes.SMALLEST_SPLIT else ""
        return f"stage {stage.id}: {parts} ranges{each}, sampled: {found.reason}"
    if any(isinstance(node, lp.StageResult | lp.MemoryScan) for node in walk(plan)):
        memory = mib(settings.native_memory())
        return f"stage {stage.id}: {parts} ranges, if there are more than {memory} of rows for them"
    return f"stage {stage.id}: not dealt out, the stage that reads it sorts: {found.reason}"


def _is_scan(node: object) -> bool:
    return isinstance(node, lp.Scan)


def _parts(stage: Stage, settings: Settings, stages: Sequence[Stage]) -> Iterator[str]:
    """How a stage is cut into tasks, and its output into files."""
    source = stage.source
    scans = [n for n in walk(stage) if isinstance(n, lp.Scan)]
    if isinstance(source, lp.Scan):
        total = sum(file.size for file in source.files)
        chosen = sizes.split_of_tasks(total, settings.split_size, settings.tasks)
        yield from _splits(source, chosen)
    elif isinstance(source, lp.StageResult) and stage.by_file:
        yield f"a task for each file of whole groups that stage {source.stage} leaves"
    elif isinstance(source, lp.StageResult):
        size = settings.split_size
        by = f"by {mib(size)} (split_size)" if size else sizes.split_of_tasks(0).reason
        if settings.tasks:
            by = f"about {settings.tasks}, as the hint says"
        yield f"tasks over the rows of stage {source.stage}: {by}"
    elif stage.row_local and is_sharded(stage) and len(scans) == 1 and not _is_cut(stage):
        total = sum(file.size for file in scans[0].files)
        yield from _splits(scans[0], sizes.split_of_files(total, settings.split_size))
    if isinstance(stage.sink, Keep) and stage.sink.starts:
        size = settings.split_size
        files = mib(sizes.group_file(0, size))
        more = "" if size else ", which grow with the rows"
        yield f"whole groups in files of {files}{more}"
    if isinstance(stage.sink, WriteFiles):
        yield from _files(stage, stage.sink, settings, stages)


def _is_cut(stage: Stage) -> bool:
    sink = stage.sink
    return isinstance(sink, WriteFiles) and not CUT_BY.isdisjoint(dict(sink.options))


def _files(
    stage: Stage, sink: WriteFiles, settings: Settings, stages: Sequence[Stage]
) -> Iterator[str]:
    options = dict(sink.options)
    if "partition_by" in options:
        yield _dealt(options, settings)
    elif "shards" in options:
        yield f"{options['shards']} files, as shards says"
    elif not options.keys().isdisjoint(_SIZED):
        said = [f"{n} {options[n]:,}" for n in _SIZED if n in options]
        yield f"all rows are kept, then cut into files by {' and '.join(said)}"
    elif is_sharded(stage) and shuffle_of(stage, stages) is not None:
        size = mib(sizes.split_of_files(0, settings.split_size).size)
        yield f"files of equal numbers of rows, one for each {size} of input"
    elif in_shares(stage):
        chosen = sizes.file_of_rows(0, settings.split_size)
        yield f"a file for each {mib(chosen.size)} of rows: {chosen.reason}"
        yield from _put_together(sink, settings)
    elif is_sharded(stage):
        yield from _put_together(sink, settings)


def _put_together(sink: WriteFiles, settings: Settings) -> Iterator[str]:
    """When small files are joined."""
    if sink.own is None:
        if settings.file_size:
            yield f"files of less than {mib(settings.file_size)} (file_size) are put together"
        else:
            least, left = mib(sizes.LEAST_FILE), sizes.FILES_LEFT
            yield f"files of less than {least} are put together, where there are more than {left}"


def _dealt(options: Mapping[str, object], settings: Settings) -> str:
    """How rows go to the folders of their values, and to files there."""
    keys = options["partition_by"]
    names = ", ".join(keys) if isinstance(keys, tuple) else str(keys)
    said = [f"{n} {options[n]:,}" for n in ("shards", *_SIZED) if n in options]
    size = mib(sizes.split_of_files(0, settings.split_size).size)
    by = " and ".join(said) or f"a file for each {size} of input"
    return f"all rows are kept, then dealt to a folder for each value of {names}: {by}"


def _splits(scan: lp.Scan, chosen: sizes.Chosen) -> Iterator[str]:
    """How many parts the files of a scan are cut into, as their sizes say."""
    format_ = format_of(scan.format, scan.own)
    whole = {file: format_.why_whole(file, dict(scan.options)) for file in scan.files}
    count = sum(1 if whole[file] else _count(file, chosen.size) for file in scan.files)
    total = sum(file.size for file in scan.files)
    why = next((reason for reason in whole.values() if reason), "")
    if all(whole.values()):
        reason = f"{mib(total)}: {why}"
    else:
        reason = f"{mib(total)} by {mib(chosen.size)}: {chosen.reason}" + (
            f"; {why}" if why else ""
        )
    yield f"splits: {count:,} ({reason})"


def _count(file: InputFile, size: int) -> int:
    return max(1, -(-file.size // size)) if file.size > size * 3 // 2 else 1


def _asked(resources: Resources) -> str:
    said = [
        f"{name} {mib(value) if name in ('memory', 'split_size') else value}"
        for name, value in resources.said.items()
    ]
    return ", ".join([*said, *([] if resources.fuse else ["a stage of its own"])])


def _uses(stage: Stage, settings: Settings) -> str:
    """What a stage that asks for something has."""
    if stage.source is None:
        return (
            f"{_threads(settings.thread_count())}, DuckDB's memory {mib(settings.native_memory())}"
        )
    each = _threads(settings.worker_threads)
    workers = settings.worker_count()
    return (
        f"{workers} task{'s' * (workers != 1)} at a time, each with {each} and DuckDB's memory "
        f"{mib(settings.worker_memory())}"
    )


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def _of_the_run(plan: PhysicalPlan, settings: Settings) -> Iterator[Note]:
    """Threads, workers and memory of a run, and where each number is from."""
    reason = "as set" if settings.memory else f"60 % of the {mib(allowed_memory())} allowed"
    python = any(stage.source is not None for stage in plan.stages)
    alone = mib(settings.native_memory())
    yield Note(
        "sizes", f"memory: {mib(settings.budget())} ({reason}): DuckDB {alone}, three quarters"
    )
    why = "as set" if settings.threads else "the processors allowed"
    yield Note("sizes", f"threads: {settings.thread_count()} ({why})")
    if python:
        why = "as set" if settings.workers else "the processors allowed"
        share = mib(settings.worker_memory())
        text = f"workers: {settings.worker_count()} ({why}), DuckDB {share} in each"
        yield Note("sizes", text)
