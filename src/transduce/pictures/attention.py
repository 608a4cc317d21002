"""The three attentions of a translation, made ready to be drawn: their words as people read them, their colours."""

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from transduce.translation.results import Explanation

__all__ = ["AttentionMap", "attentions", "displayed", "head_colours", "labels"]

BEGIN = "<s>"
WORD_START = "▁"
IN_SOURCE = "Each word of the source looks at all words of the source."
BACKWARD = (
    f"While it is being written, each word of the target looks at those before it; {BEGIN} stands for the beginning."
)
ACROSS = "While it is being written, each word of the target looks at all words of the source."
# Control characters have pictures of their own in Unicode; XML forbids them, and the two non-characters, outright.
VISIBLE = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421, 0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


class AttentionMap(NamedTuple):
    """One of the Transformer's three attentions (paper section 3.2.3), over all layers and heads."""

    name: str
    title: str
    reading: str  # says in a sentence what a row and a column are
    looking: tuple[str, ...]  # the rows: words that look
    seen: tuple[str, ...]  # the columns: words that are looked at
    layers: tuple[NDArray[np.float32], ...]  # a layer: [heads, looking, seen], rows sum to 1
    colours: tuple[str, ...]  # of the heads, as `#rrggbb`


def attentions(explanation: "Explanation") -> tuple[AttentionMap, AttentionMap, AttentionMap]:
    """Encoder self-attention, decoder self-attention and cross-attention of `explanation`."""
    source, target = labels(explanation.source), labels(explanation.target)
    # A row of the decoder is the step that wrote its word; that step had read the begin symbol and the words before.
    before = (BEGIN, *target[:-1])
    layers = (explanation.encoder, explanation.decoder, explanation.cross)
    # A head's number has the same colour in every attention.
    colours = head_colours(max(len(weights) for part in layers for weights in part))
    parts = (
        AttentionMap("encoder", "Encoder self-attention", IN_SOURCE, source, source, layers[0], colours),
        AttentionMap("decoder", "Decoder self-attention", BACKWARD, target, before, layers[1], colours),
        AttentionMap("cross", "Cross-attention", ACROSS, target, source, layers[2], colours),
    )
    for part in parts:
        _check(part)
    return parts


def _check(part: AttentionMap) -> None:
    """Asserts that every layer has a weight for each pair of words."""
    assert part.layers, f"{part.title} has no layer"
    for number, weights in enumerate(part.layers, start=1):
        shape = (len(part.looking), len(part.seen))
        assert weights.ndim == 3, f"{part.title}, layer {number}: {weights.ndim} dimensions instead of 3"
        assert weights.shape[1:] == shape, f"{part.title}, layer {number}: {weights.shape[1:]}, not {shape}"
        assert np.isfinite(weights).all(), f"{part.title}, layer {number}: a weight is not finite"


def labels(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Subword pieces as people read them: what begins a word stands plain, what goes on with one after a dot."""
    return tuple(_label(piece, first=place == 0) for place, piece in enumerate(pieces))


def _label(piece: str, *, first: bool) -> str:
    plain = piece.removeprefix(WORD_START)
    if not plain:
        return WORD_START
    # As where text is cut into words, whose letters many scripts write with marks.
    continues = plain == piece and not first and unicodedata.category(plain[0])[0] in "LMN"
    return displayed(f"·{plain}" if continues else plain)


def displayed(text: str) -> str:
    """`text` with its control characters made visible."""
    return text.translate(VISIBLE)


def head_colours(heads: int) -> tuple[str, ...]:
    """One colour a head, as `#rrggbb`: hues evenly spaced in OKLCH, none too pale for white nor too dark for black."""
    number = np.arange(heads)
    # Neighbours differ in lightness too, so that sixteen heads can still be told apart.
    lightness = np.where(number % 2 == 0, 0.60, 0.69)
    hue = 2 * np.pi * (number / heads + 0.07)
    rgb = _oklch_to_rgb(lightness, 0.155, hue)
    return tuple("#" + bytes(row).hex() for row in np.round(255 * rgb).astype(np.uint8))


def _oklch_to_rgb(lightness: np.ndarray, chroma: float, hue: np.ndarray) -> np.ndarray:
    """OKLCH to sRGB in [0, 1], shape [colours, 3] (Björn Ottosson, "A perceptual color space", 2020)."""
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
