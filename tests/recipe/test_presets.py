"""The paper's models by name, against the counts of its Table 3 and of its text."""

import re

import pytest
import torch

from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary, flops
from transduce.paper.system_presets import PRESETS, TABLE_3
from transduce.recipe.model_summary import summarise_model
from transduce.recipe.recipe import Recipe, from_values, merge_preset
from transduce.settings import validated
from transduce.training.training_settings import Training

# Millions of parameters of the text's model at 37,000 and at 41,200 subwords.
TEXT = {
    "base": (63.0, 65.2),
    **{f"A{row}": (63.0, 65.2) for row in (1, 2, 3, 4)},
    "B1": (56.0, 58.1),
    "B2": (58.3, 60.5),
    "C1": (33.6, 35.8),
    "C2": (48.3, 50.5),
    "C3": (77.7, 79.9),
    "C4": (26.8, 27.9),
    "C5": (163.8, 168.1),
    "C6": (50.4, 52.6),
    "C7": (88.2, 90.4),
    **{f"D{row}": (63.0, 65.2) for row in (1, 2, 3, 4)},
    "big": (214.2, 218.5),
}

# The column of Table 3, which counts the biases of the released code at its 40,960 subwords.
COLUMN = {"B1": 58, "B2": 60, "C1": 36, "C2": 50, "C3": 80, "C4": 28, "C5": 168, "C6": 53, "C7": 90}


def parameters(spec, vocabulary):
    with torch.device("meta"):
        model = spec.build(Vocabulary(source=vocabulary, target=vocabulary))
    return sum(parameter.numel() for parameter in model.parameters())


def spec_of(preset, **changes):
    return validated(Transformer, {**PRESETS[preset]["model"], **changes}, place=preset)


@pytest.mark.parametrize("preset", TEXT)
def test_parameters_of_the_text(preset):
    millions = tuple(summarise_model(preset, size)["parameters"] / 1e6 for size in (37_000, 41_200))
    # C6 has 50,450,432 at 37,000, which the table above has as 50.4.
    assert millions == pytest.approx(TEXT[preset], abs=0.0505)


def test_learned_positions_add_their_tables():
    assert summarise_model("E", 37_000)["parameters"] - summarise_model("base", 37_000)["parameters"] == 2 * 512 * 512


def test_the_released_base_is_the_papers_65_million():
    assert round(summarise_model("released-2017", 40_960)["parameters"] / 1e6) == 65


@pytest.mark.parametrize("row", COLUMN)
def test_rows_counted_as_released_are_the_papers_column(row):
    attention = {name: {**PRESETS[row]["model"][name], "bias": True} for name in ("mixer", "cross")}
    assert round(parameters(spec_of(row, **attention), 40_960) / 1e6) == COLUMN[row]


