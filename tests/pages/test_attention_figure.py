"""The figure: a well-formed and complete SVG, a PNG that is not blank, equal bytes for equal explanations."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from transduce.pages import draw_attention
from transduce.pages.attention_drawing import attention_maps, head_colours, subword_labels
from transduce.pages.attention_figure import HeatMapPanel, LinePanel
from transduce.translation.results import Explanation


def texts_of(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return ["".join(text.itertext()).strip() for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_svg_names_every_subword_of_every_map(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "attention.svg")
    texts = texts_of(tmp_path / "attention.svg")
    # Lines of encoder and cross-attention; rows of 3 + 2 layers, columns of 5 heads and 3.
    for subword in ("</script><b>", "·ing", "$x$", "שלום", "🙂"):
        assert texts.count(subword) == (2 + 1) + 3 + (5 + 3)
    # Cross-attention's line view; rows of 2 + 2 layers, columns of the decoder's 2 heads.
    for subword in ("Gemälde", "&amp;", "·s", "$title"):
        assert texts.count(subword) == 1 + (2 + 2) + 2
    assert texts.count("<s>") == 2
    assert explanation.source_text in texts
    assert "Encoder self-attention, layer 2 of 3" in texts
    assert "Cross-attention, layer 2 of 2" in texts


def test_the_png_is_not_blank(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "attention.png")
    image = matplotlib.image.imread(tmp_path / "attention.png")
    assert min(image.shape[:2]) > 500
    assert image[..., :3].std() > 0.05


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_equal_explanations_give_equal_figures(explanation: Explanation, tmp_path: Path, suffix: str) -> None:
    draw_attention(explanation, tmp_path / f"one.{suffix}")
    draw_attention(explanation, tmp_path / f"two.{suffix}")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_one_subword_and_one_head_are_enough(tmp_path: Path) -> None:
    layers = (np.ones((1, 1, 1), dtype=np.float32),)
    draw_attention(Explanation(("</s>",), ("</s>",), "", "", layers, layers, layers), tmp_path / "empty.svg")
    # Both line views and three heat maps, where the decoder's one column is the begin symbol.
    assert texts_of(tmp_path / "empty.svg").count("</s>") == 2 + 2 + 2 + 2 + 1


def test_the_mosaic_has_each_map_in_its_place(explanation: Explanation) -> None:
    cross = attention_maps(explanation)[2]
    mosaic = HeatMapPanel(cross, cell=5.0)._mosaic()
    assert mosaic.shape == (6 + 2 + 6, 9 + 2 + 9 + 2 + 9, 4)
    np.testing.assert_allclose(mosaic[8:14, 22:31, 3] ** 2, explanation.cross[1][2], atol=1e-6)
    assert not mosaic[6:8].any()


def test_panels_grow_with_their_subwords(explanation: Explanation) -> None:
    encoder, decoder, _ = attention_maps(explanation)
    assert LinePanel(encoder, 1).width > LinePanel(decoder, 1).width
    assert HeatMapPanel(encoder, 5.0).width > HeatMapPanel(decoder, 5.0).width
    assert HeatMapPanel(encoder, 8.0).height > HeatMapPanel(encoder, 5.0).height


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_weights_of_another_shape_are_refused(explanation: Explanation, kind: str) -> None:
    layers = [layer[:, :, 1:] for layer in getattr(explanation, kind)]
    with pytest.raises(AssertionError, match="layer 1"):
        attention_maps(explanation._replace(**{kind: tuple(layers)}))


def test_weights_that_are_no_numbers_are_refused(explanation: Explanation) -> None:
    broken = np.full_like(explanation.cross[1], np.nan)
    with pytest.raises(AssertionError, match="layer 2"):
        attention_maps(explanation._replace(cross=(explanation.cross[0], broken)))


def test_labels_tell_the_beginning_of_a_word_from_its_continuation() -> None:
    subwords = ("un", "▁paint", "able", ".", "▁", "▁.", "\n", "</s>")
    assert subword_labels(subwords) == ("un", "paint", "·able", ".", "▁", ".", "␊", "</s>")


def test_a_subword_that_begins_with_a_mark_continues_a_word() -> None:
    assert subword_labels(("▁ह", "िन", "्द", "ी", "</s>")) == ("ह", "·िन", "·्द", "·ी", "</s>")


@pytest.mark.parametrize("heads", [1, 8, 16, 32])
def test_colours_are_distinct_and_visible_on_white_and_on_black(heads: int) -> None:
    colours = head_colours(heads)
    assert len(set(colours)) == heads
    linear = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in colours]) ** 2.2
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    # WCAG's contrast of graphics against the page's two grounds.
    assert (1.05 / (luminance + 0.05)).min() > 2.2
    assert ((luminance + 0.05) / 0.06).min() > 3.0
