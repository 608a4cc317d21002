"""What the documentation points at is there: `path::name` references, files and links."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
REFERENCE = re.compile(r"`([\w./-]+\.py)::([\w.]+)(?:\[[^`]*\])?`")
FILE = re.compile(r"`((?:src|tests|recipes|docs)/[\w./-]*\w)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """The page without its blocks of code, whose brackets are no links."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Every name that a module gives to something: functions, classes, values, and dotted, those of classes."""
    return frozenset(_names(ast.parse(path.read_text("utf-8")).body, ""))


def _names(statements: list[ast.stmt], prefix: str) -> list[str]:
    found = []
    for statement in statements:
        match statement:
            case ast.ClassDef(name=name, body=body):
                found += [prefix + name, *_names(body, f"{prefix}{name}.")]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.append(prefix + name)
            case ast.Assign(targets=targets):
                named = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
                found += [prefix + node.id for node in named]
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.append(prefix + name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_name_that_a_page_refers_to_exists(page: Path) -> None:
    references = REFERENCE.findall(page.read_text("utf-8"))
    missing = [
        f"{path}::{name}"
        for path, name in references
        if not (ROOT / path).is_file() or name not in names_in(ROOT / path)
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert not [path for path in FILE.findall(page.read_text("utf-8")) if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        if link.startswith(("http://", "https://")):
            continue
        if not place.exists() or (anchor and anchor not in anchors_of(place)):
            broken.append(link)
    assert not broken


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_pages_of_the_paper_and_of_the_quiz_are_made_of_references() -> None:
    # Were the pattern to find nothing, the tests above would pass on any page.
    for name, least in (("paper.md", 80), ("quiz.md", 20)):
        assert len(REFERENCE.findall((ROOT / "docs" / name).read_text("utf-8"))) >= least
