"""The site of `make docs`: its navigation has every page once, links lead to pages, and no page asks another host."""

import importlib.util
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SETTINGS = YAML(typ="safe").load(ROOT / "mkdocs.yml")
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)")

_spec = importlib.util.spec_from_file_location("site_hook", ROOT / SETTINGS["hooks"][0])
assert _spec is not None
assert _spec.loader is not None
hook = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hook)


def pages_in(navigation: Any) -> Iterator[str]:
    """Yields the pages of a navigation, in order."""
    match navigation:
        case str():
            yield navigation
        case dict():
            for part in navigation.values():
                yield from pages_in(part)
        case list():
            for part in navigation:
                yield from pages_in(part)


PAGES = list(pages_in(hook.navigation()))
OF_DOCS = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_the_navigation_has_every_page_once() -> None:
    assert sorted(PAGES) == sorted(OF_DOCS | hook.generated_pages().keys())


def test_the_navigation_has_the_order_of_the_index() -> None:
    guides = re.findall(r"\]\((guides/[\w-]+\.md)\)", (DOCS / "README.md").read_text("utf-8"))
    assert [page for page in PAGES if page.startswith("guides/")] == guides
    assert list(hook.navigation()[1]) == ["Guides, by task"]


def source_of(page: str) -> Path:
    return ROOT / page.removeprefix("project/") if page.startswith("project/") else DOCS / page


@pytest.mark.parametrize("page", [page for page in PAGES if source_of(page).is_file()])
def test_links_of_the_site_lead_to_its_pages_and_files(page: str) -> None:
    text = hook.for_site(source_of(page).read_text("utf-8"), source_of(page))
    places = {posixpath.normpath(posixpath.join(posixpath.dirname(page), link)) for link in LINK.findall(text)}
    assert not [place for place in places if place not in PAGES and not (DOCS / place).is_file()]


def test_what_python_markdown_would_misread_is_translated() -> None:
    text = (
        "```sh setup\npip\n```\n| `A\\|B` | a \\| b |\n<details><summary>A</summary>\n[all](../recipes/own-data.yaml)"
    )
    expected = "```sh\npip\n```\n| `A|B` | a \\| b |\n<details markdown><summary>A</summary>\n"
    assert hook.for_site(text, DOCS / "quiz.md") == f"{expected}[all](project/recipes.md#own-data)"


def test_code_that_python_would_parse_as_a_declaration_is_html() -> None:
    """MkDocs parses whole pages with `HTMLParser`, which raises AssertionError at `<![`."""
    text = hook.for_site("Tags: `<![` is *not* one.\n```html\n`<!-- a -->`\n```\n", DOCS / "quiz.md")
    assert text == "Tags: <code>&#60;&#33;&#91;</code> is *not* one.\n```html\n`<!-- a -->`\n```\n"


def test_the_settings_ask_no_other_host_and_search_from_files() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert "offline" in SETTINGS["plugins"]
    assert "http" not in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    for path in tmp_path.rglob("*.html"):
        resources = re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="?([^">\s]+)', path.read_text("utf-8"))
        assert not [address for address in resources if "//" in address], path
        for address in resources:
            place = tmp_path / address if address.startswith("/") else path.parent / address.partition("?")[0]
            assert address.startswith("data:") or path.name == "404.html" or place.exists(), (path, address)
