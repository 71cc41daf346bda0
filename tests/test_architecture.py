"""The documents about the code name what is there, and all of it."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from zql.execution import sink
from zql.optimizer.optimizer import BATCHES
from zql.session import ALL_RULES
from zql.settings_text import SETTINGS
from zql.storage.options import FOR_ALL_READERS
from zql.storage.registry import FORMATS
from zql.syntax.keywords import OPERATORS, RESERVED, STATEMENTS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
RULES = {rule.__name__ for batch in BATCHES for rule in batch.rules}
PATH = re.compile(r"`((?:zql|tests|grammar|docs|examples|\.ci)/[\w./-]*)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)|\]\(#([^)]+)\)")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def table(page, heading):
    """The first cells, without backticks, of the first table behind a heading or a table's head."""
    rows = page[page.index(heading) :].split("\n")
    cells = [line.split("|")[1].strip().strip("`") for line in rows if line.startswith("|")]
    body = cells[2:]
    end = next((i for i, line in enumerate(rows[1:], 1) if cells and not line.startswith("|")), 0)
    return body[: end - 2] if rows[0].startswith("|") else body


def folders():
    return {
        path.name for path in (ROOT / "zql").iterdir() if path.is_dir() and any(path.glob("*.py"))
    }


def test_each_folder_has_its_row():
    assert set(table(text("docs/architecture.md"), "| Folder |")) == folders()


def test_modules_beside_the_folders_are_listed():
    listed = set(re.findall(r"`zql/(\w+)\.py`", text("docs/architecture.md")))
    modules = {path.stem for path in (ROOT / "zql").glob("*.py")}
    assert modules - listed == {"__init__", "__main__"}


def test_layers_are_those_of_the_import_contract():
    page = text("docs/architecture.md")
    block = page[page.index("    __main__ >") :].split("\n\n")[0]
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    assert re.split(r"\s*>\s*", block.strip()) == contracts[0]["layers"]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_backticks_exist(page):
    missing = [name for name in PATH.findall(page.read_text()) if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for target, anchor, own in LINK.findall(page.read_text()):
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or ((anchor or own) and (anchor or own) not in anchors(file)):
            broken.append(target or own)
    assert not broken


def anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_each_library_has_one_door():
    page = text("docs/architecture.md")
    rows = page[page.index("| Library |") :].split("\n\n")[0].split("\n")[2:]
    for library, doors in (row.strip("| ").split(" | ") for row in rows):
        name = library.strip("`")
        found = re.compile(rf"^\s*(?:from|import) _?{name}\b", re.MULTILINE)
        users = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "zql").rglob("*.py")
            if found.search(path.read_text(encoding="utf-8"))
        }
        assert users == set(re.findall(r"`(zql/[^`]+)`", doors)), name


def test_each_rule_has_a_file_of_its_name():
    files = {path.stem for path in (ROOT / "zql/optimizer/rules").glob("*.py")} - {"__init__"}
    assert files == RULES


def test_each_rule_has_golden_plans():
    golden = {path.stem for path in (ROOT / "tests/plans").glob("*.test")}
    assert golden >= RULES | ALL_RULES


def test_golden_plans_of_rules_have_their_rule():
    """Files named as rules are (verb_object): those of operators are one word or end in one."""
    written = {path.stem for path in (ROOT / "tests/plans").glob("*.test")}
    operators = set(re.findall(r"ast\.(\w+)\(\)", text("zql/logical/binder.py")))
    names = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in operators}
    others = {"from", "describe", "explain", "map", "as", "select_query", "hints", "sizes"}
    others |= {"on_error"}
    assert written - names - others <= RULES | ALL_RULES


def test_each_rule_is_described():
    page = text("docs/architecture.md")
    assert set(re.findall(r"^\| `(\w+)` \|", page[page.index("| Rule |") :], re.MULTILINE)) == (
        RULES | ALL_RULES
    )


def test_reserved_words_are_those_of_the_manual():
    page = text("docs/language.md")
    block = page[page.index("    ALL AND ANY") :].split("\n\n")[0]
    assert set(block.split()) == RESERVED


