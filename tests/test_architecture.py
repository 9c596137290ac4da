"""The shape of the package: what imports what, how long files are, and that a name means one thing.

The order of the units is the fenced block of ARCHITECTURE.md that begins with ```order.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "xlda"
MOST_PUBLIC_FILES = 14  # at the top level, packages not counted
MOST_LINES = 500
ALIAS = re.compile(r"_?[A-Z]+[a-z]\w*")

# What is allowed all the same, and why. An entry that is no longer true fails too.
TOO_LONG: dict[str, str] = {}  # and why
DEFINED_TWICE: dict[str, str] = {}


def module_name(path, package=PACKAGE):
    """`xlda.search.dense` of its file; `xlda.search` of that package's `__init__.py`."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(package=PACKAGE):
    """The syntax tree of every module, by name."""
    return {module_name(path, package): ast.parse(path.read_text()) for path in package.rglob("*.py")}


def unit(module):
    """The module or package at the top level that a module is in; the front door is a unit of its own."""
    return [*module.split("."), module][1]


def imports(tree, known):
    """Modules of the package that a module imports: at once, later, inside a function, or for types alone."""
    by_name = any(isinstance(node, ast.Name) and node.id == "import_module" for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports name the whole module, xlda and all"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield from [name for name in (inside, node.module) if name in known][:1]
        elif by_name and isinstance(node, ast.Constant) and node.value in known:
            yield node.value


def graph(trees):
    """What each module imports."""
    return {name: set(imports(tree, trees)) - {name} for name, tree in trees.items()}


def units(edges):
    """What each unit imports of others."""
    between = defaultdict(set)
    for module, imported in edges.items():
        between[unit(module)] |= {unit(name) for name in imported} - {unit(module)}
    return dict(between)


def cycle(edges):
    """Some modules each of which imports the one before it, or None."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def stated_order():
    """The units as ARCHITECTURE.md has them."""
    block = re.search(r"^```order\n(.*?)^```$", (ROOT / "ARCHITECTURE.md").read_text(), re.M | re.S)
    return [line.split(":")[0] for line in block[1].splitlines()]


def against(order, edges):
    """Imports that run against the order."""
    place = {name: number for number, name in enumerate(order)}
    return [
        f"{module} imports {name}"
        for module, imported in sorted(edges.items())
        for name in sorted(imported)
        if unit(module) != unit(name) and place[unit(module)] < place[unit(name)]
    ]


def types_of(tree):
    """Names of the classes of a module, and of its aliases of types."""
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    named = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named |= {target.id for target in targets if isinstance(target, ast.Name)}
    return classes | {name for name in named if ALIAS.fullmatch(name)}


@pytest.fixture(scope="module")
def trees():
    return modules()


@pytest.fixture(scope="module")
def edges(trees):
    return graph(trees)


def test_no_module_imports_itself_by_a_detour(edges):
    assert cycle(edges) is None


def test_no_package_imports_itself_by_a_detour(edges):
    assert cycle(units(edges)) is None


def test_every_unit_is_in_the_stated_order(trees):
    order = stated_order()
    assert len(order) == len(set(order))
    assert set(order) == {unit(module) for module in trees}


def test_imports_follow_the_stated_order(edges):
    assert against(stated_order(), edges) == []


def test_few_files_at_the_top_look_public():
    public = [path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("_")]
    assert len(public) <= MOST_PUBLIC_FILES, sorted(public)


def test_no_file_is_long():
    lines = {
        path.relative_to(PACKAGE).as_posix(): path.read_text().count("\n") for path in PACKAGE.rglob("*.py")
    }
    assert {name for name, n_lines in lines.items() if n_lines > MOST_LINES} == set(TOO_LONG)


def test_a_name_of_a_type_is_defined_once(trees):
    homes = defaultdict(list)
    for module, tree in trees.items():
        for name in types_of(tree):
            homes[name].append(module)
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert set(twice) == set(DEFINED_TWICE), twice


# -- that these tests see what they are there for


@pytest.fixture
def toy(tmp_path):
    """Writes a package of the same name and gives what its modules import."""

    def made(**files):
        for name, text in files.items():
            path = tmp_path / "xlda" / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return graph(modules(tmp_path / "xlda"))

    return made


@pytest.mark.parametrize(
    "statement",
    [
        "import xlda.one",
        "from xlda import one",
        "from xlda.one import something",
        "def later():\n    from xlda.one import something",
        "if TYPE_CHECKING:\n    from xlda.one import Something",
        "home = import_module('xlda.one')",
    ],
)
def test_every_kind_of_import_is_seen(toy, statement):
    edges = toy(one="from xlda.two import anything", two=statement)
    assert edges["xlda.two"] == {"xlda.one"}
    assert set(cycle(edges)) == {"xlda.one", "xlda.two"}
    assert cycle(units(edges))
    assert against(["two", "one"], edges) == ["xlda.two imports xlda.one"]


def test_a_cycle_of_packages_is_seen_where_no_module_has_one(toy):
    edges = toy(a__low="", a__high="from xlda.b.low import x", b__low="", b__high="from xlda.a import low")
    assert cycle(edges) is None
    assert set(cycle(units(edges))) == {"a", "b"}


def test_types_are_told_from_constants_and_functions():
    text = """
class LSH: ...
Rows = list[int]
Label: TypeAlias = str | int
MOST = 3
rows = Rows()
def Made(): ...
"""
    assert types_of(ast.parse(text)) == {"LSH", "Rows", "Label"}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_the_pages_name_are_there(page):
    text = (ROOT / page).read_text()
    named = re.findall(r"`([\w/.-]+(?:\.(?:py|md|toml)|/))`", text) + re.findall(r"\]\(([^)#:]+)\)", text)
    gone = [name for name in named if not (ROOT / name).exists() and not (PACKAGE / name).exists()]
    assert named
    assert gone == []
