"""All results on one HTML page without network requests, each with its section of the README beside the tables."""

import html
import re
from pathlib import Path

from transduce.storage.atomic import atomic_write_text

TABLES = ("table1", "table2", "table3", "table4", "scaling", "distance")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: 0.25rem 0.7rem; text-align: left; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
td { white-space: nowrap; font-variant-numeric: tabular-nums; }
tbody tr:hover { background: #f4f6fa; } code { font-size: 0.9em; background: #f4f4f4; padding: 0 0.2em; }
svg { max-width: 100%; height: auto; } h1 { margin-top: 3rem; } nav a { margin-right: 1.2rem; }
"""


def write_page(out: Path) -> Path:
    """Joins the tables of `out`, their plots and their sections of the README to `all.html`; returns its path."""
    # A README without a section on a table, one whose heading links to it, belongs to something else.
    readme = out / "README.md"
    introduction, *readme_sections = readme.read_text("utf-8").split("\n## ") if readme.exists() else [""]
    comments = {}
    for section in readme_sections:
        heading, _, text = section.partition("\n")
        if link := re.search(rf"\]\(({'|'.join(TABLES)})\.md\)", heading):
            comments[link[1]] = text.strip()
    if not comments:
        introduction = ""
    links, sections = "", ""
    for name in TABLES:
        if not (out / f"{name}.md").exists():
            continue
        text = (out / f"{name}.md").read_text("utf-8")
        if comments.get(name):
            heading, _, rest = text.partition("\n\n")
            text = f"{heading}\n\n{comments[name]}\n\n{rest}"
        links += f'<a href="#{name}">{name}</a>'
        sections += f'<section id="{name}">{_as_html(text, out)}</section>'
    page = out / "all.html"
    atomic_write_text(
        page,
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Attention Is All You Need, reproduced</title><style>{STYLE}</style>"
        f"<nav>{links}</nav>{_as_html(introduction, out)}{sections}</html>\n",
    )
    return page


def _as_html(text: str, out: Path) -> str:
    """Returns the Markdown of results as HTML: headings, pictures, tables and paragraphs."""
    return "\n".join(_block_as_html(block, out) for block in text.strip().split("\n\n") if block)


def _block_as_html(block: str, out: Path) -> str:
    if block.startswith("# "):
        return f"<h1>{_inline(block[2:])}</h1>"
    if (picture := re.fullmatch(r"!\[(.*)\]\((\w+\.svg)\)", block)) and (out / picture[2]).exists():
        svg = (out / picture[2]).read_text("utf-8")
        return f'<figure aria-label="{html.escape(picture[1])}">{svg[svg.index("<svg") :]}</figure>'
    if block.startswith("| ") and block.count("\n"):
        head, _, *rows = ([cell.strip() for cell in line[2:-2].split(" | ")] for line in block.splitlines())
        cells = [_row(row, "td") for row in rows]
        return f"<table><thead>{_row(head, 'th')}</thead><tbody>{''.join(cells)}</tbody></table>"
    return f"<p>{_inline(block)}</p>"


def _row(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    """Returns a line of Markdown as HTML; of a link only the text remains, so that the page is self-contained."""
    text = re.sub(r"\[([^\[\]]+)\]\([^()]+\)", r"\1", html.escape(text))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
