"""Small models with random weights for exchange: no size equals another, no bias is zero, no norm is one."""

from pathlib import Path
from typing import Any

import torch

from transduce.exchange.export_model import with_banned_tokens
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.config import Config, Weights
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model
from transduce.settings import merged, validated
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords

TEXT = ["the cat sat on the mat", "a dog and a bird sing", "Zwei Kinder spielen im Garten", "die Katze schläft"] * 3

# One number of heads, d_k = d_v = d_model / heads: what Hugging Face and Marian can represent too.
PLAIN = {
    "kind": "transformer",
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "mixer": {"kind": "attention", "heads": 3, "d_k": 8, "d_v": 8},
    "cross": {"kind": "attention", "heads": 3, "d_k": 8, "d_v": 8},
    "feed_forward": {"kind": "feed_forward", "d_ff": 40},
    "dropout": 0.0,
}
UNEQUAL = {
    "mixer": {"heads": 3, "d_k": 5, "d_v": 6},
    "cross": {"heads": 2, "d_k": 7, "d_v": 4},
}
SEPARATE = {"embeddings": "separate"}


def spec_of(*changes: dict[str, Any]) -> Transformer:
    """Returns the settings of `PLAIN` with changes."""
    values: dict[str, Any] = PLAIN
    for change in changes:
        values = merged(values, change)
    return validated(Transformer, values, place="a test")


def write_banning_model(run: Path, directory: Path) -> Path:
    """Writes the model of `run` with the bias that bans tokens, so that every engine has its log-probabilities."""
    model = with_banned_tokens(Model.read(run))
    values = merged(model.config.model.as_dictionary(), {"readout": {"bias": True}})
    config = model.config.model_copy(update={"model": validated(Transformer, values, place="a test")})
    files = {"README.md": "", "recipe.yaml": "{}"}
    write_model(directory, config, weights_of(model.module), (model.source, model.target), files)
    return directory


def write_random_model(directory: Path, spec: Transformer, seed: int = 1, end: float = 0.0) -> Path:
    """Writes a model directory with noisy weights; with separate embeddings the sides have different vocabularies.

    `end` raises the logit of the end symbol, with one embedding for both sides and the norm last.
    """
    source = target = Subwords.learn(TEXT, Bpe(size=300))
    if spec.embeddings == "separate":
        target = Subwords.learn(TEXT[2:4], Bpe(size=281))
    vocabulary = Vocabulary(source=source.size, target=target.size)
    torch.manual_seed(seed)
    module = spec.build(vocabulary)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        if end:
            embedding = module.get_parameter("source_embedding.weight")[spec.symbols.end]
            bias = module.get_parameter(f"decoder.{spec.decoder_layers - 1}.around_feed_forward.norm.bias")
            bias += end * embedding / embedding.square().sum()
    config = Config(
        model=spec,
        vocabulary=vocabulary,
        source_language="en",
        target_language="de",
        decoding={"beam": 3, "length_penalty": 0.6, "extra_length": 5},
        weights=Weights(kind="last", steps=(7,)),
    )
    write_model(directory, config, weights_of(module), (source, target), {"README.md": "", "recipe.yaml": "{}"})
    return directory
