"""Where a WRITE goes: names of files from a pattern, what is there already, and checked options."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping
from typing import Any

from zql.errors import UsageError, did_you_mean, nearest
from zql.execution.own_formats import format_of
from zql.expr.functions import PythonFormat
from zql.physical.plan import WriteFiles
from zql.settings_text import parse_bytes
from zql.storage import compression as packing
from zql.storage import files, registry
from zql.storage import options as option_names
from zql.storage.format import Format
from zql.storage.hive import folder_name
from zql.storage.parquet_write import page_compression
from zql.tree import node

MODES = ("error", "overwrite", "append", "skip")
OWN_OPTIONS = {
    "format": "VARCHAR",
    "mode": "VARCHAR",
    "compression": "VARCHAR",
    "shards": "BIGINT",
    "max_rows_per_file": "BIGINT",
    "file_size_bytes": "BYTES",
    "partition_by": "NAMES",
    "write_partition_columns": "BOOLEAN",
}
_FOLDER_NAME = "part-{shard:05d}"
_LATER = ("manifest",)


@node
class Target:
    """A checked WRITE. `pattern` has the names of its files, with `{shard}` if there are several.

    `options` are those of the plan: the format's own, with `compression` and `shards` among them.
    `own` is the format when it is the user's.
    """

    pattern: str
    format: str
    mode: str
    options: tuple[tuple[str, Any], ...] = ()
    is_folder: bool = False
    own: PythonFormat | None = None

    @property
    def compression(self) -> str | None:
        """The compression of the files; None for none, or for the format's own choice."""
        found: str | None = dict(self.options).get("compression")
        return found

    @property
    def shards(self) -> int | None:
        """The number of files asked for; None when the input decides."""
        found: int | None = dict(self.options).get("shards")
        return found

    @property
    def max_rows(self) -> int | None:
        """The rows of each file but the last, when the script says."""
        found: int | None = dict(self.options).get("max_rows_per_file")
        return found

    @property
    def file_size(self) -> int | None:
        """About the bytes of each file, when the script says."""
        found: int | None = dict(self.options).get("file_size_bytes")
        return found

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns whose values name the folders below `root`, outermost first."""
        found: tuple[str, ...] = dict(self.options).get("partition_by", ())
        return found

    @property
    def format_options(self) -> tuple[tuple[str, Any], ...]:
        """The options for the format's writer."""
        return tuple((n, v) for n, v in self.options if n not in OWN_OPTIONS)

    @property
    def sharded(self) -> bool:
        """Whether the rows go to more than one file."""
        return bool(_fields(self.pattern))

    @property
    def remote(self) -> bool:
        """Whether the files are not on this machine."""
        return files.protocol(self.pattern) is not None

    @property
    def root(self) -> str:
        """The folder of the files, or the one above all of them; ends in `/` unless empty."""
        literal = ""
        for text, name, _, _ in string.Formatter().parse(self.pattern):
            literal += text
            if name is not None:
                break
        return literal[: literal.rfind("/") + 1]

    @property
    def _name(self) -> str:
        """The pattern's part behind the last folder."""
        return self.pattern[self.pattern.rfind("/") + 1 :]

    @property
    def entry(self) -> str:
        """What stands for all the names in a manifest."""
        if not self.partition_by:
            return self.pattern[len(self.root) :]
        return "".join(f"{folder_name(key, '')}*/" for key in self.partition_by) + self._name

    def path(self, shard: int, shards: int, folders: str = "") -> str:
        """The name of a shard, of which there are `shards`, in `folders` of a partition."""
        if not folders:
            return self.pattern.format(shard=shard, shards=shards)
        return self.root + folders + self._name.format(shard=shard, shards=shards)

    def behind(self, path: str, shards: int) -> str:
        """The name of the shard that comes so many after the one of this name."""
        folders = path[len(self.root) : path.rfind("/") + 1] if self.partition_by else ""
        return self.path((self.shard_of(path) or 0) + shards, 0, folders)

    def shard_of(self, path: str) -> int | None:
        """The number of the shard that has this name; None for another's file."""
        folders = [re.escape(folder_name(key, "")) + "[^/]*/" for key in self.partition_by]
        if folders:
            found = _matcher(self._name, re.escape(self.root) + "".join(folders)).fullmatch(path)
        else:
            found = _matcher(self.pattern).fullmatch(path)
        if found is None:
            return None
        return int(found.groupdict().get("shard") or 0)


def check_target(
    uri: str, options: Mapping[str, Any], own: registry.OwnFormats = registry.NO_OWN
) -> Target:
    """The target of a WRITE as the user gave it; the format may be one of their `own`.

    Raises `UsageError`; touches no file.
    """
    return _checked(uri, options, own, None)


