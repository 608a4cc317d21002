"""The page to explore: template, style, program and data in one file that asks nothing of the network."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from transduce.pictures.attention import AttentionMap

__all__ = ["page"]

PROGRAM = ("state.js", "lines.js", "maps.js", "controls.js")


def page(parts: Sequence[AttentionMap], source_text: str, target_text: str) -> str:
    """The whole HTML of the three attentions `parts` of one translation.

    The weights stand in it in thousandths, as whole numbers.
    """
    folder = resources.files(__package__)
    return Template((folder / "attention.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"Attention: {source_text}"),
        source=html.escape(source_text),
        target=html.escape(target_text),
        style=(folder / "attention.css").read_text(encoding="utf-8"),
        record=_embedded(_record(parts)),
        program="\n".join((folder / name).read_text(encoding="utf-8") for name in PROGRAM),
    )


def _record(parts: Sequence[AttentionMap]) -> dict[str, Any]:
    """What the page's program reads."""
    attentions = [
        {
            "name": part.name,
            "title": part.title,
            "reading": part.reading,
            "looking": part.looking,
            "seen": part.seen,
            "layers": [_thousandths(layer) for layer in part.layers],
        }
        for part in parts
    ]
    return {"colours": parts[0].colours, "attentions": attentions}


def _thousandths(weights: np.ndarray) -> Any:
    """Weights [heads, looking, seen] as nested lists of whole numbers from 0 to 1000."""
    return np.round(1000 * weights.astype(np.float64)).astype(int).tolist()


def _embedded(record: dict[str, Any]) -> str:
    """`record` as JSON that may stand inside a script element, whatever its words are."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
