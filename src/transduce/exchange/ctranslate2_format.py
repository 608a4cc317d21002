"""Models in the format of CTranslate2, an engine in C++ for CPUs and GPUs."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.exchange.int8_rows import int8_rows
from transduce.exchange.representable import check_products
from transduce.exchange.transformer_weights import (
    TABLE_POSITIONS,
    AttentionMatrices,
    Linear,
    NetworkMatrices,
    NormWeights,
    TransformerWeights,
    position_tables,
    transformer_weights,
)
from transduce.model import FeedForward
from transduce.model.experts import FeedForwardSpec
from transduce.text.token_vocabulary import subwords_files

if TYPE_CHECKING:
    from transduce.exchange.ctranslate2_engine import CTranslate2Translator
    from transduce.model_directory import Model

__all__ = ["CONFIG_COPY", "MAX_POSITIONS", "WEIGHTS", "check", "import_ctranslate2", "open_engine", "write"]

MAX_POSITIONS = TABLE_POSITIONS
WEIGHTS = "model.bin"
CONFIG_COPY = "transduce.json"  # the config.json of the model directory; CTranslate2 has a config.json of its own


def import_ctranslate2() -> ModuleType:
    """Returns the package `ctranslate2`; raises ValueError where it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise ValueError("CTranslate2 is not installed: `pip install 'transduce[ctranslate2]'`") from None
    return ctranslate2


def check(model: "Model") -> None:
    """Raises ValueError where CTranslate2 cannot represent the model, with the option."""
    check_products(model, "CTranslate2")


def write(model: "Model", folder: Path, precision: str) -> None:
    """Writes `model.bin`, `config.json` and the vocabularies into `folder`; `precision` is float32, float16 or int8.

    The subwords and our settings of the model, `transduce.json`, are written too: with them the folder translates text.
    """
    specification = _specification(model, transformer_weights(model))
    if precision == "int8":
        _quantise(specification)
    specification.validate()
    specification.optimize(quantization="float16" if precision == "float16" else None)
    specification.save(str(folder))
    sides = model.source, model.target
    for name, side in zip(subwords_files(shared=sides[0] is sides[1]), sides, strict=True):
        side.save(folder / name)
    config = json.dumps(model.config.as_dictionary(), indent=2, ensure_ascii=False)
    (folder / CONFIG_COPY).write_text(config + "\n", "utf-8", newline="\n")


def open_engine(folder: Path, model: "Model") -> "CTranslate2Translator":
    """Returns the engine with the model that `write` has put into `folder`."""
    from transduce.exchange.ctranslate2_engine import CTranslate2Translator

    return CTranslate2Translator(folder, model.config, (model.source, model.target))


def _specification(model: "Model", weights: TransformerWeights) -> Any:
    """Returns the model as CTranslate2's own converters describe one."""
    import_ctranslate2()
    from ctranslate2.specs import transformer_spec

    spec = weights.spec
    shape = {
        "num_heads": weights.heads,
        "head_dim": None if weights.heads * weights.width == spec.d_model else weights.width,
        "pre_norm": spec.norm == "pre",
        "activation": _activation(spec.feed_forward),
    }
    encoder = transformer_spec.TransformerEncoderSpec(spec.encoder_layers, **shape)
    decoder = transformer_spec.TransformerDecoderSpec(spec.decoder_layers, **shape)
    # Copies, because CTranslate2 quantises arrays in place, and these are the memory of our model.
    encoder.embeddings[0].weight = weights.source_embedding.copy()
    decoder.embeddings.weight = weights.target_embedding.copy()
    tables = position_tables(model)
    encoder.position_encodings.encodings, decoder.position_encodings.encodings = tables
    decoder.start_from_zero_embedding = spec.first_input == "zeros"
    _set_linear(decoder.projection, [weights.readout])
    for part, norm in ((encoder, weights.encoder_norm), (decoder, weights.decoder_norm)):
        if norm is not None:
            _set_norm(part.layer_norm, norm)
    for layer, parts in zip(encoder.layer, weights.encoder, strict=True):
        _set_self_attention(layer.self_attention, parts.attention)
        _set_network(layer.ffn, parts.network)
    for layer, of_decoder in zip(decoder.layer, weights.decoder, strict=True):
        _set_self_attention(layer.self_attention, of_decoder.attention)
        _set_cross_attention(layer.attention, of_decoder.cross)
        _set_network(layer.ffn, of_decoder.network)
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    _set_vocabularies(specification, model)
    specification.config.layer_norm_epsilon = spec.norm_epsilon
    return specification


def _quantise(part: Any) -> None:
    """Stores all matrices as `int8_rows`. CTranslate2 itself uses all of int8, and overflows without VNNI."""
    from ctranslate2.specs.model_spec import LayerSpec

    if hasattr(part, "weight_scale"):
        part.weight, scales = int8_rows(part.weight)
        part.weight_scale = 1 / scales  # CTranslate2 divides by it
    for value in list(vars(part).values()):
        for layer in value if isinstance(value, list) else [value]:
            if isinstance(layer, LayerSpec):
                _quantise(layer)


def _activation(network: FeedForwardSpec) -> Any:
    """Returns CTranslate2's name of the activation."""
    from ctranslate2.specs.common_spec import Activation

    assert isinstance(network, FeedForward)
    return {"relu": Activation.RELU, "gelu": Activation.GELU, "swish": Activation.SWISH}[network.activation]


def _set_vocabularies(specification: Any, model: "Model") -> None:
    """Names the tokens and the symbols; no text of ours has an unknown token."""
    symbols = model.config.model.symbols
    source, target = model.source.vocabulary, model.target.vocabulary
    specification.register_source_vocabulary(source)
    specification.register_target_vocabulary(target)
    specification.config.unk_token = source[symbols.pad]
    specification.config.bos_token = specification.config.decoder_start_token = target[symbols.begin]
    specification.config.eos_token = target[symbols.end]
    specification.config.add_source_eos = True


def _set_self_attention(part: Any, attention: AttentionMatrices) -> None:
    _set_linear(part.linear[0], [attention.query, attention.key, attention.value])
    _set_linear(part.linear[1], [attention.output])
    _set_norm(part.layer_norm, attention.norm)


def _set_cross_attention(part: Any, attention: AttentionMatrices) -> None:
    _set_linear(part.linear[0], [attention.query])
    _set_linear(part.linear[1], [attention.key, attention.value])
    _set_linear(part.linear[2], [attention.output])
    _set_norm(part.layer_norm, attention.norm)


def _set_network(part: Any, network: NetworkMatrices) -> None:
    _set_linear(part.linear_0, [network.inner])
    _set_linear(part.linear_1, [network.outer])
    _set_norm(part.layer_norm, network.norm)


def _set_linear(part: Any, maps: Sequence[Linear]) -> None:
    """Sets a linear layer to maps of the same input, one after another."""
    part.weight = np.concatenate([linear.weight for linear in maps])
    if any(linear.bias is not None for linear in maps):
        part.bias = np.concatenate([linear.bias_or_zeros() for linear in maps])


def _set_norm(part: Any, norm: NormWeights) -> None:
    part.gamma, part.beta = norm.scale, norm.shift
