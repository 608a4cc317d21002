"""Models in the format of Hugging Face's `transformers`, without code of ours: Marian's classes or Pegasus'.

`MarianMTModel` has the layer normalisations of the paper (post-norm), `PegasusForConditionalGeneration` those of
pre-norm. Both have sinusoids of the layout sin | cos, to which the dimensions of `interleaved` positions are reordered;
other positions are written as a table.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from transduce.exchange.hugging_face_card import hugging_face_card
from transduce.exchange.hugging_face_config import MAX_POSITIONS, generation_config, has_one_matrix, hugging_face_config
from transduce.exchange.hugging_face_tokenizer import write_tokenizers
from transduce.exchange.representable import check_is_untagged, check_products, refusal
from transduce.exchange.transformer_weights import (
    Array,
    AttentionMatrices,
    Linear,
    NetworkMatrices,
    NormWeights,
    TransformerWeights,
    attentions_of,
    position_tables,
    transformer_weights,
)
from transduce.model import Sinusoidal
from transduce.storage.atomic import write_tensors
from transduce.text.moses_bpe import MosesBpe

if TYPE_CHECKING:
    from transduce.exchange.hugging_face_engine import HuggingFaceEngine
    from transduce.model_directory import Model

__all__ = ["MAX_POSITIONS", "check", "open_engine", "write"]

IMPOSSIBLE = -1e9  # logit of a row that fills the smaller vocabulary up

SIDES = ("encoder", "decoder")

Named = Iterator[tuple[str, Array]]


def check(model: "Model") -> None:
    """Raises ValueError where `transformers` cannot represent the model, with the option."""
    spec = check_products(model, "Hugging Face")
    check_is_untagged(model, "Hugging Face")
    if isinstance(model.source, MosesBpe) or isinstance(model.target, MosesBpe):
        fault = "its subwords are those of a model of fairseq, which no tokenizer there splits"
        raise refusal("Hugging Face", fault, "export it with `--to ctranslate2`")
    mixer, cross = attentions_of(spec)
    for name, attention in (("mixer", mixer), ("cross", cross)):
        if attention.heads * attention.d_k != spec.d_model or attention.d_k != attention.d_v:
            raise refusal(
                "Hugging Face",
                f"`model.{name}` has {attention.heads} heads with d_k {attention.d_k} and d_v {attention.d_v}, and "
                f"there both are d_model / heads, here {spec.d_model} / heads",
            )
    if mixer.heads != cross.heads:
        fault = f"`model.mixer.heads` is {mixer.heads} and `model.cross.heads` {cross.heads}; there both are one"
        raise refusal("Hugging Face", fault)


def write(model: "Model", folder: Path, precision: str) -> None:
    """Writes the model, its tokenizer and a model card; `AutoModelForSeq2SeqLM` and `AutoTokenizer` read them."""
    weights, tables = _with_their_positions(model)
    tensors = dict(_tensors(weights, tables))
    write_tensors({name: torch.from_numpy(array) for name, array in tensors.items()}, folder / "model.safetensors")
    for name, values in (
        ("config.json", hugging_face_config(model)),
        ("generation_config.json", generation_config(model)),
    ):
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", "utf-8", newline="\n")
    write_tokenizers(model, folder, len(position_tables(model)[0]))
    (folder / "README.md").write_text(hugging_face_card(model, _limits(weights, tables)), "utf-8", newline="\n")


def _limits(weights: TransformerWeights, tables: tuple[Array, Array] | None) -> str:
    """Returns what a reader of the folder has to know about `transformers`, in sentences; often nothing."""
    spec = weights.spec
    if tables is not None and spec.norm == "post":
        return (
            "`save_pretrained` of this class leaves out the table of positions: keep this folder, because a copy that\n"
            "is saved from the loaded model is another model.\n\n"
        )
    if spec.norm == "pre" and not has_one_matrix(spec):
        return "The model needs transformers 5 or newer; 4.57 fails.\n\n"
    return ""


def open_engine(folder: Path, model: "Model") -> "HuggingFaceEngine":
    """Returns the engine with the model that `write` has put into `folder`."""
    from transduce.exchange.hugging_face_engine import HuggingFaceEngine

    return HuggingFaceEngine(folder)


def _with_their_positions(model: "Model") -> tuple[TransformerWeights, tuple[Array, Array] | None]:
    """Returns weights and the position tables of source and target; None where Marian's class computes the table."""
    weights, tables = transformer_weights(model), position_tables(model)
    if weights.spec.positions == Sinusoidal(layout="paper-halves"):
        return weights, None if weights.spec.norm == "post" else tables
    if weights.spec.positions != Sinusoidal(layout="interleaved"):
        return weights, tables
    order = np.r_[0 : weights.spec.d_model : 2, 1 : weights.spec.d_model : 2]  # sin | cos
    source, target = (table[:, order].copy() for table in tables)
    return weights.reordered(order), None if weights.spec.norm == "post" else (source, target)


