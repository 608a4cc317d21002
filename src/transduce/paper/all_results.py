"""Collects all results on one self-contained HTML page, which makes no network requests.

Each table is shown together with the section of the README that discusses it.
"""

import html
import re
from pathlib import Path

from transduce.paper.printing import render
from transduce.storage.atomic import atomic_write_text

TABLES = ("table1", "table2", "table3", "table4", "scaling", "distance", "heads", "resolution")


def write_page(out: Path) -> Path:
    """Writes the tables in `out`, with their plots and README sections, to `all.html`; returns the path of the page."""
    # The README is ignored unless the heading of at least one of its sections links to a table.
    readme = out / "README.md"
    introduction, *readme_sections = readme.read_text("utf-8").split("\n## ") if readme.exists() else [""]
    comments = {}
    for section in readme_sections:
        heading, _, text = section.partition("\n")
        if link := re.search(rf"\]\(({'|'.join(TABLES)})\.md\)", heading):
            comments[link[1]] = text.strip()
    if not comments:
        introduction = ""
    sections = {}
    for name in TABLES:
        if not (out / f"{name}.md").exists():
            continue
        text = (out / f"{name}.md").read_text("utf-8")
        if comments.get(name):
            heading, _, rest = text.partition("\n\n")
            text = f"{heading}\n\n{comments[name]}\n\n{rest}"
        sections[name] = _as_html(text, out)
    page = out / "all.html"
    atomic_write_text(
        page, render("all.html.jinja", introduction=_as_html(introduction, out), sections=sections) + "\n"
    )
    return page


def _as_html(text: str, out: Path) -> str:
    """Converts the Markdown of the results to HTML: headings, pictures, tables and paragraphs."""
    blocks = []
    for block in filter(None, text.strip().split("\n\n")):
        picture = re.fullmatch(r"!\[(.*)\]\(([\w-]+\.svg)\)", block)
        if block.startswith("# "):
            blocks.append(f"<h1>{_inline(block[2:])}</h1>")
        elif picture and (out / picture[2]).exists():
            svg = (out / picture[2]).read_text("utf-8")
            blocks.append(f'<figure aria-label="{html.escape(picture[1])}">{svg[svg.index("<svg") :]}</figure>')
        elif block.startswith("| ") and block.count("\n"):
            head, _, *rows = ([cell.strip() for cell in line[2:-2].split(" | ")] for line in block.splitlines())
            cells = "".join(_row(row, "td") for row in rows)
            blocks.append(f"<table><thead>{_row(head, 'th')}</thead><tbody>{cells}</tbody></table>")
        else:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "\n".join(blocks)


def _row(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    """Converts a line of Markdown to HTML.

    Links are replaced with their text, so that the page is self-contained.
    """
    text = re.sub(r"\[([^\[\]]+)\]\([^()]+\)", r"\1", html.escape(text))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