def test_every_row_of_table_3_is_there():
    rows = {f"{letter}{row}" for letter, last in (("A", 4), ("B", 2), ("C", 7), ("D", 4)) for row in range(1, last + 1)}
    assert set(TABLE_3) == rows | {"E"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_and_a_corpus_are_a_recipe(preset):
    corpus = "embedded_trees" if preset.startswith("parser") else "embedded"
    values = {"data": {"train": {corpus: "train"}}, "model": {"preset": preset}}
    recipe = validated(Recipe, merge_preset(values, place="here"), place="here")
    assert recipe.model.kind == PRESETS[preset]["model"]["kind"]


@pytest.mark.parametrize("preset", ["base", "big", "released-2017", "E", "experts"])
def test_projections_are_drawn_as_the_released_code_draws_them(preset):
    values = {"data": {"train": {"embedded": "train"}}, "model": {"preset": preset}}
    assert validated(Recipe, merge_preset(values, place="here"), place="here").model.initialisation == "fused-glorot"


def test_what_the_rows_vary():
    """Table 3, entry by entry: each row differs from base in its own entries only."""

    def entries(preset):
        values = {"data": {"train": {"embedded": "train"}}, "model": {"preset": preset}}
        recipe = validated(Recipe, merge_preset(values, place="here"), place="here")
        model, training = recipe.model, recipe.training
        heads = (model.mixer.heads, model.mixer.d_k, model.mixer.d_v)
        assert model.cross == model.mixer
        assert model.encoder_layers == model.decoder_layers
        return {
            "N": model.encoder_layers,
            "d_model": model.d_model,
            "d_ff": model.feed_forward.d_ff,
            "h d_k d_v": heads,
            "dropout": model.dropout,
            "smoothing": training.label_smoothing,
            "positions": model.positions.kind,
            "steps": training.steps,
            "average": training.average,
            "rest": (model.norm, model.mixer.bias, model.mixer.dropout, model.feed_forward.dropout, model.embeddings),
        }

    base = entries("base")
    assert base == {
        "N": 6,
        "d_model": 512,
        "d_ff": 2048,
        "h d_k d_v": (8, 64, 64),
        "dropout": 0.1,
        "smoothing": 0.1,
        "positions": "sinusoidal",
        "steps": 100_000,
        "average": 5,
        "rest": ("post", False, 0.0, 0.0, "shared"),
    }
    differences = {
        row: {name: value for name, value in entries(row).items() if value != base[name]} for row in [*TABLE_3, "big"]
    }
    # Averaging is not in Table 3.
    assert all(differences[row].pop("average", 0) is None for row in TABLE_3)
    assert differences == {
        "A1": {"h d_k d_v": (1, 512, 512)},
        "A2": {"h d_k d_v": (4, 128, 128)},
        "A3": {"h d_k d_v": (16, 32, 32)},
        "A4": {"h d_k d_v": (32, 16, 16)},
        "B1": {"h d_k d_v": (8, 16, 64)},
        "B2": {"h d_k d_v": (8, 32, 64)},
        "C1": {"N": 2},
        "C2": {"N": 4},
        "C3": {"N": 8},
        "C4": {"d_model": 256, "h d_k d_v": (8, 32, 32)},
        "C5": {"d_model": 1024, "h d_k d_v": (8, 128, 128)},
        "C6": {"d_ff": 1024},
        "C7": {"d_ff": 4096},
        "D1": {"dropout": 0.0},
        "D2": {"dropout": 0.2},
        "D3": {"smoothing": 0.0},
        "D4": {"smoothing": 0.2},
        "E": {"positions": "learned"},
        "big": {
            "d_model": 1024,
            "d_ff": 4096,
            "h d_k d_v": (16, 64, 64),
            "dropout": 0.3,
            "steps": 300_000,
            "average": 20,
        },
    }


def test_tiny():
    model = spec_of("tiny")
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.feed_forward.d_ff) == (4, 4, 128, 256)
    assert (model.mixer.heads, model.cross.heads) == (4, 4)


def test_the_arithmetic_of_base():
    assert summarise_model("base", 37_000)["flops_per_target_token"] == 126_736_384


def test_the_arithmetic_of_a_toy_counted_by_hand():
    spec = Transformer(
        d_model=6,
        encoder_layers=2,
        decoder_layers=1,
        mixer={"kind": "attention", "heads": 3, "d_k": 2, "d_v": 5},
        cross={"heads": 2, "d_k": 4, "d_v": 1},
        feed_forward={"kind": "feed_forward", "d_ff": 11},
    )
    # Multiplications: to 3·2 queries, 3·2 keys, 3·5 values and back; scores and sums over 10 words.
    self_attention = 6 * (6 + 6 + 15) + 15 * 6
    network = 6 * 11 + 11 * 6
    keys_and_values = 6 * (8 + 2)
    queries_and_back = 6 * 8 + 2 * 6
    read = 2 * (self_attention + network + 10 * (6 + 15)) + keys_and_values
    written = self_attention + 10 * (6 + 15) // 2 + queries_and_back + 10 * (8 + 2) + network + 6 * 9
    assert flops(spec, Vocabulary(source=7, target=9), length=10) == (2 * read, 2 * written)