def _tensors(weights: TransformerWeights, tables: tuple[Array, Array] | None) -> Named:
    """Yields the weights under the names of `transformers`."""
    spec = weights.spec
    size = max(len(weights.source_embedding), len(weights.target_embedding))
    source = _with_rows(weights.source_embedding, size)
    if has_one_matrix(spec) or spec.norm == "pre":
        yield "model.shared.weight", source
    if not has_one_matrix(spec):
        target = _with_rows(weights.target_embedding, size)
        if spec.first_input == "zeros":
            target[spec.symbols.begin] = 0
        yield "model.encoder.embed_tokens.weight", source.copy()
        yield "model.decoder.embed_tokens.weight", target
        yield "lm_head.weight", _with_rows(weights.readout.weight, size)
    bias = np.full((1, size), IMPOSSIBLE, np.float32)
    bias[0, : len(weights.readout.weight)] = weights.readout.bias_or_zeros()
    yield "final_logits_bias", bias
    for number, table in enumerate(tables or ()):
        yield f"model.{SIDES[number]}.embed_positions.weight", table
    for side, norm in zip(SIDES, (weights.encoder_norm, weights.decoder_norm), strict=True):
        if norm is not None:
            yield from _norm(f"model.{side}.layer_norm", norm)
    for place, layer in enumerate(weights.encoder):
        yield from _attention(f"model.encoder.layers.{place}.self_attn", layer.attention)
        yield from _network(f"model.encoder.layers.{place}", layer.network)
    for place, decoder_layer in enumerate(weights.decoder):
        yield from _attention(f"model.decoder.layers.{place}.self_attn", decoder_layer.attention)
        yield from _attention(f"model.decoder.layers.{place}.encoder_attn", decoder_layer.cross)
        yield from _network(f"model.decoder.layers.{place}", decoder_layer.network)


def _attention(name: str, attention: AttentionMatrices) -> Named:
    for part in ("query", "key", "value"):
        yield from _linear(f"{name}.{part[0]}_proj", getattr(attention, part))
    yield from _linear(f"{name}.out_proj", attention.output)
    yield from _norm(f"{name}_layer_norm", attention.norm)


def _network(name: str, network: NetworkMatrices) -> Named:
    yield from _linear(f"{name}.fc1", network.inner)
    yield from _linear(f"{name}.fc2", network.outer)
    yield from _norm(f"{name}.final_layer_norm", network.norm)


def _linear(name: str, linear: Linear) -> Named:
    yield f"{name}.weight", linear.weight
    yield f"{name}.bias", linear.bias_or_zeros()


def _norm(name: str, norm: NormWeights) -> Named:
    yield f"{name}.weight", norm.scale
    yield f"{name}.bias", norm.shift


def _with_rows(matrix: Array, rows: int) -> Array:
    """Returns a copy of the matrix with `rows` rows, the missing ones zeros."""
    whole = np.zeros((rows, matrix.shape[1]), np.float32)
    whole[: len(matrix)] = matrix
    return whole
