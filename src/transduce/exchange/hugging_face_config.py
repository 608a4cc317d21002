"""The settings of a model as the JSON files of Hugging Face's `transformers`."""

from typing import TYPE_CHECKING, Any

from transduce.exchange.length_power import length_power
from transduce.exchange.transformer_weights import TABLE_POSITIONS, position_tables
from transduce.model import FeedForward, Symbols, Tied, Transformer
from transduce.translation.engine import SearchRules

if TYPE_CHECKING:
    from transduce.model_directory import Model

__all__ = ["MAX_POSITIONS", "generation_config", "has_one_matrix", "hugging_face_config"]

MAX_POSITIONS = TABLE_POSITIONS

CLASSES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
"""The type of model and the class, by the place of the layer normalisation."""


def has_one_matrix(spec: Transformer) -> bool:
    """Whether one matrix is the embedding of both sides and the projection before the softmax."""
    return spec.embeddings == "shared" and isinstance(spec.readout, Tied) and spec.first_input == "symbol"


def hugging_face_config(model: "Model") -> dict[str, Any]:
    """Returns the content of `config.json`."""
    spec, vocabulary = model.config.model, model.config.vocabulary
    assert isinstance(spec, Transformer)
    assert isinstance(spec.feed_forward, FeedForward)
    size = max(vocabulary.source, vocabulary.target)
    kind, architecture = CLASSES[spec.norm]
    layers = {"encoder_layers": spec.encoder_layers, "decoder_layers": spec.decoder_layers}
    of_both = {"attention_heads": spec.cross.heads, "ffn_dim": spec.feed_forward.d_ff, "layerdrop": 0.0}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in of_both.items()}
    return {
        "architectures": [architecture],
        "model_type": kind,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "d_model": spec.d_model,
        **layers,
        **sides,
        "activation_function": spec.feed_forward.activation,
        "dropout": spec.dropout,
        "attention_dropout": spec.cross.dropout,
        "activation_dropout": spec.feed_forward.dropout,
        "max_position_embeddings": len(position_tables(model)[0]),
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": has_one_matrix(spec),
        "tie_word_embeddings": has_one_matrix(spec),
        "is_encoder_decoder": True,
        **_symbol_ids(spec.symbols),
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def generation_config(model: "Model") -> dict[str, Any]:
    """Returns the content of `generation_config.json`: the search of the model, with the nearest length penalty."""
    symbols, decoding = model.config.model.symbols, model.config.decoding
    return {
        "num_beams": decoding.beam,
        "length_penalty": length_power(decoding.length_penalty),
        "max_length": min(512, len(position_tables(model)[0])),
        "min_new_tokens": 1,  # `SearchRules.banned_first`
        "suppress_tokens": list(SearchRules.of(symbols, model.target).banned),
        **_symbol_ids(symbols),
    }


def _symbol_ids(symbols: Symbols) -> dict[str, int]:
    """Returns the tokens of the symbols under the names of `transformers`."""
    return {
        "pad_token_id": symbols.pad,
        "bos_token_id": symbols.begin,
        "eos_token_id": symbols.end,
        "decoder_start_token_id": symbols.begin,
    }
