"""Everything that the documentation refers to exists: `path::name`, files, folders, modules and links.

A path is relative to the repository or to `src/transduce`: `model/attention.py` is `src/transduce/model/attention.py`.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
PACKAGE = ROOT / "src" / "transduce"
REFERENCE = re.compile(r"`([\w./-]+\.py)::([\w.]+)(?:\[[^`]*\])?`")
FOLDERS = (
    "src",
    "tests",
    "recipes",
    "docs",
    "benchmarks",
    "stress",
    *(path.name for path in PACKAGE.iterdir() if path.is_dir()),
)
FILE = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?|[\w./-]+\.py)`")
MODULE = re.compile(r"`(transduce(?:\.\w+)+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def place_of(path: str) -> Path | None:
    """Returns the file or folder that a page calls `path`; None where there is none."""
    return next((root / path for root in (ROOT, PACKAGE) if (root / path).exists()), None)


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """Returns the page without its blocks of code, whose brackets are no links."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Returns the names of a module's functions, classes and values; members of classes as `Class.member`."""
    return frozenset(_names(ast.parse(path.read_text("utf-8")).body, ""))


def _names(statements: list[ast.stmt], prefix: str) -> list[str]:
    names = []
    for statement in statements:
        match statement:
            case ast.ClassDef(name=name, body=body):
                names += [prefix + name, *_names(body, f"{prefix}{name}.")]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.append(prefix + name)
            case ast.Assign(targets=targets):
                nodes = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
                names += [prefix + node.id for node in nodes]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(prefix + name)
    return names


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_name_that_a_page_refers_to_exists(page: Path) -> None:
    missing = []
    for path, name in REFERENCE.findall(page.read_text("utf-8")):
        module = place_of(path)
        if module is None or name not in names_in(module):
            missing.append(f"{path}::{name}")
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert not [path for path in FILE.findall(page.read_text("utf-8")) if place_of(path) is None]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    assert not [name for name in MODULE.findall(page.read_text("utf-8")) if not is_module_or_name(name)]


def is_module_or_name(dotted: str) -> bool:
    """Returns whether `transduce.a.b` is a package, a module or a name in a module."""
    parts = dotted.split(".")[1:]
    path = PACKAGE.joinpath(*parts)
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    return module.is_file() and parts[-1] in names_in(module)


@pytest.mark.parametrize("path", ["corpus/cutting.py", "src/transduce/nothing", "gone.py", "embedded/nothing/"])
def test_a_stale_path_is_seen(path: str) -> None:
    assert FILE.findall(f"as `{path}` does") == [path]
    assert place_of(path) is None


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("http://", "https://")):
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_pages_of_the_paper_and_of_the_quiz_are_made_of_references() -> None:
    # If the pattern matched nothing, the tests of references would pass on any page.
    for name, least in (("paper.md", 80), ("quiz.md", 20)):
        assert len(REFERENCE.findall((ROOT / "docs" / name).read_text("utf-8"))) >= least


def test_the_indexes_link_every_page() -> None:
    docs = ROOT / "docs"
    indexes = [docs / "README.md", docs / "decisions" / "README.md"]
    linked = {(index.parent / link).resolve() for index in indexes for link in LINK.findall(index.read_text("utf-8"))}
    assert {page for page in docs.rglob("*.md") if page not in indexes} <= linked