def _checked(
    uri: str, options: Mapping[str, Any], own: registry.OwnFormats, known: Format | None
) -> Target:
    if not uri:
        raise UsageError("WRITE needs a path", code="U630")
    pattern = files.local_path(uri)
    _check_placeholders(pattern)
    given = {name.lower(): value for name, value in options.items()}
    format_ = known or _format(pattern, given.get("format"), own)
    allowed = {**OWN_OPTIONS, **format_.write_options}
    for name in _LATER:
        if name in given and name not in allowed:
            raise UsageError(f'the option "{name}" of WRITE is not supported yet', code="U631")
    checked = option_names.check(given, allowed, "WRITE")
    mode = str(checked.get("mode", "error")).lower()
    if mode not in MODES:
        raise UsageError(
            f'option "mode" of WRITE is one of {", ".join(MODES)}, not "{mode}"',
            code="U632",
            hint=did_you_mean(nearest(mode, MODES)),
        )
    compression = checked.get("compression")
    if "file_size_bytes" in checked:
        checked["file_size_bytes"] = parse_bytes(checked["file_size_bytes"])
    is_folder = pattern.endswith("/")
    if is_folder:
        pattern += _FOLDER_NAME + format_.suffixes[0] + _suffix(format_.name, compression)
    found = {n: v for n, v in checked.items() if n not in ("format", "mode", "compression")}
    if not pattern.lower().endswith(format_.suffixes) or compression is not None:
        compression = _compression(pattern, format_.name, compression)
    if compression is not None:
        found["compression"] = compression
    if format_.name != "parquet":
        packing.check_level(packing.chosen(pattern, compression), found.get("compression_level"))
    written_by = getattr(format_, "own", None)
    target = Target(pattern, format_.name, mode, tuple(found.items()), is_folder, written_by)
    _check_partitions(target, uri)
    _check_shards(target)
    return target


def target_of(sink: WriteFiles) -> Target:
    """The target that a plan's sink describes."""
    options = {**dict(sink.options), "mode": sink.mode, "format": sink.format}
    return _checked(sink.uri, options, registry.NO_OWN, format_of(sink.format, sink.own))


def _format(pattern: str, name: Any, own: registry.OwnFormats) -> Format:
    if name is not None:
        return registry.by_name(str(name), own)
    found = registry.format_of(pattern, own)
    if found is None:
        known = ", ".join(f.suffixes[0] for f in registry.FORMATS)
        what = "a folder" if pattern.endswith("/") else f'"{pattern}"'
        raise UsageError(
            f"{what} does not tell a format",
            code="U633",
            hint=f"OPTIONS (format = 'parquet'), or a name that ends in one of {known}",
            notes=own.notes(),
        )
    return found


def _compression(pattern: str, format_name: str, option: Any) -> str | None:
    if format_name == "parquet":
        if option is not None:
            page_compression(str(option))
        return None if option is None else str(option)
    found = packing.chosen(pattern, option)
    told = packing.of_path(pattern)
    if option is not None and told is not packing.NONE and found is not told:
        raise UsageError(
            f'the name {files.shown(pattern)} says {told.name}, the option "compression" says'
            f" {found.name}",
            code="U634",
            hint="leave the option away, or give the file another name",
        )
    return None if found is packing.NONE else found.name


def _suffix(format_name: str, compression: Any) -> str:
    if format_name == "parquet" or compression is None:
        return ""
    return packing.by_name(str(compression)).suffixes[0] if compression != "none" else ""


def _fields(pattern: str) -> list[tuple[str, str]]:
    """Names and format specifications of a pattern's placeholders."""
    try:
        parsed = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise UsageError(
            f'the path "{pattern}" is no pattern: {error}',
            code="U634",
            hint="write {{ and }} for braces in a name",
        ) from None
    return [(name, spec or "") for _, name, spec, _ in parsed if name is not None]


def _check_placeholders(pattern: str) -> None:
    fields = _fields(pattern)
    if any(conversion for _, _, _, conversion in string.Formatter().parse(pattern)):
        raise UsageError(f'the path "{pattern}" is no pattern: ! has no place here', code="U634")
    for name, spec in fields:
        if name not in ("shard", "shards"):
            raise UsageError(
                f"the path has {{{name}}}, and only {{shard}} and {{shards}} are known",
                code="U634",
                hint="partition_by makes a folder for each value of a column: "
                f"WRITE 'out/' OPTIONS (partition_by = [{name}], format = ..)",
            )
        if not _is_decimal(spec):
            raise UsageError(
                f'"{spec}" is no format for a number, in {{{name}:{spec}}}',
                code="U634",
                hint="{shard:05d} gives 00007",
            )
    names = [name for name, _ in _fields(pattern)]
    if "shards" in names and "shard" not in names:
        raise UsageError("the path has {shards} but no {shard}", code="U634")


def _is_decimal(spec: str) -> bool:
    """Whether a format gives digits that read as the number again."""
    try:
        return all(int(format(n, spec)) == n for n in (0, 7, 1234567))
    except ValueError:
        return False


