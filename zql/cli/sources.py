"""What is to run, and the values for it: scripts, queries, parameters, settings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zql.cli.options import Settings
from zql.errors import ParameterError, UsageError, ZqlError, did_you_mean, nearest
from zql.source import Source


class Script(NamedTuple):
    """A source to run, and the folder that its own relative paths start from (None: the cwd).

    `mark` is the byte order mark that stood before it, if one did.
    """

    source: Source
    base_dir: str | None = None
    mark: str = ""


def _decode(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{name} is not UTF-8 text: byte 0x{data[error.start]:02x} on line {line}",
            code="U602",
            hint="save the script as UTF-8",
        ) from None


def _mark(data: bytes) -> str:
    return "\ufeff" if data.startswith(b"\xef\xbb\xbf") else ""


def read_script(path: str) -> Script:
    """Reads a script; `-` is stdin. Raises UsageError when it cannot be read."""
    if path == "-":
        name, data = "<stdin>", sys.stdin.buffer.read()
        return Script(Source(name, _decode(name, data)), mark=_mark(data))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        hint = None
        if isinstance(error, FileNotFoundError) and not path.endswith(".zql"):
            hint = f"did you mean {path}.zql?" if os.path.exists(f"{path}.zql") else None
        raise UsageError(f"cannot read {path}: {reason}", code="U601", hint=hint) from None
    folder = os.path.dirname(os.path.abspath(path))
    return Script(Source(path, _decode(path, data)), folder, _mark(data))


def read_scripts(settings: Settings, files: Sequence[str], what: str = "run") -> list[Script]:
    """The scripts of `-c`, `-f` and the arguments, in their order.

    Raises UsageError when there are none.
    """
    commands = sum(kind == "command" for kind, _ in settings.sources)
    scripts = []
    number = 0
    for kind, value in settings.sources:
        if kind == "command":
            number += 1
            name = "<command line>" if commands == 1 else f"<command line, -c {number}>"
            scripts.append(Script(Source(name, value)))
        else:
            scripts.append(read_script(value))
    scripts += map(read_script, files)
    if not scripts:
        raise UsageError(
            f"nothing to {what}", code="U630", hint=f"zql {what} FILE, or zql {what} -c 'QUERY'"
        )
    return scripts


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` texts as a mapping; the last value of a name wins."""
    out = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {text!r} is not NAME=VALUE", code="U631")
        out[name.strip().removeprefix("$")] = value
    return out


def literal(text: str) -> Any:
    """A setting's value: JSON if it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_params(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
        if path.endswith(".toml"):
            import tomllib

            values: Any = tomllib.loads(data.decode())
        else:
            values = json.loads(data)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read the parameters in {path}: {error}",
            code="U632",
            hint="a params file is a JSON object, or TOML when it is called *.toml",
        ) from None
    if not isinstance(values, dict):
        raise UsageError(f"{path} holds no JSON object of parameters", code="U632")
    return values


def read_params(settings: Settings) -> dict[str, Any]:
    """Parameters of `--params-file` (typed by JSON or TOML) and `-p` (command line text)."""
    values = _read_params(settings.params_file) if settings.params_file else {}
    given = pairs(settings.params, "-p")
    if given:
        from zql.parameters import CommandLineValue

        values |= {name: CommandLineValue(text) for name, text in given.items()}
    return values


class Params:
    """The values given, handed to each script as far as it has a use for them.

    A single script is told of all values, so that it refuses a name that it does not have; of
    several scripts one must have it.
    """

    def __init__(self, values: Mapping[str, Any], scripts: Sequence[Script]) -> None:
        self._values = dict(values)
        self._all = len(scripts) == 1
        if not values or self._all:
            return
        used = set().union(*(_parameter_names(script.source) for script in scripts))
        unused = [name for name in values if name not in used]
        if scripts and unused:
            near = nearest(unused[0], used)
            raise ParameterError(
                f'no script has the parameter "{unused[0]}"',
                code="A502",
                hint=did_you_mean(near),
                candidates=near,
            )

    def of(self, source: Source) -> dict[str, Any]:
        """The values for one script."""
        if not self._values or self._all:
            return self._values
        names = _parameter_names(source)
        return {name: value for name, value in self._values.items() if name in names}


def _parameter_names(source: Source) -> set[str]:
    """The names that a script uses or declares; none when it is no ZQL, which others will tell."""
    from zql.expr.expression import Parameter
    from zql.syntax.ast import Declare, ParameterSource
    from zql.syntax.parser import parse_script
    from zql.tree import walk

    try:
        nodes = list(walk(parse_script(source)))
    except ZqlError:
        return set()
    return {node.name for node in nodes if isinstance(node, Parameter | ParameterSource)} | {
        node.name.text for node in nodes if isinstance(node, Declare)
    }
