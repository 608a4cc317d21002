"""Imports models of Marian: a `.npz` with its settings inside, and SentencePiece vocabularies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.exchange.imported_model import (
    ForeignTensors,
    ImportedModel,
    build_spec,
    nearest_decoding,
    refuse_settings,
    shared_number,
)
from transduce.exchange.marian_vocabulary import piece_file, read_vocabulary, vocabulary_files
from transduce.exchange.npz_reader import read_npz
from transduce.exchange.token_rows import ForeignVocabulary
from transduce.model import FeedForward, Transformer, Vocabulary
from transduce.recipe.recipe_values import LARGEST, parse_yaml
from transduce.storage.regular_files import read_regular_file

__all__ = ["is_marian", "read_marian"]

SETTINGS = "special:model.yml"
BEAM, EXPONENT = 12, 0.0  # Marian's defaults, where there is no decoder.yml
NORM_EPSILON = 1e-6

ALLOWED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-activation": ("swish", "relu"),  # Marian's gelu is x · σ(1.702 x)
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d",),
    "transformer-postprocess-top": ("",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-train-position-embeddings": (False,),
    "transformer-train-positions": (False,),
    "transformer-no-projection": (False,),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-pool": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-tied-layers": ([],),
    "transformer-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "input-types": ([], ["sequence"]),
    "output-omit-bias": (False,),
    "ulr": (False,),
    "right-left": (False,),
    "char-conv": (False,),
    **dict.fromkeys(("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all"), (False, True)),
}


def is_marian(directory: Path) -> bool:
    """Returns whether a folder holds a model of Marian."""
    return any(directory.glob("*.npz"))


def read_marian(directory: Path) -> ImportedModel:
    """Reads the model; raises ValueError for what it cannot represent, and for missing or damaged files."""
    decoder = _read_yaml(directory / "decoder.yml") if (directory / "decoder.yml").is_file() else {}
    path = _model_file(directory)
    arrays = dict(read_npz(path))
    settings, place = _settings(arrays.pop(SETTINGS, None), path), f"{path}: {SETTINGS}"
    refuse_settings(settings, ALLOWED, place)
    sizes = _sizes(settings, place)
    files = vocabulary_files(directory, decoder.get("vocabs"))
    source_size, target_size = _vocabulary_sizes(settings, place)
    source, target = read_vocabulary(files[0], source_size), read_vocabulary(files[1], target_size)
    tensors = ForeignTensors({name: torch.tensor(array) for name, array in arrays.items()}, str(path))
    weights, parts = _take_tables(tensors, settings, sizes["d_model"], source, target)
    model = build_spec(settings, sizes, parts, place)
    for side, count in (("encoder", sizes["encoder_layers"]), ("decoder", sizes["decoder_layers"])):
        for number in range(count):
            weights |= _take_layer(tensors, model, f"{side}_l{number + 1}_", f"{side}.{number}.")
    tensors.finish()
    pieces = [piece_file(directory, files[0], "source"), piece_file(directory, files[1], "target")]
    sides = [
        vocabulary.sentence_pieces(read_regular_file(piece))
        for vocabulary, piece in zip((source, target), pieces, strict=True)
    ]
    return ImportedModel(
        model,
        Vocabulary(source=sides[0].size, target=sides[1].size),
        weights,
        sides[0],
        sides[1],
        nearest_decoding(decoder.get("beam-size", BEAM), _exponent(decoder), str(directory / "decoder.yml")),
        (None, None),
        "a model of Marian",
        tuple(dict.fromkeys([path.name, *(file.name for file in (*files, *pieces))])),
    )


def _model_file(directory: Path) -> Path:
    """Returns the model of a folder; raises ValueError where there are several."""
    models = sorted(directory.glob("*.npz"))
    if len(models) > 1:
        raise ValueError(f"{directory} has several models, {', '.join(path.name for path in models)}: leave one")
    return models[0]


def _settings(content: NDArray[np.generic] | None, path: Path) -> dict[str, Any]:
    """Returns the settings that a model holds as bytes."""
    if content is None:
        raise ValueError(f"{path} lacks {SETTINGS}, the settings of a model of Marian")
    return _parse_yaml(content.tobytes().rstrip(b"\0"), f"{path}: {SETTINGS}")


def _read_yaml(path: Path) -> dict[str, Any]:
    return _parse_yaml(read_regular_file(path, LARGEST), str(path))


def _parse_yaml(content: bytes, place: str) -> dict[str, Any]:
    """Returns the mapping in YAML; raises ValueError with `place` for any other content."""
    if len(content) > LARGEST:
        raise ValueError(f"{place} has more than {LARGEST:,} bytes")
    values = parse_yaml(content, place=place)
    if not isinstance(values, dict):
        raise ValueError(f"{place} holds no settings")
    return values


def _sizes(settings: Mapping[str, Any], place: str) -> dict[str, int]:
    """Returns the sizes that `build_spec` needs."""
    widths = ["transformer-dim-ffn"]
    widths += ["transformer-decoder-dim-ffn"] if settings.get("transformer-decoder-dim-ffn") else []
    return {
        "d_model": shared_number(settings, ["dim-emb"], place),
        "d_ff": shared_number(settings, widths, place),
        "heads": shared_number(settings, ["transformer-heads"], place),
        "encoder_layers": shared_number(settings, ["enc-depth"], place),
        "decoder_layers": shared_number(settings, ["dec-depth"], place),
    }


def _vocabulary_sizes(settings: Mapping[str, Any], place: str) -> tuple[int, int]:
    """Returns the rows of the vocabularies of source and target."""
    sizes = settings.get("dim-vocabs")
    if not isinstance(sizes, list) or len(sizes) != 2:
        raise ValueError(f"{place}: `dim-vocabs` is {sizes!r}, and must be two sizes")
    named = {f"dim-vocabs.{number}": size for number, size in enumerate(sizes)}
    first, second = (shared_number(named, [name], place) for name in named)
    return first, second


def _exponent(decoder: Mapping[str, Any]) -> Any:
    """Returns the exponent of the length that `normalize` sets; without a value it is 1, and off it is 0."""
    value = decoder.get("normalize", EXPONENT)
    return float(value) if isinstance(value, bool) else value


def _take_tables(
    tensors: ForeignTensors,
    settings: Mapping[str, Any],
    d_model: int,
    source: ForeignVocabulary,
    target: ForeignVocabulary,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Takes embeddings and readout; returns them and what they say about the spec."""
    sizes = source.rows.size, target.rows.size
    all_tied = bool(settings.get("tied-embeddings-all"))
    shared, tied = all_tied or bool(settings.get("tied-embeddings-src")), all_tied or settings.get("tied-embeddings")
    if shared and source.names != target.names:
        raise ValueError(f"{source.place} and {target.place} differ, and the model has one embedding for both")
    if shared:
        weights = {"source_embedding.weight": source.rows.matrix(tensors.take("Wemb", sizes[0], d_model))}
    else:
        weights = {
            "source_embedding.weight": source.rows.matrix(tensors.take("encoder_Wemb", sizes[0], d_model)),
            "target_embedding.weight": target.rows.matrix(tensors.take("decoder_Wemb", sizes[1], d_model)),
        }
    if not tied:
        weights["readout.weight"] = target.rows.matrix(_output_matrix(tensors, sizes[1], d_model))
    weights["readout.bias"] = target.rows.bias(tensors.take("decoder_ff_logit_out_b", 1, sizes[1])[0])
    return weights, {
        "activation": settings.get("transformer-ffn-activation", "swish"),
        "embeddings": "shared" if shared else "separate",
        "readout": {"kind": "tied" if tied else "separate", "bias": True},
        "positions": {"kind": "sinusoidal", "layout": "halves"},
        "norm_epsilon": NORM_EPSILON,
        "first_input": "zeros",
    }