def test_parameters_by_part_are_all_parameters():
    for preset in ("tiny", "E", "released-2017"):
        summary = summarise_model(preset, 1000)
        assert sum(summary["parameters_by_part"].values()) == summary["parameters"]


def test_the_defaults_of_training_are_those_of_section_5():
    training = Training()
    assert training.batch_tokens == 25_000
    assert (training.optimiser.betas, training.optimiser.epsilon) == ((0.9, 0.98), 1e-9)
    assert (training.schedule.kind, training.schedule.warmup) == ("paper", 4000)


def test_the_parser_is_that_of_section_6_3():
    parser, base = (from_preset(name) for name in ("parser", "base"))
    model = parser.model
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.feed_forward.d_ff) == (4, 4, 1024, 2048)
    assert (model.mixer.heads, model.mixer.d_k, model.cross.heads, model.cross.d_v) == (8, 128, 8, 128)
    assert not model.next_word
    assert (parser.subwords.size, parser.subwords.shared) == (16_000, False)
    assert (parser.decoding.beam, parser.decoding.length_penalty, parser.decoding.extra_length) == (21, 0.3, 300)
    assert parser.training.schedule == base.training.schedule
    assert parser.training.label_smoothing == base.training.label_smoothing


def test_the_released_parser_is_that_of_the_released_code():
    """`transformer_parsing_base_dr6`: its learning rate is five times that of the released code's base model."""
    parser, text, base = (from_preset(name) for name in ("parser-released-2017", "parser", "released-2017"))
    model = parser.model
    assert (model.encoder_layers, model.d_model, model.feed_forward.d_ff) == (6, 1024, 2048)
    assert (model.mixer.heads, model.mixer.d_k, model.mixer.dropout, model.dropout) == (8, 128, 0.2, 0.2)
    assert (model.embeddings, model.readout.kind, model.norm, model.next_word) == (
        "separate",
        "separate",
        "post",
        False,
    )
    same = ("positions", "norm_epsilon", "first_input")
    assert [getattr(model, key) for key in same] == [getattr(base.model, key) for key in same]
    assert parser.training.label_smoothing_over == base.training.label_smoothing_over
    assert (parser.subwords, parser.decoding) == (text.subwords, text.decoding)
    schedule = parser.training.schedule
    assert schedule.rate(100_000, 1024) == pytest.approx(5 * 1024**-0.5 * 100_000**-0.5)
    assert schedule.rate(16_000, 1024) == pytest.approx(5 * base.training.schedule.rate(16_000, 1024))


def from_preset(name):
    corpus = "embedded_trees" if name.startswith("parser") else "embedded"
    return from_values({"data": {"train": {corpus: "train"}}, "model": {"preset": name}}, place="here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["subwords.shared=true"], "subwords.shared: false"),
        (["training.validate_by=bleu"], "`training.validate_by: bleu` measures translations: set f1, or loss"),
        (["decoding.extra_length=2"], "`decoding.extra_length` of a parser is at least 3"),
        (["decoding.no_repeat_ngram=3"], "`decoding.no_repeat_ngram` is for translations"),
    ],
)
def test_settings_of_translations_are_refused_for_parsers(changes, message):
    values = {"data": {"train": {"embedded_trees": "train"}}, "model": {"preset": "parser-small"}}
    with pytest.raises(ValueError, match=re.escape(message)):
        from_values(values, changes, place="here")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.validate_by=f1", "`training.validate_by: f1` measures trees: set bleu, or loss"),
        ("model.next_word=true", "`model.next_word` is for parsers, which learn trees"),
    ],
)
def test_settings_of_parsers_are_refused_for_translations(change, message):
    values = {"data": {"train": {"embedded": "train"}}, "model": {"preset": "tiny"}}
    with pytest.raises(ValueError, match=re.escape(message)):
        from_values(values, [change], place="here")
