"""The command line's surface: commands, their options, help and exit codes.

0 done, 1 the run failed (or `check` or `fmt --check` found something), 2 wrong usage or a script
that is no ZQL, 130 interrupted. Nothing heavy is imported here: `--help`, `--version` and
completion stay quick.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import click

from zql import __version__
from zql.cli.options import EXPLAIN_FORMATS, LEVELS, Command, Settings, options
from zql.errors import nearest

Action = Callable[[], int]

_OBJECTS = 50_000
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Commands(Command, click.Group):
    """The group of commands; an unknown one brings a suggestion."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            message = f"no command {name!r}"
            if name.endswith(".zql") or os.path.isfile(name):
                message += f'; did you mean "zql run {name}"?'
            elif " " in name:
                message += "; a query goes behind -c"
            elif near := nearest(name, self.commands):
                message += "; did you mean " + " or ".join(f'"{n}"' for n in near) + "?"
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)


@click.group("zql", cls=_Commands, invoke_without_command=True, context_settings=_CONTEXT)
@options("source", "run", "dry", "output", "talk", "repl")
@click.version_option(__version__, "--version", message="zql %(version)s")
@click.pass_context
def command(ctx: click.Context) -> Action | None:
    """SQL-like dataflow over files, DuckDB and your Python functions.

    Without a command or -c: a shell on a terminal, else the script that stdin holds.

    \b
      zql -c "FROM 'docs/*.jsonl.gz' |> AGGREGATE count(*) AS n GROUP BY lang"
      zql run clean.zql -p min_score=0.5 --workers 8
    """  # noqa: D301 - \b is click's sign not to wrap what follows
    settings = ctx.ensure_object(Settings)
    if ctx.invoked_subcommand is not None:
        return None
    from zql.cli import actions

    if not settings.sources and not settings.dry_run and actions.is_interactive():
        return partial(actions.shell, settings)
    return partial(actions.run, settings, () if settings.sources else ("-",))


@command.command("run", short_help="Run scripts.")
@click.argument("files", nargs=-1, metavar="FILE|-...", type=click.Path())
@options("source", "run", "dry", "output", "talk")
@click.pass_obj
def _run(settings: Settings, files: tuple[str, ...]) -> Action:
    """Run scripts (- is stdin)."""
    from zql.cli import actions

    return partial(actions.run, settings, files)


@command.command("explain", short_help="Show the stages of a script.")
@click.argument("files", nargs=-1, metavar="[FILE|-]", type=click.Path())
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), help="What to show.")
@click.option("--logical", is_flag=True, help="The bound plan: same as --level logical.")
@click.option("--trace", is_flag=True, help="The plan after each rule: same as --level trace.")
@click.option("--analyze", is_flag=True, help="Run the script, and show what was measured.")
@click.option("--format", "form", type=click.Choice(EXPLAIN_FORMATS, case_sensitive=False),
              default="text", help="How the plans are printed.")  # fmt: skip
@options("source", "run", "talk")
@click.pass_obj
def _explain(
    settings: Settings,
    /,
    files: tuple[str, ...],
    level: str | None,
    form: str,
    **flags: bool,
) -> Action:
    """Show the stages of a script, their SQL and Python calls, and why they are as they are.

    Nothing is run, unless the level is analyze: then the script runs, WRITE and all.
    """
    from zql.cli import actions

    chosen = {name for name, on in flags.items() if on}
    chosen |= {level.lower()} if level else set()
    if len(chosen) > 1:
        raise click.UsageError("one level at a time: " + " or ".join(sorted(chosen)))
    wanted = chosen.pop() if chosen else "stages"
    return partial(actions.explain, settings, files, wanted, form.lower())


@command.command("check", short_help="Find mistakes in scripts.")
@click.argument("files", nargs=-1, metavar="FILE|-...", type=click.Path())
@click.option("--format", "form", type=click.Choice(("text", "json", "github")), default="text",
              help="How mistakes are printed.")  # fmt: skip
