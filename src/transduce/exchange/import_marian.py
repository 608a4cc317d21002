"""Imports Marian models, which consist of a `.npz` file with weights and settings, and of vocabularies.

A vocabulary is a YAML file or a SentencePiece model.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch

from transduce.exchange import imported_model as foreign
from transduce.exchange.foreign_formats import foreign_format
from transduce.exchange.imported_model import ForeignTensors, ForeignVocabulary, ImportedModel
from transduce.exchange.weight_files import read_npz
from transduce.recipe.recipe_values import LARGEST, parse_yaml
from transduce.storage.regular_files import read_regular_file
from transduce.text.sentence_pieces import pieces_of_model

SETTINGS = "special:model.yml"
BEAM, EXPONENT = 12, 0.0  # Marian's defaults, if decoder.yml does not set them
NORM_EPSILON = 1e-6

FORMAT = foreign_format("marian")
_ESCAPE = re.compile(r"\\(?:U(?P<digits>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|.)")


def is_marian(directory: Path) -> bool:
    """Returns whether a folder contains a Marian model."""
    return any(directory.glob("*.npz"))


def read_marian(directory: Path) -> ImportedModel:
    """Reads the Marian model in a folder.

    Raises ValueError if a setting cannot be represented, or if files are missing or damaged.
    """
    decoder, decoder_file = dict[str, Any](), directory / "decoder.yml"
    if decoder_file.is_file():
        decoder = _parse_yaml(read_regular_file(decoder_file, LARGEST), str(decoder_file))
    path, *others = sorted(directory.glob("*.npz"))
    if others:
        names = ", ".join(model.name for model in (path, *others))
        raise ValueError(f"{directory} has several models, {names}: leave one")
    arrays, place = read_npz(path), f"{path}: {SETTINGS}"
    if SETTINGS not in arrays:
        raise ValueError(f"{path} lacks {SETTINGS}, the settings of a model of Marian")
    settings = _parse_yaml(arrays.pop(SETTINGS).tobytes().rstrip(b"\0"), place)
    further = ["transformer-decoder-dim-ffn"] if settings.get("transformer-decoder-dim-ffn") else []
    sizes = foreign.check_settings(settings, FORMAT, place, {"d_ff": further})
    # decoder.yml names the vocabularies of source and target. If it does not, the folder must have one for both.
    vocabularies = decoder.get("vocabs")
    file_names = [Path(str(name)).name for name in vocabularies] if isinstance(vocabularies, list) else []
    if not file_names:
        paths = sorted(directory.glob("*vocab*.yml")) or sorted(directory.glob("*.spm"))
        file_names = [path.name for path in paths] * 2
    if len(file_names) != 2:
        raise ValueError(
            f"{directory} does not name the vocabularies of source and target: write decoder.yml with "
            "`vocabs: [SOURCE, TARGET]`"
        )
    files = [directory / name for name in file_names]
    vocabulary_sizes = settings.get("dim-vocabs")
    if not isinstance(vocabulary_sizes, list) or len(vocabulary_sizes) != 2:
        raise ValueError(f"{place}: `dim-vocabs` is {vocabulary_sizes!r}, and must be two sizes")
    named = {f"dim-vocabs.{number}": size for number, size in enumerate(vocabulary_sizes)}
    rows = [foreign.shared_number(named, [name], place) for name in named]
    source, target = (read_vocabulary(file, size) for file, size in zip(files, rows, strict=True))
    tensors = ForeignTensors({name: torch.tensor(array) for name, array in arrays.items()}, str(path))
    all_tied = bool(settings.get("tied-embeddings-all"))
    shared, tied = all_tied or bool(settings.get("tied-embeddings-src")), all_tied or settings.get("tied-embeddings")
    if shared and source.names != target.names:
        raise ValueError(f"{source.place} and {target.place} differ, and the model has one embedding for both")
    d_model, readout = sizes["d_model"], None
    if not tied and "decoder_ff_logit_out_Wt" in tensors:  # versions of Marian store it transposed or not
        readout = tensors.take("decoder_ff_logit_out_Wt", target.size, d_model)
    elif not tied:
        readout = tensors.take("decoder_ff_logit_out_W", d_model, target.size).T.contiguous()
    weights, spec = foreign.take_tables(
        tensors,
        (source, target),
        d_model,
        [["Wemb"]] if shared else [["encoder_Wemb"], ["decoder_Wemb"]],
        readout,
        tensors.take("decoder_ff_logit_out_b", 1, target.size)[0],
    )
    positions = {"kind": "sinusoidal", "layout": "halves"}
    spec |= {"positions": positions, "norm_epsilon": NORM_EPSILON, "first_input": "zeros"}
    activation = settings.get("transformer-ffn-activation", "swish")
    model, layers = foreign.take_model(tensors, settings, sizes, spec, activation, FORMAT.layers, place)
    pieces = [_piece_file(directory, files[0], "source"), _piece_file(directory, files[1], "target")]
    sides = [
        vocabulary.sentence_pieces(read_regular_file(piece))
        for vocabulary, piece in zip((source, target), pieces, strict=True)
    ]
    exponent = decoder.get("normalize", EXPONENT)
    if isinstance(exponent, bool):  # `normalize` without a value means 1
        exponent = float(exponent)
    return ImportedModel(
        model,
        weights | layers,
        sides[0],
        sides[1],
        foreign.nearest_decoding(decoder.get("beam-size", BEAM), exponent, str(decoder_file)),
        (None, None),
        "a model of Marian",
        tuple(dict.fromkeys([path.name, *(file.name for file in (*files, *pieces))])),
    )


def _parse_yaml(content: bytes, place: str) -> dict[str, Any]:
    """Parses a YAML mapping; raises ValueError, naming `place`, for any other content."""
    if len(content) > LARGEST:
        raise ValueError(f"{place} has more than {LARGEST:,} bytes")
    return foreign.settings_in(parse_yaml(content, place=place), place)


def read_vocabulary(path: Path, size: int) -> ForeignVocabulary:
    """Reads the vocabulary of a model with `size` rows. Marian has neither a padding symbol nor BOS."""
    if path.suffix == ".spm":
        pieces = pieces_of_model(read_regular_file(path), str(path))
        ids = {piece: row for row, piece in enumerate(pieces)}
    else:  # YAML as Marian writes it: each line has a token, which may be quoted, and its id
        ids = {}
        for number, line in enumerate(read_regular_file(path).split(b"\n"), start=1):
            try:
                text = line.decode("utf-8").strip()
                if not text or text == "---":
                    continue
                token, row = _parse_line(text)
            except ValueError:
                token, row = "", 0
            if not token or token in ids:
                raise ValueError(f"{path}, line {number}: this is not a token with an id, or the token is there twice")
            ids[token] = row
    if "</s>" not in ids:
        raise ValueError(f"{path} lacks the token </s>")
    return ForeignVocabulary.of(ids, size, pad=None, begin=ids["</s>"], end=ids["</s>"], place=str(path))


def _parse_line(text: str) -> tuple[str, int]:
    """Splits a line of a vocabulary into a token and its id; raises ValueError if the line has a different form."""
    quoted, _, row = (part.strip() for part in text.rpartition(":"))
    if len(row) > 10 or not (row.isascii() and row.isdigit()):
        raise ValueError(row)
    if quoted.startswith('"'):
        # JSON does not have the eight-digit escape, which is decoded here. `json.loads` decodes all other escapes.
        plain = _ESCAPE.sub(lambda found: chr(int(found["digits"], 16)) if found["digits"] else found.group(), quoted)
        return str(json.loads(plain)), int(row)
    is_single = len(quoted) > 1 and quoted[0] == quoted[-1] == "'"
    return quoted[1:-1].replace("''", "'") if is_single else quoted, int(row)


def _piece_file(directory: Path, vocabulary: Path, side: str) -> Path:
    """Returns the path of the SentencePiece model of a side.

    This is the vocabulary itself if it is an `.spm` file, and otherwise `source.spm` or `target.spm`. Raises ValueError
    if the file does not exist.
    """
    path = vocabulary if vocabulary.suffix == ".spm" else directory / f"{side}.spm"
    if not path.is_file():
        raise ValueError(
            f"{directory} has no {path.name}: models whose text is split by other programs are not imported"
        )
    return path
