"""Imports models in Hugging Face's Marian format, in which OPUS-MT publishes its models."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from transduce.exchange import imported_model as foreign
from transduce.exchange.foreign_formats import foreign_format
from transduce.exchange.imported_model import ForeignTensors, ForeignVocabulary, ImportedModel
from transduce.exchange.weight_files import read_checkpoint
from transduce.model.embedding import sinusoids
from transduce.settings import parse_json
from transduce.storage.regular_files import read_regular_file

WEIGHTS = ("model.safetensors", "pytorch_model.bin")

FORMAT = foreign_format("hugging_face")
NAME = re.compile(r"opus-mt-(?:tc-(?:base|big)-)?([a-zA-Z]+)-([a-zA-Z]+)$")
MAX_CONFIG_BYTES = 2**24


def is_hugging_face(directory: Path) -> bool:
    """Returns whether a folder contains a model in Hugging Face's format, whatever its architecture."""
    return (directory / "config.json").is_file() and any((directory / name).is_file() for name in WEIGHTS)


def read_opus_mt(directory: Path) -> ImportedModel:
    """Reads the OPUS-MT model in a folder.

    Raises ValueError if a setting cannot be represented, or if files are missing or damaged.
    """
    place = str(directory / "config.json")
    config = _read_json(directory / "config.json")
    if (directory / "manifest.json").exists():
        raise ValueError(f"{directory} is a model directory of transduce already: use it as it is")
    if config.get("model_type") != "marian":
        raise ValueError(f"{place}: `model_type` is {config.get('model_type')!r}; only 'marian' can be imported")
    settings = {**FORMAT.defaults, **config}
    sizes = foreign.check_settings(settings, FORMAT, place, {})
    weights_name = next(name for name in WEIGHTS if (directory / name).is_file())
    weights_file = directory / weights_name
    if weights_file.suffix == ".bin":
        loaded = read_checkpoint(weights_file, lambda value: value)[1]
    else:
        try:
            loaded = load_file(weights_file)
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"{weights_file} holds no weights, or is damaged: {error}") from None
    tensors = ForeignTensors(loaded, str(weights_file))
    # Both sides share one vocabulary, unless there is a second file for the target.
    size = foreign.shared_number(settings, ["vocab_size"], place)
    target_file = directory / "target_vocab.json"
    if settings["share_encoder_decoder_embeddings"] or not target_file.is_file():
        source = target = _vocabulary(directory / "vocab.json", size, settings)
    else:
        target_size = size
        if settings.get("decoder_vocab_size") is not None:
            target_size = foreign.shared_number(settings, ["decoder_vocab_size"], place)
        source = _vocabulary(directory / "vocab.json", size, {})
        target = _vocabulary(target_file, target_size, settings)
    weights, spec = _take_tables(tensors, settings, (source, target))
    activation = settings["activation_function"]
    activation = "swish" if activation == "silu" else activation
    model, layers = foreign.take_model(tensors, settings, sizes, spec, activation, FORMAT.layers, place)
    source_side = source.sentence_pieces(read_regular_file(directory / "source.spm"))
    target_side = target.sentence_pieces(read_regular_file(directory / "target.spm"))
    files = ("config.json", weights_name, "vocab.json", "target_vocab.json", "source.spm", "target.spm")
    # The search settings are the closest to those of the model. The default beam size is 4, as in OPUS-MT.
    path, chosen = directory / "generation_config.json", dict(settings)
    if path.is_file():
        chosen |= _read_json(path)
    else:
        path = directory / "config.json"
    beam, exponent = chosen.get("num_beams"), chosen.get("length_penalty")
    return ImportedModel(
        model,
        weights | layers,
        source_side,
        target_side,
        foreign.nearest_decoding(4 if beam is None else beam, 1.0 if exponent is None else exponent, str(path)),
        _languages(directory, settings),
        "a model in Hugging Face's Marian format",
        tuple(name for name in files if (directory / name).is_file()),
    )


def _vocabulary(path: Path, size: int, settings: Mapping[str, Any]) -> ForeignVocabulary:
    """Reads a vocabulary for a model with `size` rows.

    `settings` contains the ids of the symbols; it is empty for the source if both sides have their own vocabulary.
    """
    ids = _read_json(path)
    for symbol in ("</s>", "<unk>", "<pad>"):
        if type(ids.get(symbol)) is not int:
            raise ValueError(f"{path} lacks the token {symbol}")
    pad, end = ids["<pad>"], ids["</s>"]
    for name, token in (("pad_token_id", pad), ("eos_token_id", end)):
        if settings.get(name, token) != token:
            raise ValueError(f"{path} has the id {token} where `{name}` of config.json is {settings[name]!r}")
    begin = settings.get("decoder_start_token_id", pad)
    if type(begin) is not int:
        raise ValueError(f"{path.parent / 'config.json'}: `decoder_start_token_id` is {begin!r}, and must be a number")
    return ForeignVocabulary.of(ids, size, pad=pad, begin=begin, end=end, place=str(path))


def _take_tables(
    tensors: ForeignTensors, settings: Mapping[str, Any], sides: tuple[ForeignVocabulary, ForeignVocabulary]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Takes the embeddings, the readout and the position tables from the tensors.

    Returns the weights, and the model settings that follow from them.
    """
    d_model, size = settings["d_model"], sides[1].size
    names = ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
    embeddings = [names] if settings["share_encoder_decoder_embeddings"] else [[names[1]], [names[2]]]
    readout = None
    if settings["tie_word_embeddings"]:
        embeddings[-1].append("lm_head.weight")
    else:
        readout = tensors.take("lm_head.weight", size, d_model)
    bias = tensors.take("final_logits_bias", 1, size)[0] if "final_logits_bias" in tensors else None
    weights, spec = foreign.take_tables(tensors, sides, d_model, embeddings, readout, bias)
    # The tables of positions are sinusoids in one of two layouts, or learned.
    tables = {}
    for side, part in (("source", "encoder"), ("target", "decoder")):
        if (name := f"model.{part}.embed_positions.weight") in tensors:
            tables[side] = tensors.take(name, tensors.shape(name)[0], d_model)
    for layout in ("paper-halves", "halves"):
        if all(torch.allclose(table, sinusoids(len(table), d_model, layout), atol=1e-4) for table in tables.values()):
            positions: dict[str, Any] = {"kind": "sinusoidal", "layout": layout}
            break
    else:
        max_positions = min(map(len, tables.values()))
        positions = {"kind": "learned", "max_positions": max_positions}
        for side, table in tables.items():
            weights[f"{side}_embedding.positions.weight"] = table[:max_positions].clone()
    return weights, {**spec, "positions": positions}


def _languages(directory: Path, settings: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the languages from the settings of the tokeniser or the name of the model; (None, None) if unknown."""
    path = directory / "tokenizer_config.json"
    values = _read_json(path) if path.is_file() else {}
    match = values.get("source_lang"), values.get("target_lang")
    if all(isinstance(language, str) and language for language in match):
        return match
    for name in (str(settings.get("_name_or_path", "")), directory.resolve().name):
        if named := NAME.search(name):
            return named[1], named[2]
    return None, None


def _read_json(path: Path) -> dict[str, Any]:
    return foreign.settings_in(parse_json(read_regular_file(path, MAX_CONFIG_BYTES), place=str(path)), str(path))
