"""Models of OPUS-MT's shape, imported, against transformers: logits, tokens, text."""

import json
from pathlib import Path

import pytest
import torch
from foreign_models import ENGLISH, GERMAN, ODD, write_opus_mt
from torch import Tensor
from transformers import MarianMTModel, MarianTokenizer

from transduce.exchange.import_model import import_model
from transduce.model_directory import Model, verify
from transduce.translation.translator import Translator

SENTENCES = [ENGLISH[5], "the cat", "a bee likes the owl, 你好", f"{ENGLISH[70]} {ENGLISH[3]}"]
TARGETS = [GERMAN[9], "der", f"{GERMAN[100]} {GERMAN[2]}", "Kauz mag Käfer ½"]
BELOW = 1e-30


def foreign_log_probabilities(model: MarianMTModel, tokenizer: MarianTokenizer) -> list[Tensor]:
    """Returns the log-probabilities of transformers for each pair, padded as one batch."""
    source = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    rows = tokenizer(text_target=TARGETS)["input_ids"]
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    width = max(map(len, rows))
    target_in = torch.tensor([[start, *row[:-1], *[pad] * (width - len(row))] for row in rows])
    with torch.no_grad():
        logits = model(**source, decoder_input_ids=target_in).logits
    return [logits[number, : len(row)].log_softmax(-1) for number, row in enumerate(rows)]


def our_log_probabilities(model: Model) -> list[Tensor]:
    """Returns the log-probabilities of an imported model for each pair, padded as one batch."""

    def rectangle(rows: list[list[int]]) -> Tensor:
        width = max(map(len, rows))
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    targets = model.target.encode(TARGETS)
    source = rectangle([[*row, 2] for row in model.source.encode(SENTENCES)])
    target_in = rectangle([[1, *row] for row in targets])
    with torch.no_grad():
        whole = model.module.readout(model.module(source, source != 0, target_in).states)
    return [whole[number, : len(row) + 1] for number, row in enumerate(targets)]


def assert_equal_distributions(ours: list[Tensor], theirs: list[Tensor], columns: list[int]) -> None:
    """Asserts equal log-probabilities of every token; `columns` are our ids of their tokens."""
    missing = sorted({*range(ours[0].shape[1])} - {*columns})
    for our, their in zip(ours, theirs, strict=True):
        assert our.shape[0] == their.shape[0]
        torch.testing.assert_close(our[:, columns], their, rtol=0, atol=2e-5)
        assert (our[:, missing].exp() < BELOW).all()


def columns(model: Model, ids: dict[str, int]) -> list[int]:
    """Returns our id of each of their ids."""
    symbols = {"<pad>": 0, "</s>": 2}
    return [symbols[token] if token in symbols else model.target.subwords.index(token, 3) for token in ids]


@pytest.mark.parametrize(
    ("kind", "separate", "changes"),
    [
        ("unigram", False, {}),
        ("bpe", False, {"activation_function": "relu", "encoder_layers": 1}),
        ("unigram", True, {"activation_function": "gelu"}),
        ("bpe", True, {"tie_word_embeddings": False}),
    ],
)
def test_log_probabilities_are_those_of_transformers(
    tmp_path: Path, kind: str, separate: bool, changes: dict[str, object]
) -> None:
    foreign = write_opus_mt(tmp_path / "opus", kind=kind, separate=separate, **changes)
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "opus")
    config = import_model(tmp_path / "opus", tmp_path / "run", say=lambda line: None)
    model = Model.read(tmp_path / "run")
    assert model.config == config
    assert verify(tmp_path / "run") == []
    assert (config.source_language, config.target_language) == ("eng", "deu")
    ids = json.loads((tmp_path / "opus" / ("target_vocab.json" if separate else "vocab.json")).read_text("utf-8"))
    theirs = foreign_log_probabilities(foreign, tokenizer)
    assert max(float(rows.std()) for rows in theirs) > 1  # the models have something to differ in
    assert_equal_distributions(our_log_probabilities(model), theirs, columns(model, ids))