def first_words(page, head):
    """The first word of each text in backticks, in the first cells of a table."""
    body = text(page).split(head)[1].split("\n\n")[0].split("\n")[2:]
    cells = [re.split(r"(?<!\\)\|", row)[1] for row in body]
    return {word for cell in cells for word in re.findall(r"`([A-Z]+)", cell)}, cells


def test_operators_are_those_of_the_manual():
    words, cells = first_words("docs/operators.md", "| Operator | |")
    assert words == set(OPERATORS)
    assert all("](" in cell for cell in cells)


def test_statements_are_those_of_the_manual():
    words, _ = first_words("docs/language.md", "| Statement | What it does |")
    assert words == set(STATEMENTS)


def test_operators_of_the_manual_have_an_order():
    page = text("docs/language.md")
    rows = page[page.index("## Order") :].split("\n\n")[2]
    ends = {"WRITE", "EXPORT", "CREATE", "FINISH", "DESCRIBE", "CALL"}
    kinds = {"INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "ASOF", "NATURAL"}
    words = set(re.findall(r"`([A-Z]+)", rows)) - {"GROUP"}
    assert words == set(OPERATORS) - ends - kinds


def test_settings_are_those_of_the_manual():
    page = text("docs/language.md")
    names = re.findall(r"^\| `(\w+)` \|", page[page.index("## Settings") :], re.MULTILINE)
    assert set(names) == {*SETTINGS, "optimizer", "disabled_rules"}
    assert len(names) == len(set(names))


def options_listed(heading):
    """The names in backticks of the first cells of a table, and the readers of the second."""
    page = text("docs/language.md")
    rows = page[page.index(heading) :].split("\n")
    start = next(i for i, row in enumerate(rows) if row.startswith("| Option"))
    found = {}
    for row in rows[start + 2 :]:
        if not row.startswith("|"):
            break
        _, names, second, *_ = row.split("|")
        found |= dict.fromkeys(re.findall(r"`(\w+)", names), second.strip())
    return found


def test_options_of_readers_are_those_of_the_manual():
    names = {"jsonl": "JSON", "parquet": "Parquet"}
    real = {}
    for format_ in FORMATS:
        for option in {**format_.read_options, **FOR_ALL_READERS}:
            real.setdefault(option, set()).add(names.get(format_.name, "CSV"))
    listed = options_listed("### Options of the readers")
    everyone = {"JSON", "CSV", "Parquet"}
    assert {n: everyone if r == "all" else set(r.split(", ")) for n, r in listed.items()} == real


def test_options_of_write_are_those_of_the_manual():
    real = set().union(*(f.write_options for f in FORMATS), sink.OWN_OPTIONS)
    assert set(options_listed("## WRITE")) == real


def test_decisions_are_numbered():
    names = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        title = text(f"docs/decisions/{name}").split("\n")[0]
        assert title.startswith(f"# {int(name[:4])}. "), name


def test_ci_runs_the_test_command_of_the_readme():
    """The second command of the README, word by word, as the last line of `.ci/run`."""
    _, second = re.findall(r"```sh\n(.*?)\n```", text("README.md"), re.DOTALL)
    assert text(".ci/run").rstrip("\n").split("\n")[-1] == second


def test_readme_shows_the_script_of_the_quick_start():
    (script,) = re.findall(r"```zql\n(DECLARE.*?)```", text("README.md"), re.DOTALL)
    lines = text("examples/quickstart.zql").split("\n")
    assert script == "\n".join(line for line in lines if not line.startswith("--"))


def test_nothing_is_imported_that_an_install_does_not_bring():
    """Other libraries are for those who hand over, or ask for, their objects."""
    asked_for = {"pandas": "to_pandas", "polars": "to_polars"}
    project = tomllib.loads(text("pyproject.toml"))["project"]
    brought = {re.split(r"[<>=]", each)[0] for each in project["dependencies"]} | {"_duckdb"}
    found = set()
    for path in (ROOT / "zql").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.split(".")[0])
    others = found - set(sys.stdlib_module_names) - {"zql"}
    assert others == brought | asked_for.keys()
