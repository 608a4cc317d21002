"""Hook of MkDocs for the site that `make docs` builds.

The navigation follows docs/README.md. Files outside docs/ that pages link, such as recipes, become pages. What GitHub
and Python-Markdown read differently is translated: fences, `<details>`, escaped bars in tables.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
COPIED = ("README.md", "CHANGELOG.md", "SECURITY.md")
RECIPES = "project/recipes.md"
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)((?:#[^)\s]*)?)\)")
CODE = re.compile(r"`[^`\n]+`")
FENCE_OR_CODE = re.compile(rf"^```.*?^```|{CODE.pattern}", re.MULTILINE | re.DOTALL)
SHIM = "https://unpkg.com/iframe-worker/shim"  # the plugin `offline` links it; no page may ask another host

Navigation = list[Any]


def site_path(file: Path) -> str:
    """Returns the path below docs/ of the page that shows a file of the repository."""
    name = file.relative_to(ROOT).as_posix()
    if name.startswith("recipes"):
        return RECIPES
    return name.removeprefix("docs/").replace(".ipynb", ".md") if name.startswith("docs/") else f"project/{name}"


def linked_pages(text: str, folder: Path) -> Iterator[str]:
    """Yields the paths of the pages that `text` links, each once, in order."""
    links = ((folder / link).resolve() for link, _ in LINK.findall(text))
    yield from dict.fromkeys(site_path(file) for file in links if file.suffix in (".md", ".ipynb"))


def navigation() -> Navigation:
    """Returns the pages of docs/README.md: a section for each heading, and the list of decisions as a section."""
    _, *parts = INDEX.read_text("utf-8").split("\n## ")
    install = {"Install and begin": site_path(ROOT / "README.md")}
    sections: Navigation = [{"Begin": ["README.md", install, RECIPES]}]
    for part in parts:
        title, _, text = part.partition("\n")
        sections.append({title: [page for page in linked_pages(text, DOCS) if page != "decisions/README.md"]})
    decisions = DOCS / "decisions" / "README.md"
    pages = linked_pages(decisions.read_text("utf-8"), decisions.parent)
    return [*sections, {"Decisions": ["decisions/README.md", *pages]}]


def recipes_page() -> str:
    """Returns a page with every recipe of recipes/."""
    recipes = sorted((ROOT / "recipes").glob("*.yaml"))
    parts = (f"## {path.stem}\n\n```yaml\n{path.read_text('utf-8')}```\n" for path in recipes)
    return "\n".join(("# Example recipes\n\nThe files of `recipes/`, for `transduce train`.\n", *parts))


def notebook_page(path: Path) -> str:
    """Returns the cells of a notebook as a page; its outputs are not stored."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in texts) + "\n"


def generated_pages() -> dict[str, str]:
    """Returns the text of every page that is not Markdown file of docs/, by its path below docs/."""
    pages = {site_path(ROOT / name): (ROOT / name).read_text("utf-8") for name in COPIED}
    pages |= {site_path(path): notebook_page(path) for path in DOCS.glob("*.ipynb")}
    return pages | {RECIPES: recipes_page()}


def without_backslashes(match: re.Match[str]) -> str:
    """Returns a row of a table whose code has bars without backslashes."""
    return CODE.sub(lambda code: code[0].replace(r"\|", "|"), match[0])


def without_declarations(match: re.Match[str]) -> str:
    """Returns code in backticks that has `<!` as HTML with character references, everything else unchanged.

    MkDocs collects anchors with Python's HTML parser, to which backticks mean nothing: at `<![` it stops the build.
    """
    if match[0].startswith("```") or "<!" not in match[0]:
        return match[0]
    return f"<code>{''.join(f'&#{ord(character)};' for character in match[0].strip('`'))}</code>"


def for_site(text: str, source: Path) -> str:
    """Returns a page of the repository for Python-Markdown, with links to the pages of the site."""
    here = os.path.dirname(site_path(source))  # noqa: PTH120 - a path of the site

    def on_site(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.exists():
            return match[0]  # MkDocs reports it
        anchor = f"#{target.stem}" if target.suffix == ".yaml" else match[2]
        return f"]({os.path.relpath(site_path(target), here or '.')}{anchor})"

    text = re.sub(r"^```(\w+) \w+$", r"```\1", text, flags=re.MULTILINE)
    text = re.sub(r"^\|.*", without_backslashes, text, flags=re.MULTILINE)
    text = FENCE_OR_CODE.sub(without_declarations, text)
    return LINK.sub(on_site, text.replace("<details>", "<details markdown>"))


def on_config(config: Any) -> Any:
    """Sets the navigation, and anchors as GitHub makes them."""
    from pymdownx.slugs import slugify

    config["nav"] = navigation()
    config["mdx_configs"]["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages."""
    from mkdocs.structure.files import File

    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Translates a page before Python-Markdown reads it."""
    name = page.file.src_uri
    return for_site(markdown, ROOT / name.removeprefix("project/") if name.startswith("project/") else DOCS / name)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Replaces the script of another host that lets a file search by one of ours."""
    return output.replace(SHIM, f"{'../' * page.file.dest_uri.count('/')}site/iframe_worker.js")


def on_post_template(output_content: str, **_: Any) -> str:
    """Does the same for the page of error 404."""
    return output_content.replace(SHIM, "/site/iframe_worker.js")