def _check_partitions(target: Target, shown: str) -> None:
    """Raises `UsageError` for a name that cannot be that of a file in each folder."""
    if not target.partition_by:
        if "write_partition_columns" in dict(target.options):
            raise UsageError(
                'the option "write_partition_columns" has no meaning without partition_by',
                code="U637",
            )
        return
    if not target.sharded:
        raise UsageError(
            f'"{shown}" is one file, and option "partition_by" asks for a folder for each value',
            code="U637",
            hint="name a folder, 'out/', or put {shard} into the name of the file",
        )
    names = [name for name, _ in _fields(target.pattern)]
    if names != ["shard"] or _fields(target.pattern[: target.pattern.rfind("/") + 1]):
        raise UsageError(
            f'with the option "partition_by" "{shown}" may have one {{shard}}, in the name of the '
            "file",
            code="U637",
            hint="the values name the folders: 'out/', or 'out/{shard}.parquet'",
        )


def _check_shards(target: Target) -> None:
    if target.shards not in (None, 1) and not target.sharded:
        raise UsageError(
            f'"{target.pattern}" is one file, and option "shards" asks for {target.shards}',
            code="U635",
            hint="put {shard} into the name, or name a folder",
        )
    sized = [n for n in ("max_rows_per_file", "file_size_bytes") if n in dict(target.options)]
    if sized and target.shards is not None:
        raise UsageError(f'the options "{sized[0]}" and "shards" exclude each other', code="U635")
    if sized and not target.sharded:
        raise UsageError(
            f'"{target.pattern}" is one file, and option "{sized[0]}" asks for several',
            code="U635",
            hint="put {shard} into the name, or name a folder",
        )
    if target.mode == "append":
        names = [name for name, _ in _fields(target.pattern)]
        if "shard" not in names or "shards" in names:
            raise UsageError(
                'mode "append" adds files, so the name needs {shard} and may not have {shards}',
                code="U636",
            )


def _matcher(pattern: str, above: str = "") -> re.Pattern[str]:
    """Matches the names that a pattern can give, below folders that an expression matches."""
    parts = [above]
    seen: set[str] = set()
    for literal, name, _, _ in string.Formatter().parse(pattern):
        parts.append(re.escape(literal))
        if name is not None:
            parts.append(rf"(?P<{name}>\s*\d+\s*)" if name not in seen else rf"(?P={name})")
            seen.add(name)
    return re.compile("".join(parts))


def existing(target: Target, storage_options: Mapping[str, Any]) -> dict[str, int]:
    """Files that are there under names that the target may give, with their shard numbers."""
    if not target.sharded:
        return {target.pattern: 0} if _is_there(target, storage_options) else {}
    found = {}
    for path in _under(target.root, target, storage_options):
        shard = target.shard_of(path)
        if shard is not None:
            found[path] = shard
    return dict(sorted(found.items(), key=lambda item: item[1]))


def others(target: Target, storage_options: Mapping[str, Any]) -> list[str]:
    """Data files in a folder that is a target, under other names than the target gives."""
    if not target.is_folder:
        return []
    paths = _under(target.root, target, storage_options)
    return [p for p in paths if target.shard_of(p) is None and not _is_hidden(p, target.root)]


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith((".", "_")) for part in path[len(root) :].split("/"))


def _is_there(target: Target, storage_options: Mapping[str, Any]) -> bool:
    if target.remote:
        return files.stat_file(target.pattern, storage_options) is not None
    return os.path.lexists(target.pattern)


def _is_new(folder: str, seen: set[tuple[int, int]]) -> bool:
    """Whether a folder was not met yet: links may lead in circles."""
    try:
        found = os.stat(folder)
    except OSError:
        return False
    before = len(seen)
    seen.add((found.st_dev, found.st_ino))
    return len(seen) > before


def _under(root: str, target: Target, storage_options: Mapping[str, Any]) -> list[str]:
    """Files below a folder, as deep as the pattern goes, and in folders of values below it.

    Folders that are links count: what is written goes through them, too.
    """
    if target.remote:
        found = files.filesystem(root, storage_options).find(root)
        prefix = root[: root.index("://") + 3]
        return [path if "://" in path else prefix + path.lstrip("/") for path in found]
    depth = target.pattern[len(root) :].count("/") + len(target.partition_by)
    paths = []
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(root or ".", followlinks=True):
        below = os.path.relpath(folder, root or ".")
        level = 0 if below == "." else below.count("/") + 1
        if level >= depth:
            folders[:] = [name for name in folders if target.is_folder and "=" in name]
        folders[:] = [name for name in folders if _is_new(os.path.join(folder, name), seen)]
        prefix = root if level == 0 else f"{root}{below}/"
        paths += [prefix + name for name in names]
    return paths
