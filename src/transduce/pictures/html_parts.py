"""Parts of pages: escaped text, sections, tables and numbers."""

import html
from collections.abc import Sequence
from importlib import resources
from string import Template

from transduce.pictures.attention import show_control_characters

__all__ = ["escape", "in_range", "section", "signed", "static_page", "table"]


def escape(text: str) -> str:
    """Returns text for HTML, with pictures in place of control characters and of bytes that are not UTF-8."""
    return html.escape(show_control_characters(text).encode("utf-8", "replace").decode())


def static_page(title: str, style: str, body: str) -> str:
    """Returns a page without scripts that loads nothing; `title` is text, the others are CSS and HTML."""
    page = Template((resources.files(__package__) / "static_page.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), style=style, body=body)


def section(name: str, title: str, *parts: str) -> str:
    """Returns a section with its heading."""
    return "\n".join((f'<section id="{name}">', f"<h2>{title}</h2>", *parts, "</section>"))


def signed(number: float, *, digits: int = 2) -> str:
    """Returns a number with its sign."""
    return f"{number:+.{digits}f}".replace("-", "−")


def in_range(low: int, high: int | None) -> str:
    """Returns the numbers from `low` to `high`."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of cells that are HTML; the first row and the first column are headings."""
    heading, *body = rows
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heading)
    lines = (
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in body
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