def _output_matrix(tensors: ForeignTensors, size: int, d_model: int) -> Tensor:
    """Returns the matrix of the readout, which versions of Marian store either way round."""
    if "decoder_ff_logit_out_Wt" in tensors:
        return tensors.take("decoder_ff_logit_out_Wt", size, d_model)
    return tensors.take("decoder_ff_logit_out_W", d_model, size).T.contiguous()


def _take_layer(tensors: ForeignTensors, model: Transformer, foreign: str, ours: str) -> dict[str, Tensor]:
    """Returns the weights of one layer."""
    assert isinstance(model.feed_forward, FeedForward)
    width, d_ff = model.d_model, model.feed_forward.d_ff
    attentions = {"mixer": "self", "cross": "context"} if ours.startswith("decoder") else {"mixer": "self"}
    weights: dict[str, Tensor] = {}
    for part, name in attentions.items():
        for projection, letters in {"query": "q", "key_value": "kv", "join": "o"}.items():
            taken = _take_linear(tensors, f"{foreign}{name}_", letters, width, width)
            weights |= _named(f"{ours}{part}.{projection}", *taken)
        weights |= _named(f"{ours}around_{part}.norm", *_take_norm(tensors, f"{foreign}{name}_Wo", width))
    weights |= _named(f"{ours}feed_forward.inner", *_take_linear(tensors, f"{foreign}ffn_", "1", width, d_ff))
    weights |= _named(f"{ours}feed_forward.outer", *_take_linear(tensors, f"{foreign}ffn_", "2", d_ff, width))
    return weights | _named(f"{ours}around_feed_forward.norm", *_take_norm(tensors, f"{foreign}ffn_ffn", width))


def _take_linear(tensors: ForeignTensors, prefix: str, parts: str, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """Returns the matrix and the bias of several maps side by side, W and b with each letter of `parts`.

    Marian multiplies rows by matrices, so that its matrices are transposed.
    """
    matrices = [tensors.take(f"{prefix}W{part}", inputs, outputs).T for part in parts]
    return torch.cat(matrices).contiguous(), torch.cat(
        [tensors.take(f"{prefix}b{part}", 1, outputs)[0] for part in parts]
    )


def _take_norm(tensors: ForeignTensors, prefix: str, width: int) -> tuple[Tensor, Tensor]:
    """Returns gain and bias of a norm."""
    return tensors.take(f"{prefix}_ln_scale", 1, width)[0], tensors.take(f"{prefix}_ln_bias", 1, width)[0]


def _named(name: str, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    return {f"{name}.weight": weight, f"{name}.bias": bias}
