"""The interactive page: template, style sheet, scripts and data in one file that needs no network."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from transduce.pictures.attention import AttentionMap

__all__ = ["render_page"]

SCRIPTS = ("state.js", "lines.js", "maps.js", "controls.js")


def render_page(attentions: Sequence[AttentionMap], source_text: str, target_text: str) -> str:
    """Returns the HTML of the attentions of one translation, with the weights as integers, in thousandths."""
    folder = resources.files(__package__)
    return Template((folder / "attention.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"Attention: {source_text}"),
        source=html.escape(source_text),
        target=html.escape(target_text),
        style=(folder / "attention.css").read_text(encoding="utf-8"),
        record=_script_safe_json(_record(attentions)),
        scripts="\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS),
    )


def _record(attentions: Sequence[AttentionMap]) -> dict[str, Any]:
    """Returns the data that the scripts read."""
    maps = [
        {
            "name": attention.name,
            "title": attention.title,
            "description": attention.description,
            "queries": attention.queries,
            "keys": attention.keys,
            "layers": [_thousandths(layer) for layer in attention.layers],
        }
        for attention in attentions
    ]
    return {"colours": attentions[0].colours, "attentions": maps}


def _thousandths(weights: np.ndarray) -> Any:
    """Returns weights [heads queries keys] as nested lists of integers from 0 to 1000."""
    return np.round(1000 * weights.astype(np.float64)).astype(int).tolist()


def _script_safe_json(record: dict[str, Any]) -> str:
    """Returns a record as JSON that cannot end the script element around it."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
