"""All results on one page that asks nothing of the network, with what a README beside them says of each."""

import html
import re
from pathlib import Path

from transduce.storage.atomic import atomic_write_text

__all__ = ["write_page"]

TABLES = ("table1", "table2", "table3", "scaling", "distance")
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
    """Joins every table of `out` and its plot."""
    names = [name for name in TABLES if (out / f"{name}.md").exists()]
    texts = {name: (out / f"{name}.md").read_text("utf-8") for name in names}
    said = _said(out)
    sections = [
        f'<section id="{name}">{_as_html(_with(said.get(name), text), out)}</section>' for name, text in texts.items()
    ]
    links = "".join(f'<a href="#{name}">{name}</a>' for name in names)
    page = out / "all.html"
    atomic_write_text(
        page,
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Attention Is All You Need, reproduced</title><style>{STYLE}</style>"
        f"<nav>{links}</nav>{_as_html(said.get('', ''), out)}{''.join(sections)}</html>\n",
    )
    return page


def _said(out: Path) -> dict[str, str]:
    """What the README says of each table, by the name that its heading links to, and before any of them."""
    path = out / "README.md"
    first, *sections = path.read_text("utf-8").split("\n## ") if path.exists() else [""]
    said = {}
    for section in sections:
        heading, _, text = section.partition("\n")
        if found := re.search(rf"\]\(({'|'.join(TABLES)})\.md\)", heading):
            said[found[1]] = text.strip()
    return {"": first, **said} if said else {}  # another folder's README says nothing of tables


def _with(said: str | None, text: str) -> str:
    """A table's text with what is said of it under its heading."""
    heading, _, rest = text.partition("\n\n")
    return "\n\n".join([heading, said, rest]) if said else text


def _as_html(text: str, out: Path) -> str:
    """The little Markdown that results are written in: headings, pictures, tables, paragraphs."""
    return "\n".join(_block(block, out) for block in text.strip().split("\n\n") if block)


def _block(block: str, out: Path) -> str:
    """One block."""
    if block.startswith("# "):
        return f"<h1>{_inline(block[2:])}</h1>"
    if (found := re.fullmatch(r"!\[(.*)\]\((\w+\.svg)\)", block)) and (out / found[2]).exists():
        picture = (out / found[2]).read_text("utf-8")
        return f'<figure aria-label="{html.escape(found[1])}">{picture[picture.index("<svg") :]}</figure>'
    if block.startswith("| ") and block.count("\n"):
        head, _, *rows = ([cell.strip() for cell in line[2:-2].split(" | ")] for line in block.splitlines())
        cells = [_row(row, "td") for row in rows]
        return f"<table><thead>{_row(head, 'th')}</thead><tbody>{''.join(cells)}</tbody></table>"
    return f"<p>{_inline(block)}</p>"


def _row(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    """Escaped; code and what is strong are marked, and of a link stands what it says: the page leads nowhere."""
    said = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", html.escape(text))
    said = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", said)
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", said)
