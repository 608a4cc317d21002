"""Draws the attention weights of a translation as a page or a figure.

This module prepares what is drawn: readable labels for the subwords, the attention weights, and a colour for each head.
"""

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.pages.rendering import render, show_control_characters, write_picture

if TYPE_CHECKING:
    from transduce.translation.results import Explanation

BEGIN = "<s>"
WORD_START = "▁"
ENCODER = "Each subword of the source attends to all subwords of the source."
DECODER = (
    "The step that generates a subword of the target attends to the subwords generated before it, and to "
    f"{BEGIN}, the beginning-of-sentence symbol."
)
CROSS = "The step that generates a subword of the target attends to all subwords of the source."


class AttentionMap(NamedTuple):
    """The weights of one of the three kinds of attention (paper section 3.2.3), for all layers and heads."""

    name: str
    title: str
    description: str  # a sentence that explains the rows and columns
    queries: tuple[str, ...]  # subwords of the rows
    keys: tuple[str, ...]  # subwords of the columns
    layers: tuple[NDArray[np.float32], ...]  # per layer: [heads queries keys]; rows sum to 1
    colours: tuple[str, ...]  # of the heads, as `#rrggbb`


def draw_attention(explanation: "Explanation", path: Path) -> None:
    """Writes a picture of all attention weights of `explanation` to `path`, similar to figures 3 to 5 of the paper.

    The suffix of `path` determines the format: `.html` is a self-contained page on which the reader selects subwords,
    heads and layers, and `.png` and `.svg` are figures. The output is deterministic, and an existing file is replaced
    atomically. Raises ValueError for any other suffix, and OSError if the file cannot be written.
    """

    def write_figure(target: Path, kind: Literal["png", "svg"]) -> None:
        # Imported here because Matplotlib takes a second to import, and the page does not need it.
        from transduce.pages.attention_figure import write_attention_figure

        texts = show_control_characters(explanation.source_text), show_control_characters(explanation.target_text)
        write_attention_figure(attention_maps(explanation), texts, target, kind)

    write_picture(path, {"html": lambda: render_attention_page(explanation)}, write_figure)


def render_attention_page(explanation: "Explanation") -> str:
    """Renders a self-contained page of all attention weights, which are stored as integers in thousandths."""
    encoder, decoder, cross = attention_maps(explanation)
    maps = [
        {
            "name": attention.name,
            "title": attention.title,
            "description": attention.description,
            "queries": attention.queries,
            "keys": attention.keys,
            "layers": [np.round(1000 * layer.astype(np.float64)).astype(int).tolist() for layer in attention.layers],
        }
        for attention in (cross, encoder, decoder)  # cross-attention first: it shows where a word comes from
    ]
    return render(
        "attention.html.jinja",
        source=explanation.source_text,
        target=explanation.target_text,
        record={"colours": cross.colours, "attentions": maps},
    )


def attention_maps(explanation: "Explanation") -> tuple[AttentionMap, AttentionMap, AttentionMap]:
    """Returns the weights of encoder self-attention, decoder self-attention and cross-attention, in this order."""
    source, target = subword_labels(explanation.source), subword_labels(explanation.target)
    # A row of the decoder belongs to the step that wrote the subword; its inputs were BOS and the earlier subwords.
    inputs = (BEGIN, *target[:-1])
    encoder, decoder, cross = explanation.encoder, explanation.decoder, explanation.cross
    # Heads with the same number have the same colour in all three attentions.
    colours = head_colours(max(len(weights) for weights in (*encoder, *decoder, *cross)))
    attentions = (
        AttentionMap("encoder", "Encoder self-attention", ENCODER, source, source, encoder, colours),
        AttentionMap("decoder", "Decoder self-attention", DECODER, target, inputs, decoder, colours),
        AttentionMap("cross", "Cross-attention", CROSS, target, source, cross, colours),
    )
    for attention in attentions:
        shape = (len(attention.queries), len(attention.keys))
        assert attention.layers, f"{attention.title} has no layer"
        for number, weights in enumerate(attention.layers, start=1):
            place = f"{attention.title}, layer {number}"
            assert weights.ndim == 3, f"{place}: {weights.ndim} dimensions instead of 3"
            assert weights.shape[1:] == shape, f"{place}: {weights.shape[1:]}, not {shape}"
            assert np.isfinite(weights).all(), f"{place}: a weight is not finite"
    return attentions


def subword_labels(subwords: tuple[str, ...]) -> tuple[str, ...]:
    """Returns readable labels: the "▁" that begins a word is removed, and a "·" marks a subword that continues one."""
    labels = []
    for index, subword in enumerate(subwords):
        plain = subword.removeprefix(WORD_START) or WORD_START
        # Letters, marks and digits continue a word; many scripts write letters with marks.
        continues = plain == subword and index > 0 and unicodedata.category(plain[0])[0] in "LMN"
        labels.append(show_control_characters(f"·{plain}" if continues else plain))
    return tuple(labels)


def head_colours(heads: int) -> tuple[str, ...]:
    """Returns one colour per head, as `#rrggbb`: evenly spaced OKLCH hues that are visible on white and on black."""
    number = np.arange(heads)
    # Neighbours differ in lightness too, so that sixteen heads can be told apart.
    lightness = np.where(number % 2 == 0, 0.60, 0.69)
    hue = 2 * np.pi * (number / heads + 0.07)
    oklab = np.stack([lightness, 0.155 * np.cos(hue), 0.155 * np.sin(hue)], axis=-1)
    to_cones = np.array(
        [
            [1.0, 0.3963377774, 0.2158037573],
            [1.0, -0.1055613458, -0.0638541728],
            [1.0, -0.0894841775, -1.2914855480],
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((oklab @ to_cones.T) ** 3 @ to_linear.T, 0.0, 1.0)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return tuple("#" + bytes(row).hex() for row in np.round(255 * rgb).astype(np.uint8))
