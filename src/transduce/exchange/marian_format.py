"""Models in the format of Marian, an engine in C++, whose architecture is that of the preset `released-2017`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.exchange.length_power import length_power
from transduce.exchange.representable import check_products, refusal
from transduce.exchange.transformer_weights import (
    Array,
    AttentionMatrices,
    Linear,
    NetworkMatrices,
    NormWeights,
    TransformerWeights,
    attentions_of,
    transformer_weights,
)
from transduce.model import FeedForward, Sinusoidal, Tied, Transformer
from transduce.text.token_vocabulary import subwords_files

if TYPE_CHECKING:
    from transduce.exchange.marian_engine import MarianEngine
    from transduce.model_directory import Model
    from transduce.text.token_vocabulary import TokenVocabulary

__all__ = ["MAX_POSITIONS", "MODEL", "check", "marian_tokens", "open_engine", "vocabulary_files", "write"]

MAX_POSITIONS = None  # Marian computes the positions of any sentence
MODEL = "model.npz"
NORM_EPSILON = 1e-6  # fixed in Marian
SETTINGS = "special:model.yml"
VERSION = "v1.12.0"  # of Marian, whose settings these are

Named = Iterator[tuple[str, Array]]


def check(model: "Model") -> None:
    """Raises ValueError where Marian cannot represent the model, with the option."""
    spec = check_products(model, "Marian")
    mixer, cross = attentions_of(spec)
    required = [
        ("model.norm", spec.norm, "post"),
        ("model.norm_epsilon", spec.norm_epsilon, NORM_EPSILON),
        ("model.positions", spec.positions, Sinusoidal(layout="halves")),
        ("model.first_input", spec.first_input, "zeros"),
        ("model.cross.heads", cross.heads, mixer.heads),
    ]
    if isinstance(spec.feed_forward, FeedForward) and spec.feed_forward.activation == "gelu":
        raise refusal("Marian", "`model.feed_forward.activation` is gelu, which is another function there", "use swish")
    for name, attention in (("mixer", mixer), ("cross", cross)):
        required += [
            (f"model.{name}.d_k", attention.d_k, spec.d_model // attention.heads),
            (f"model.{name}.d_v", attention.d_v, spec.d_model // attention.heads),
        ]
    for name, value, needed in required:
        if value != needed:
            fault = f"`{name}` is {value!r} and must be {needed!r}"
            raise refusal("Marian", fault, "the preset `released-2017` has the architecture of Marian")


def write(model: "Model", folder: Path, precision: str) -> None:
    """Writes `model.npz`, the vocabularies, `decoder.yml` for `marian-decoder`, and our subwords."""
    weights = transformer_weights(model)
    arrays: dict[str, Any] = dict(_arrays(weights))
    arrays[SETTINGS] = np.frombuffer(json.dumps(_settings(weights)).encode() + b"\0", np.int8)  # JSON is YAML
    np.savez(folder / MODEL, **arrays)
    sides, files = (model.source, model.target), vocabulary_files(model)
    for name, file, side in zip(subwords_files(shared=sides[0] is sides[1]), files, sides, strict=True):
        side.save(folder / name)
        (folder / file).write_text(_vocabulary(marian_tokens(model, side)), "utf-8", newline="\n")
    decoder = {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": list(files),
        "beam-size": model.config.decoding.beam,
        "normalize": length_power(model.config.decoding.length_penalty),
        "max-length-factor": 3,
    }
    (folder / "decoder.yml").write_text(json.dumps(decoder, indent=2) + "\n", "utf-8", newline="\n")


def open_engine(folder: Path, model: "Model") -> "MarianEngine":
    """Returns the engine with the model that `write` has put into `folder`."""
    from transduce.exchange.marian_engine import MarianEngine

    return MarianEngine(folder, model)


def vocabulary_files(model: "Model") -> tuple[str, str]:
    """Returns the names of the vocabularies of source and target."""
    return ("vocab.yml",) * 2 if model.source is model.target else ("source.vocab.yml", "target.vocab.yml")


def marian_tokens(model: "Model", side: "TokenVocabulary") -> list[str]:
    """Returns the strings of a side by id; the symbols have Marian's names, and `<unk>` is pad where no token is it."""
    symbols, strings = model.config.model.symbols, list(side.vocabulary)
    strings[symbols.pad] = "<pad>" if "<unk>" in strings else "<unk>"
    strings[symbols.begin], strings[symbols.end] = "<s>", "</s>"
    return strings


