"""Models with random weights, of which every variant of an export differs from the others."""

from typing import Any

import torch

from transduce.model import Transformer, TransformerModel, Vocabulary
from transduce.model_directory import Config, Model, Weights
from transduce.search import Decoding
from transduce.settings import merged, validated
from transduce.text.subwords import Bpe, Subwords, WordPiece

LINES = [
    "the ant met a bee near the old mill",
    "die Ameise traf eine Biene an der alten Mühle",
    "zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "the quick brown fox jumps over the lazy dog, doesn't it?",
]

SPEC: dict[str, Any] = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "mixer": {"kind": "attention", "heads": 3, "d_k": 8, "d_v": 8},
    "cross": {"kind": "attention", "heads": 3, "d_k": 8, "d_v": 8},
    "feed_forward": {"kind": "feed_forward", "d_ff": 40},
}


def noisy_model(changes: dict[str, Any], subwords: Bpe | WordPiece | None = None) -> Model:
    """Returns a model whose weights, biases and norms are random; vocabularies differ where they are not shared."""
    spec = validated(Transformer, merged(SPEC, changes), place="the test")
    source = target = Subwords.learn(LINES * 3, subwords or Bpe(size=300))
    if spec.embeddings == "separate":
        target = Subwords.learn(LINES[2:] * 3, Bpe(size=290))
    vocabulary = Vocabulary(source=source.size, target=target.size)
    torch.manual_seed(1)
    module = spec.build(vocabulary).eval()
    assert isinstance(module, TransformerModel)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.15)
    languages = {"source_language": "en", "target_language": "de"}
    config = Config(
        model=spec,
        vocabulary=vocabulary,
        weights=Weights(kind="last", steps=(1,)),
        decoding=Decoding(beam=3, extra_length=12),
        **languages,
    )
    return Model(config, module, source, target)
