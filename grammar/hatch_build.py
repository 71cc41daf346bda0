"""Puts the grammar's parse tables into the wheel, so that no installation has to build them."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TablesHook(BuildHookInterface):
    """Builds the tables when a wheel is made; an editable install builds its own when it runs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds `zql/grammar/zql.json` to the files of the wheel."""
        if version == "editable":
            return
        root = Path(self.root)
        # By its path: the package itself needs libraries that a build does not have.
        spec = importlib.util.spec_from_file_location("tables", root / "zql/syntax/tables.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError("zql/syntax/tables.py")
        tables = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tables)
        data = tables.build((root / "grammar/zql.lark").read_bytes().decode())
        self._folder = tempfile.TemporaryDirectory()
        built = Path(self._folder.name) / "zql.json"
        built.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")
        build_data["force_include"][str(built)] = "zql/grammar/zql.json"

    def finalize(self, *_: object) -> None:
        """Removes what `initialize` made."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