@options("source", "run", "talk")
@click.pass_obj
def _check(settings: Settings, files: tuple[str, ...], form: str) -> Action:
    """Find the mistakes in scripts: syntax, names, types; run nothing."""
    from zql.cli import actions

    return partial(actions.check, settings, files, form)


@command.command("fmt", short_help="Format scripts.")
@click.argument("paths", nargs=-1, metavar="FILE|FOLDER|-...", type=click.Path())
@click.option("--check", is_flag=True, help="Name the scripts that would change; change nothing.")
@click.option("--diff", is_flag=True, help="Show what would change; change nothing.")
@options("talk")
@click.pass_obj
def _fmt(settings: Settings, paths: tuple[str, ...], check: bool, diff: bool) -> Action:
    """Format scripts in place; of a folder all *.zql; - is stdin to stdout.

    Comments stay, and so does what the scripts mean. The exit code of --check is 1 when a script
    would change.
    """
    from zql.cli import actions

    return partial(actions.format_scripts, settings, paths, check=check, diff=diff)


@command.command("schema", short_help="Show the columns of files.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@options("talk")
@click.pass_obj
def _schema(settings: Settings, paths: tuple[str, ...]) -> Action:
    """Show names and types of the columns of files, folders or patterns."""
    from zql.cli import actions

    return partial(actions.schema, settings, paths)


@command.command("runs", short_help="List the last runs.")
@click.option("-n", "most", type=click.IntRange(min=1), default=20, show_default=True,
              help="How many.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text",
              help="How they are printed.")  # fmt: skip
def _runs(most: int, form: str) -> Action:
    """List the last runs that wrote, the newest first.

    With their state, when they began, how long they took, the rows that they wrote, and where to.
    """
    from zql.cli import actions

    return partial(actions.runs, most, form)


@command.command("clean", short_help="Remove what dead runs have left.")
@click.option("--dry-run", is_flag=True, help="Print what would go; remove nothing.")
@click.option("--temp-dir", metavar="DIR", type=click.Path(), help="Look in this folder, too.")
@click.option("--cache", "caches", metavar="DIR", multiple=True, type=click.Path(),
              help="Look in this cache, too; those of the last runs are known.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0), default=30, show_default=True,
              help="Results in caches go that were not used for so many days.")  # fmt: skip
def _clean(dry_run: bool, temp_dir: str | None, caches: tuple[str, ...], days: float) -> Action:
    """Remove what killed and failed runs have left: work to be resumed, temporary files.

    What belongs to a run that is under way stays.
    """
    from zql.cli import actions

    return partial(actions.clean, temp_dir, caches, days, dry_run=dry_run)


@command.command("completion", short_help="Print shell completion.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def _completion(shell: str) -> None:
    """Print the lines that teach a shell to complete zql.

    For bash: eval "$(zql completion bash)" in ~/.bashrc.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    # The classes' own `source` starts a shell first, to ask for its version.
    click.echo(ShellComplete.source(kind(command, {}, "zql", "_ZQL_COMPLETE")))


def call(args: Sequence[str] | None = None) -> int:
    """Runs the command line and gives its exit code; the errors of users are printed, not raised.

    A command gives back what is to be done, to be done here: click would take some exceptions of
    a run (EOFError, a broken pipe) for the user's doing.
    """
    try:
        # Answers the shell's question and exits when `_ZQL_COMPLETE` is set.
        action: Any = command.main(
            args=None if args is None else list(args),
            prog_name="zql",
            complete_var="_ZQL_COMPLETE",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        return 130
    # `--help` and `--version` have done their work and give an exit code.
    return int(action()) if callable(action) else 0


def main() -> NoReturn:
    """The entry point `zql`: never returns."""
    from zql.cli.process import guarded

    # Modules that are loaded make many objects and no garbage; it is looked for less often.
    gc.set_threshold(_OBJECTS)
    code = guarded(call, verbose="-v" in sys.argv or "--verbose" in sys.argv)
    if "joblib" in sys.modules:
        sys.exit(code)
    # Sessions are closed and streams flushed: taking the interpreter down object by object would
    # cost a quick query a tenth of its time. Where workers ran, their library has its own end.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)