def _vocabulary(strings: list[str]) -> str:
    """Returns the file of a vocabulary: a token and its id on each line.

    Letters beyond 16 bits are escaped as in YAML, whose readers refuse the surrogate pairs of JSON.
    """
    quoted = (
        "".join(f"\\U{ord(letter):08x}" if letter > "\uffff" else json.dumps(letter)[1:-1] for letter in string)
        for string in strings
    )
    return "".join(f'"{string}": {token}\n' for token, string in enumerate(quoted))


def _settings(weights: TransformerWeights) -> dict[str, Any]:
    """Returns the settings that Marian reads from the model file."""
    spec = weights.spec
    assert isinstance(spec.feed_forward, FeedForward)
    return {
        "type": "transformer",
        "version": VERSION,
        "dim-emb": spec.d_model,
        "dim-vocabs": [len(weights.source_embedding), len(weights.target_embedding)],
        "enc-depth": spec.encoder_layers,
        "dec-depth": spec.decoder_layers,
        "transformer-heads": weights.heads,
        "transformer-dim-ffn": spec.feed_forward.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": spec.feed_forward.activation,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-no-projection": False,
        "transformer-train-position-embeddings": False,
        "transformer-tied-layers": [],
        "transformer-guided-alignment-layer": "last",
        "tied-embeddings-all": is_shared(spec) and is_tied(spec),
        "tied-embeddings-src": is_shared(spec),
        "tied-embeddings": is_tied(spec),
        "skip": False,
        "layer-normalization": False,
        "right-left": False,
        "input-types": [],
        "ulr": False,
    }


def is_shared(spec: Transformer) -> bool:
    """Whether source and target have one embedding matrix."""
    return spec.embeddings == "shared"


def is_tied(spec: Transformer) -> bool:
    """Whether the projection before the softmax is the embedding matrix of the target."""
    return isinstance(spec.readout, Tied)


def _arrays(weights: TransformerWeights) -> Named:
    """Yields the weights under the names of Marian, which multiplies rows by matrices."""
    if is_shared(weights.spec):
        yield "Wemb", weights.source_embedding
    else:
        yield "encoder_Wemb", weights.source_embedding
        yield "decoder_Wemb", weights.target_embedding
    if not is_tied(weights.spec):
        yield "decoder_ff_logit_out_W", np.ascontiguousarray(weights.readout.weight.T)
    yield "decoder_ff_logit_out_b", weights.readout.bias_or_zeros()[None]
    for number, layer in enumerate(weights.encoder, start=1):
        yield from _attention(f"encoder_l{number}_self", layer.attention)
        yield from _network(f"encoder_l{number}_ffn", layer.network)
    for number, decoder_layer in enumerate(weights.decoder, start=1):
        yield from _attention(f"decoder_l{number}_self", decoder_layer.attention)
        yield from _attention(f"decoder_l{number}_context", decoder_layer.cross)
        yield from _network(f"decoder_l{number}_ffn", decoder_layer.network)


def _attention(name: str, attention: AttentionMatrices) -> Named:
    for part in ("query", "key", "value", "output"):
        yield from _linear(name, part[0], getattr(attention, part))
    yield from _norm(f"{name}_Wo", attention.norm)


def _network(name: str, network: NetworkMatrices) -> Named:
    yield from _linear(name, "1", network.inner)
    yield from _linear(name, "2", network.outer)
    yield from _norm(f"{name}_ffn", network.norm)


def _linear(name: str, part: str, linear: Linear) -> Named:
    yield f"{name}_W{part}", np.ascontiguousarray(linear.weight.T)
    yield f"{name}_b{part}", linear.bias_or_zeros()[None]


def _norm(name: str, norm: NormWeights) -> Named:
    yield f"{name}_ln_scale", norm.scale[None]
    yield f"{name}_ln_bias", norm.shift[None]
