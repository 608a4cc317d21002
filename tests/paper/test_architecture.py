"""Figures 1 and 2 are drawn from the settings, and the stored pictures are those of the base model."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import app
from transduce.model.transformer import Transformer
from transduce.paper.architecture import decoder_boxes, draw_attention, draw_figures, encoder_boxes
from transduce.recipe.presets import BASE, BIG
from transduce.settings import merged, validated

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def spec(values: dict[str, object], **changes: object) -> Transformer:
    return validated(Transformer, merged(values, changes), place="test")


def test_the_base_model_is_the_papers_figure() -> None:
    layer = ["multi-head attention", "add & norm", "feed-forward", "add & norm"]
    encoder = [box.text.split("\n")[0] for box in encoder_boxes(spec(BASE["model"]))]
    assert encoder == ["inputs", "embedding of width 512", "+ sinusoidal positions", *layer]
    decoder = [box.text.split("\n")[0] for box in decoder_boxes(spec(BASE["model"]))]
    assert decoder[3:5] == ["masked multi-head attention", "add & norm"]
    assert decoder[5:] == [*layer, "linear", "softmax", "output probabilities"]


def test_sizes_and_the_place_of_the_norm_are_those_of_the_settings() -> None:
    texts = " ".join(box.text for box in decoder_boxes(spec(BIG["model"], norm="pre", positions={"kind": "learned"})))
    assert "16 heads, d_k 64, d_v 64" in texts
    assert "1024 → 4,096 → 1024" in texts
    assert "+ learned positions\ndropout 0.3" in texts
    boxes = encoder_boxes(spec(BASE["model"], norm="pre"))
    assert [box.text.split("\n")[0] for box in boxes[3:6]] == ["norm", "multi-head attention", "add"]
    assert [box.skips for box in boxes if box.text == "add"] == [2, 2]
    assert boxes[-1].text == "norm"  # pre-norm leaves its last sum unnormalised


def test_a_mixer_without_heads_and_experts_are_named() -> None:
    experts = {"kind": "experts", "expert": {"d_ff": 64}, "number": 4, "chosen": 2}
    boxes = encoder_boxes(spec(BASE["model"], mixer={"kind": "convolution", "kernel": 3}, feed_forward=experts))
    assert [box.text for box in boxes[3:6:2]] == ["convolution", "2 of 4 experts\n512 → 64 → 512"]


def test_the_stored_figures_are_drawn_again_bit_for_bit(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    for path in draw_figures(tmp_path):
        assert path.read_bytes() == (RESULTS / path.name).read_bytes()


def test_the_scale_is_drawn_for_scaled_dot_products_only(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    attention = spec(BASE["model"]).cross
    draw_attention(attention, tmp_path / "scaled.svg")
    draw_attention(attention.replaced(compatibility={"kind": "additive"}), tmp_path / "additive.svg")
    scaled, additive = ((tmp_path / f"{name}.svg").read_text("utf-8") for name in ("scaled", "additive"))
    assert "scale by" in scaled
    assert "scale by" not in additive


def test_the_command_names_the_pictures_and_refuses_to_run(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    drawn = CliRunner().invoke(app, ["paper", "architecture", "--out", "pictures"])
    assert drawn.stdout.split("\n")[:2] == ["pictures/figure1.svg", "pictures/figure2.svg"]
    refused = CliRunner().invoke(app, ["paper", "architecture", "--run"])
    assert refused.exit_code == 2
    assert "draws Figures 1 and 2 without training" in refused.stderr
