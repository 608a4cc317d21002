"""The three attentions of a translation, prepared for drawing: readable subwords, weights, colours of the heads."""

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from transduce.translation.results import Explanation

__all__ = ["AttentionMap", "attention_maps", "head_colours", "show_control_characters", "subword_labels"]

BEGIN = "<s>"
WORD_START = "▁"
ENCODER = "Each subword of the source attends to all subwords of the source."
DECODER = (
    "While it is being written, each subword of the target attends to the subwords before it; "
    f"{BEGIN} is the begin symbol."
)
CROSS = "While it is being written, each subword of the target attends to all subwords of the source."
# Unicode has pictures of the control characters. XML forbids most control characters, and two non-characters, which
# become the replacement character.
CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421, 0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


class AttentionMap(NamedTuple):
    """One of the Transformer's three attentions (paper section 3.2.3), over all layers and heads."""

    name: str
    title: str
    description: str  # a sentence that says what a row and a column are
    queries: tuple[str, ...]  # subwords of the rows
    keys: tuple[str, ...]  # subwords of the columns
    layers: tuple[NDArray[np.float32], ...]  # a layer: [heads queries keys], rows sum to 1
    colours: tuple[str, ...]  # of the heads, as `#rrggbb`


def attention_maps(explanation: "Explanation") -> tuple[AttentionMap, AttentionMap, AttentionMap]:
    """Returns encoder self-attention, decoder self-attention and cross-attention of an explanation."""
    source, target = subword_labels(explanation.source), subword_labels(explanation.target)
    # A row of the decoder is the step that wrote its subword, after reading the begin symbol and the subwords before.
    inputs = (BEGIN, *target[:-1])
    encoder, decoder, cross = explanation.encoder, explanation.decoder, explanation.cross
    # A head's number has the same colour in every attention.
    colours = head_colours(max(len(weights) for weights in (*encoder, *decoder, *cross)))
    attentions = (
        AttentionMap("encoder", "Encoder self-attention", ENCODER, source, source, encoder, colours),
        AttentionMap("decoder", "Decoder self-attention", DECODER, target, inputs, decoder, colours),
        AttentionMap("cross", "Cross-attention", CROSS, target, source, cross, colours),
    )
    for attention in attentions:
        _check(attention)
    return attentions


def _check(attention: AttentionMap) -> None:
    """Asserts that every layer has a finite weight for each pair of subwords."""
    title = attention.title
    assert attention.layers, f"{title} has no layer"
    for number, weights in enumerate(attention.layers, start=1):
        shape = (len(attention.queries), len(attention.keys))
        assert weights.ndim == 3, f"{title}, layer {number}: {weights.ndim} dimensions instead of 3"
        assert weights.shape[1:] == shape, f"{title}, layer {number}: {weights.shape[1:]}, not {shape}"
        assert np.isfinite(weights).all(), f"{title}, layer {number}: a weight is not finite"


def subword_labels(subwords: tuple[str, ...]) -> tuple[str, ...]:
    """Returns readable subwords: "▁" is removed where a word begins, and "·" stands where a word continues."""
    return tuple(_label(subword, is_first=place == 0) for place, subword in enumerate(subwords))


def _label(subword: str, *, is_first: bool) -> str:
    plain = subword.removeprefix(WORD_START)
    if not plain:
        return WORD_START
    # Letters, marks and digits continue a word; many scripts write letters with marks.
    continues = plain == subword and not is_first and unicodedata.category(plain[0])[0] in "LMN"
    return show_control_characters(f"·{plain}" if continues else plain)


def show_control_characters(text: str) -> str:
    """Replaces control characters by their pictures."""
    return text.translate(CONTROL_PICTURES)


def head_colours(heads: int) -> tuple[str, ...]:
    """Returns a colour a head, as `#rrggbb`: evenly spaced hues in OKLCH that are visible on white and on black."""
    number = np.arange(heads)
    # Neighbours differ in lightness too, so that sixteen heads can be told apart.
    lightness = np.where(number % 2 == 0, 0.60, 0.69)
    hue = 2 * np.pi * (number / heads + 0.07)
    rgb = _oklch_to_rgb(lightness, 0.155, hue)
    return tuple("#" + bytes(row).hex() for row in np.round(255 * rgb).astype(np.uint8))


def _oklch_to_rgb(lightness: np.ndarray, chroma: float, hue: np.ndarray) -> np.ndarray:
    """Converts OKLCH to sRGB in [0, 1], shape [colours 3] (Björn Ottosson, "A perceptual color space", 2020)."""
    oklab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
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
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
