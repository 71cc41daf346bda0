"""The options of the command line: what they are called, and the settings they give.

Most of them may stand before and behind a sub-command (`zql -v run x.zql`, `zql run x.zql -v`), so
each one puts its value into one record that the commands share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown", "arrow", "parquet")
LEVELS = ("stages", "syntax", "logical", "trace", "analyze")
EXPLAIN_FORMATS = ("text", "json", "mermaid")


class Settings:
    """What the command line asked for.

    `sources` are pairs of a kind (`command` or `file`) and a text or path, in the order in which
    they were written; `params` and `sets` are `name=value` texts. No dataclass: making one would
    take a tenth of the time that `zql --help` has.
    """

    def __init__(self) -> None:
        self.sources: list[tuple[str, str]] = []
        self.params: list[str] = []
        self.params_file: str | None = None
        self.sets: list[str] = []
        self.storage_options: list[str] = []
        self.workers: int | None = None
        self.threads: int | None = None
        self.memory: str | None = None
        self.temp_dir: str | None = None
        self.resume = False
        self.cache: str | None = None
        self.dry_run = False
        self.format: str | None = None
        self.output: str | None = None
        self.json = False
        self.max_rows: int | None = 40
        self.quiet = False
        self.verbose = False
        self.no_color = False
        self.init: str | None = None
        self.no_init = False


F = TypeVar("F", bound=Callable[..., Any])
_SOURCES = ("command", "file")


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Stores a given value; a list grows, anything else replaces what stood before."""
    settings = ctx.ensure_object(Settings)
    name = param.name or ""
    if value in (None, (), False):
        return
    if name in _SOURCES:
        ctx.meta.setdefault(f"zql.{name}", []).extend(value)
    elif isinstance(value, tuple):
        getattr(settings, name).extend(value)
    else:
        setattr(settings, name, value)


def _keep_format(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    settings = ctx.ensure_object(Settings)
    chosen = value if isinstance(value, str) else param.name if value else None
    if chosen is None:
        return
    if settings.format not in (None, chosen):
        message = f"--format {settings.format} and --format {chosen} exclude each other"
        raise click.UsageError(message, ctx)
    settings.format = chosen


def _keep_max_rows(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if value != "all" and not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor `all`")
    ctx.ensure_object(Settings).max_rows = None if value == "all" else int(value)


def _option(*names: str, callback: Callable[..., None] = _keep, **more: Any) -> Callable[[F], F]:
    return click.option(*names, callback=callback, expose_value=False, **more)


_SOURCE_OPTIONS = (
    _option("-c", "command", metavar="QUERY", multiple=True, help="Run a query; repeatable."),
    _option(
        "-f",
        "file",
        metavar="FILE",
        multiple=True,
        type=click.Path(),
        help="Run a script, or - for stdin.",
    ),
)
_RUN_OPTIONS = (
    _option("-p", "--param", "params", metavar="NAME=VALUE", multiple=True,
            help="Value of a parameter: typed by its DECLARE, else JSON, else text."),
    _option("--params-file", metavar="FILE", type=click.Path(),
            help="Parameters from a JSON or TOML file; -p wins."),
    _option("--workers", metavar="N", type=click.IntRange(min=1),
            help="Processes that run Python functions; all cores if not given."),
    _option("--threads", metavar="N", type=click.IntRange(min=1),
            help="Threads of DuckDB; all cores if not given."),
    _option("--memory", metavar="SIZE", help="Memory for the whole run, as in 4GB."),
    _option("--temp-dir", metavar="DIR", type=click.Path(), help="Folder for spilled data."),
    _option("--resume", is_flag=True, help="Go on from what runs before have finished."),
    _option("--cache", metavar="DIR", type=click.Path(),
            help="Keep results of stages in a folder, for later runs."),
    _option("--set", "sets", metavar="NAME=VALUE", multiple=True,
            help="A setting, as SET does it in a script."),
    _option("--storage-option", "storage_options", metavar="NAME=VALUE", multiple=True,
            help="An option for object stores."),
)  # fmt: skip
_OUTPUT_OPTIONS = (
    _option("--format", "format", type=click.Choice(FORMATS, case_sensitive=False),
            callback=_keep_format, help="Of results: table on a terminal, jsonl in a pipe."),
    _option("--csv", "csv", is_flag=True, callback=_keep_format, help="Same as --format csv."),
    _option("--tsv", "tsv", is_flag=True, callback=_keep_format, help="Same as --format tsv."),
    _option("--jsonl", "jsonl", is_flag=True, callback=_keep_format,
            help="Same as --format jsonl."),
    _option("--md", "markdown", is_flag=True, callback=_keep_format,
            help="Same as --format markdown."),
    _option("-o", "--output", metavar="FILE", type=click.Path(),
            help="Write the one result to a file, in the format of its suffix."),
    _option("--json", "json", is_flag=True,
            help="Print what the run did (outputs, counters, timings) as one JSON object."),
    _option("--max-rows", "--maxrows", "max_rows", metavar="N", callback=_keep_max_rows,
            help="Rows of a table that are shown, or all; 40 if not given."),
)  # fmt: skip
_TALK_OPTIONS = (
    _option("-q", "--quiet", is_flag=True, help="Print results and errors only."),
    _option("-v", "--verbose", is_flag=True, help="Print stages and timings, and tracebacks."),
    _option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same."),
)
_DRY_RUN = _option("--dry-run", is_flag=True, help="Print what would run; run nothing.")
_REPL_OPTIONS = (
    _option("--init", metavar="FILE", type=click.Path(),
            help="Read this file instead of ~/.zqlrc when the shell starts."),
    _option("--no-init", is_flag=True, help="Do not read ~/.zqlrc."),
)  # fmt: skip


def options(*kinds: str) -> Callable[[F], F]:
    """Adds options by kind: source, run, dry, output, talk, repl."""
    groups = {
        "source": _SOURCE_OPTIONS,
        "run": _RUN_OPTIONS,
        "dry": (_DRY_RUN,),
        "output": _OUTPUT_OPTIONS,
        "talk": _TALK_OPTIONS,
        "repl": _REPL_OPTIONS,
    }
    chosen = [option for kind in kinds for option in groups[kind]]

    def decorate(function: F) -> F:
        for option in reversed(chosen):
            function = option(function)
        return function

    return decorate


class Command(click.Command):
    """A command that remembers in which order `-c` and `-f` were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        order = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(list(args))[2]
        rest = super().parse_args(ctx, args)
        given = {name: iter(ctx.meta.pop(f"zql.{name}", ())) for name in _SOURCES}
        for param in order:
            if param.name in _SOURCES:
                ctx.ensure_object(Settings).sources.append((param.name, next(given[param.name])))
        return rest
