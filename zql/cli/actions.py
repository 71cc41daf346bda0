"""What the commands do: open a Session, hand it the scripts, print what comes back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from zql.cli.early_workers import early_workers
from zql.cli.options import Settings
from zql.cli.sources import Params, Script, literal, pairs, read_params, read_scripts
from zql.display.style import style_for
from zql.errors import ErrorList, Interrupted, UsageError, ZqlError

if TYPE_CHECKING:
    from zql.cli.result_file import ResultFile
    from zql.session import Session


def is_interactive() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_session(settings: Settings) -> Session:
    """A Session as the options want it."""
    from zql.session import Session

    session = Session(
        workers=settings.workers,
        threads=settings.threads,
        memory_limit=settings.memory,
        temp_dir=settings.temp_dir,
        storage_options={
            k: literal(v) for k, v in pairs(settings.storage_options, "--storage-option").items()
        },
    )
    try:
        if settings.resume:
            session.set("resume", value=True)
        if settings.cache is not None:
            session.set("cache", settings.cache)
        for name, value in pairs(settings.sets, "--set").items():
            session.set(name, literal(value))
    except BaseException:
        session.close()
        raise
    return session


def print_error(error: ZqlError, settings: Settings) -> None:
    """The error on stderr; an interruption is one word."""
    from zql.display.errors import render_error
    from zql.display.screen import complain

    style = style_for(sys.stderr, no_color=settings.no_color)
    interrupted = isinstance(error, Interrupted)
    text = style.error("interrupted") if interrupted else render_error(error, style)
    complain(text)


def _reporting(settings: Settings, action: Callable[[], int]) -> int:
    try:
        return action()
    except ZqlError as error:
        # What was printed before stands before the error, unless nobody reads it any more.
        with suppress(OSError):
            sys.stdout.flush()
        print_error(error, settings)
        return error.exit_code


def run(settings: Settings, files: Sequence[str]) -> int:
    """Runs scripts and queries in order, and stops at the first failure."""
    return _reporting(settings, lambda: _run(settings, files))


def _run(settings: Settings, files: Sequence[str]) -> int:
    from zql.cli.output import Output

    scripts = read_scripts(settings, files)
    file = None
    if settings.output in ("-", "/dev/stdout"):
        settings.output = None
    if settings.output and not settings.dry_run:
        scripts, file = _redirected(scripts, settings.output, settings.format)
    output = Output(settings, file)
    error: ZqlError | None = None
    try:
        params = Params(read_params(settings), scripts)
        begun = () if settings.dry_run else scripts
        with early_workers(begun, settings.temp_dir), open_session(settings) as session:
            for script in scripts:
                if settings.dry_run:
                    output.text(
                        session.dry_run(
                            script.source, params.of(script.source), base_dir=script.base_dir
                        )
                    )
                    continue
                for result in session.statements(
                    script.source, params.of(script.source), base_dir=script.base_dir
                ):
                    output.show(result)
        output.finish()
    except ZqlError as caught:
        error = caught
        raise
    finally:
        output.close(error)
    return 0


def _redirected(
    scripts: list[Script], path: str, format: str | None
) -> tuple[list[Script], ResultFile | None]:
    """The scripts writing their one result to `path`, or the file that takes it from here."""
    from zql.cli.result_file import WRITTEN, ResultFile, format_of, is_special, write_into

    chosen = format_of(path, format)
    scripts = write_into(scripts, path, chosen)
    by_us = chosen not in WRITTEN or is_special(path)
    return scripts, ResultFile(path, chosen) if by_us else None


def explain(settings: Settings, files: Sequence[str], level: str, form: str) -> int:
    """Prints the plans of scripts at a level, in a format; those of all scripts together."""

    def action() -> int:
        from zql.cli.output import Output
        from zql.explain.explanation import all_shown

        output = Output(settings)
        scripts = read_scripts(settings, files, "explain")
        params = Params(read_params(settings), scripts)
        found = []
        with open_session(settings) as session:
            for script in scripts:
                found += session.explanations(
                    script.source, params.of(script.source), base_dir=script.base_dir, level=level
                )
        if found or form == "json":
            output.text(all_shown(found, form.upper()))
        return 0

    return _reporting(settings, action)


def check(settings: Settings, files: Sequence[str], form: str) -> int:
    """Prints the mistakes in scripts on stdout: 1 when there are some, else 0."""
    return _reporting(settings, lambda: _check(settings, files, form))


def _check(settings: Settings, files: Sequence[str], form: str) -> int:
    from zql.display.errors import as_github, as_json, flat, render_error
    from zql.display.screen import Screen, complain
    from zql.display.summary import warning_lines

    scripts = read_scripts(settings, files, "check")
    params = Params(read_params(settings), scripts)
    errors: list[ZqlError] = []
    warnings: list[str] = []
    for script in scripts:
        # What one script sets or declares must not hide the mistakes of the next.
        with open_session(settings) as session:
            found = session.check(
                script.source,
                params.of(script.source),
                base_dir=script.base_dir,
                warnings=warnings,
            )
        errors += [one for error in found for one in flat(error)]
    screen = Screen(no_color=settings.no_color)
    if form == "json":
        lines = [as_json(errors)]
    elif form == "github":
        lines = list(as_github(errors))
    else:
        shown = [render_error(error, screen.style) for error in errors[: ErrorList.LIMIT]]
        if errors[ErrorList.LIMIT :]:
            shown.append(f"... and {len(errors) - ErrorList.LIMIT} more")
        lines = ["\n\n".join(shown)] if shown else []
    for line in lines:
        screen.line(line)
    screen.flush()
    if not settings.quiet:
        style = style_for(sys.stderr, no_color=settings.no_color)
        for line in warning_lines(warnings, style):
            complain(line)
    if not settings.quiet and form == "text":
        complain(_verdict(errors, scripts))
    return 1 if errors else 0


def _verdict(errors: Sequence[ZqlError], scripts: Sequence[Script]) -> str:
    from zql.display.text import count

    mistakes = count(len(errors), "mistake") if errors else "no mistakes"
    return f"{mistakes} in {count(len(scripts), 'script')}"


def format_scripts(settings: Settings, paths: Sequence[str], *, check: bool, diff: bool) -> int:
    """Formats scripts: 0, 1 when `check` finds some to format, 2 when some are no ZQL."""
    return _reporting(settings, lambda: _format_scripts(settings, paths, check=check, diff=diff))


def _format_scripts(settings: Settings, paths: Sequence[str], *, check: bool, diff: bool) -> int:
    from zql.cli.format_scripts import Formatting, scripts_in
    from zql.display.screen import Screen, complain

    if not paths:
        raise UsageError("nothing to format", code="U630", hint="zql fmt FILE, FOLDER or - (stdin)")
    screen = Screen(no_color=settings.no_color)
    formatting = Formatting(screen, check=check, diff=diff)
    code = 0
    for path in scripts_in(paths):
        try:
            formatting.format(path)
        except ZqlError as error:
            # What is wrong with one script is no reason to leave the others.
            screen.flush()
            print_error(error, settings)
            code = max(code, error.exit_code)
    screen.flush()
    if not settings.quiet and list(paths) != ["-"] and (verdict := formatting.verdict()):
        complain(verdict)
    return max(code, 1) if check and formatting.changed else code


def schema(settings: Settings, paths: Sequence[str]) -> int:
    """Prints the columns of files; with several paths each under its name."""
    from zql.expr.sql import quote_literal

    settings.sources += [("command", f"DESCRIBE FROM {quote_literal(path)}") for path in paths]
    return run(settings, ())


def runs(most: int, form: str) -> int:
    """Prints the last runs that wrote."""
    from zql.cli.past_runs import print_runs

    return print_runs(most, form)


def clean(temp_dir: str | None, caches: Sequence[str], days: float, *, dry_run: bool) -> int:
    """Removes what dead runs have left, and old results of caches."""
    from zql.cli.past_runs import clean as remove

    return remove(temp_dir, caches, days, dry_run=dry_run)


def shell(settings: Settings) -> int:
    """Starts the interactive shell."""
    from zql.repl.shell import Shell, ShellSettings

    def action() -> int:
        params = Params(read_params(settings), ())
        with open_session(settings) as session:
            return Shell(
                session,
                ShellSettings(
                    params=params.of,
                    format=settings.format or "table",
                    max_rows=settings.max_rows,
                    no_color=settings.no_color,
                    init=None if settings.no_init else settings.init or "~/.zqlrc",
                    verbose=settings.verbose,
                ),
            ).run()

    return _reporting(settings, action)
