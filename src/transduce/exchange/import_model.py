"""Imports a model from another program as a model directory."""

import logging
from importlib.resources import files
from pathlib import Path

from transduce.exchange.import_fairseq import is_fairseq, read_fairseq
from transduce.exchange.import_marian import is_marian, read_marian
from transduce.exchange.import_opus_mt import is_hugging_face, read_opus_mt
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.model_directory.config import Config, Weights
from transduce.model_directory.manifest import CARD
from transduce.model_directory.model import Model
from transduce.model_directory.writing import check_new_or_empty, write_new_model
from transduce.storage.checksums import checksums_of_files
from transduce.storage.nearby_paths import is_name_on_hub

_log = logging.getLogger("transduce")

TEMPLATE = files(__package__) / "templates" / "imported_model_card.md"


def import_model(
    directory: Path,
    out: Path,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Config:
    """Imports the model in `directory` as the new model directory `out`, and returns its config.

    The format of the model is detected from the files in `directory`. `source_language` and `target_language` override
    the languages that the model states. Raises ValueError, and writes nothing, if `out` is not empty, if `directory`
    contains no model in a known format, if a setting cannot be represented, or if files are missing or damaged.
    """
    check_new_or_empty(out)
    if not directory.is_dir():
        hint = ""
        if is_name_on_hub(directory):
            hint = f"; `hf download {directory} --local-dir {directory.name}` downloads it"
        raise ValueError(
            f"{directory} is not a folder; name one with a downloaded model of OPUS-MT, fairseq or Marian{hint}"
        )
    if is_hugging_face(directory):
        imported = read_opus_mt(directory)
    elif is_fairseq(directory):
        imported = read_fairseq(directory, (source_language, target_language))
    elif is_marian(directory):
        imported = read_marian(directory)
    else:
        raise ValueError(
            f"{directory} holds no model that can be imported: a folder of OPUS-MT has config.json with "
            "model.safetensors or pytorch_model.bin, one of fairseq a checkpoint .pt with dict.LANGUAGE.txt, one of "
            "Marian a .npz"
        )
    vocabulary = Vocabulary(source=imported.source.size, target=imported.target.size)
    _log.info(f"{directory} holds {imported.origin}")
    built = build_without_weights(imported.model, vocabulary)
    expected = {name: tuple(parameter.shape) for name, parameter in built.named_parameters()}
    shapes = {name: tuple(tensor.shape) for name, tensor in imported.weights.items()}
    if expected != shapes:
        names = sorted(name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name))
        raise ValueError(f"{directory}: the weights do not fit the settings: {', '.join(names[:5])}")
    languages = source_language or imported.languages[0], target_language or imported.languages[1]
    config = Config(
        model=imported.model,
        vocabulary=vocabulary,
        source_language=languages[0],
        target_language=languages[1],
        decoding=imported.decoding,
        weights=Weights(kind="imported", steps=()),
    )
    is_shared = imported.source.as_json() == imported.target.as_json()  # if true, one file serves both sides
    sides = imported.source, imported.source if is_shared else imported.target
    # The card lists the files that the model was read from.
    checksums = checksums_of_files(directory / name for name in imported.files)
    rows = "\n".join(f"| `{name}` | {entry['bytes']:,} | `{entry['sha256']}` |" for name, entry in checksums.items())
    card = TEMPLATE.read_text("utf-8").format(
        source=config.source_language or "source",
        target=config.target_language or "target",
        d_model=config.model.d_model,
        vocabulary=config.vocabulary,
        origin=imported.origin,
        folder=directory.resolve().name,
        rows=rows,
    )
    write_new_model(out, config, imported.weights, sides, {CARD: card})
    Model.read(out)  # raises if the model cannot be read back
    return config
