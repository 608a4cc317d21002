"""A model directory: the whole of a model, written atomically and read only when every byte is as it was written."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import load, save_file
from torch import Tensor

from transduce.corpus import subwords_files
from transduce.durable import replace, write_text
from transduce.model import ModelSpec, TranslationModel, Vocabulary
from transduce.search import Decoding
from transduce.settings import Spec, validated
from transduce.text.subwords import Subwords

__all__ = ["Config", "Model", "Weights", "verify", "weights_of", "write_model", "write_recipe"]

VERSION: Literal[1] = 1
CONFIG, WEIGHTS, MANIFEST, RECIPE, CARD = (
    "config.json",
    "model.safetensors",
    "manifest.json",
    "recipe.yaml",
    "README.md",
)


class Weights(Spec):
    """Which weights `model.safetensors` holds, and from which steps."""

    kind: Literal["averaged", "best", "last"]
    steps: tuple[int, ...]


class Config(Spec):
    """`config.json`."""

    version: Literal[1] = VERSION
    model: ModelSpec
    vocabulary: Vocabulary
    source_language: str | None = None
    target_language: str | None = None
    decoding: Decoding = Decoding()
    weights: Weights


class Model(NamedTuple):
    """What a model directory holds, ready to use."""

    config: Config
    module: TranslationModel
    source: Subwords
    target: Subwords

    @classmethod
    def read(cls, directory: Path) -> "Model":
        """The model in `directory`, on the CPU; a `ValueError` where it is none, or not as it was written."""
        contents = _checked(directory)
        config = validated(Config, json.loads(contents[CONFIG]), place=str(directory / CONFIG))
        with torch.device("meta"):
            module = config.model.build(config.vocabulary)
        _fill(module, load(contents[WEIGHTS]))
        names = [name for name in contents if name.endswith("tokenizer.json")]
        sides = {name: Subwords.load(directory / name) for name in sorted(names)}
        source, target = next(iter(sides.values())), list(sides.values())[-1]
        return cls(config, module.eval(), source, target)

    @staticmethod
    def read_config(directory: Path) -> Config:
        """The settings alone, checked like everything else."""
        expected = _manifest(directory).get(CONFIG)
        content = (directory / CONFIG).read_bytes()
        if _entry(content) != expected:
            raise ValueError(f"{directory} is damaged: {CONFIG}; `transduce verify {directory}` says more")
        return validated(Config, json.loads(content), place=str(directory / CONFIG))


def _fill(module: TranslationModel, weights: Mapping[str, Tensor]) -> None:
    """Gives a model without storage its weights; a shared matrix stays one under each of its names."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    if {name: tensor.shape for name, tensor in weights.items()} != {
        name: parameter.shape for name, parameter in module.named_parameters()
    }:
        raise ValueError(f"{WEIGHTS} does not hold the weights that {CONFIG} describes")
    filled = {name: torch.nn.Parameter(tensor) for name, tensor in weights.items()}
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, filled[names[id(parameter)]])


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """The weights by name, each shared matrix once, on the CPU and with storage of its own."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.named_parameters()}


def write_model(
    directory: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    subwords: tuple[Subwords, Subwords],
    texts: Mapping[str, str],
) -> None:
    """Writes a model directory; every file is written aside and renamed, the manifest last.

    `subwords` are the source's and the target's, one file where they are the same object; `texts`, the recipe and the
    card, are by file name. A card that its owner has edited is left alone.
    """
    edited = _card_is_edited(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizers = dict(zip(subwords_files(shared=subwords[0] is subwords[1]), subwords, strict=True))
    for name, tokenizer in tokenizers.items():
        replace(directory / name, tokenizer.save)
    replace(directory / WEIGHTS, lambda path: save_file(dict(weights), path))
    write_text(directory / CONFIG, json.dumps(config.as_dictionary(), indent=2, ensure_ascii=False) + "\n")
    for name, text in texts.items():
        if name != CARD or not edited:
            write_text(directory / name, text)
    # The card is free to edit, so it is no part of what is checked; as it was written, it is replaced with the weights.
    names = [CONFIG, WEIGHTS, *tokenizers, *(name for name in texts if name != CARD)]
    files = {name: _entry((directory / name).read_bytes()) for name in sorted(names)}
    manifest = {"version": VERSION, "files": files, "card": _entry(texts.get(CARD, "").encode())}
    write_text(directory / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def write_recipe(directory: Path, text: str) -> None:
    """Writes the recipe of a run; where there is a model already, the manifest learns of it."""
    write_text(directory / RECIPE, text)
    if (directory / MANIFEST).exists():
        files = _manifest(directory) | {RECIPE: _entry(text.encode())}
        manifest = json.loads((directory / MANIFEST).read_text("utf-8")) | {"files": files}
        write_text(directory / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def _card_is_edited(directory: Path) -> bool:
    """Whether there is a card that is not the one the program has written last."""
    card, manifest = directory / CARD, directory / MANIFEST
    if not card.exists():
        return False
    written = json.loads(manifest.read_text("utf-8")).get("card") if manifest.exists() else None
    return _entry(card.read_bytes()) != written


def verify(directory: Path) -> list[str]:
    """What is wrong with the files of the manifest, a sentence each; nothing where all is well."""
    faults = []
    for name, expected in _manifest(directory).items():
        path = directory / name
        if not path.exists():
            faults.append(f"{name} is missing")
        elif (size := path.stat().st_size) != expected["bytes"]:
            faults.append(f"{name} has {size:,} bytes where the manifest says {expected['bytes']:,}")
        elif _entry(path.read_bytes()) != expected:
            faults.append(f"{name} has changed since it was written (its checksum differs)")
    return faults


def _checked(directory: Path) -> dict[str, bytes]:
    """Every file of the manifest, read once, and as it was written."""
    manifest = _manifest(directory)
    contents = {name: (directory / name).read_bytes() for name in manifest if (directory / name).exists()}
    damaged = [
        name for name, expected in manifest.items() if name not in contents or _entry(contents[name]) != expected
    ]
    if damaged:
        raise ValueError(
            f"{directory} is damaged: {', '.join(damaged)}; `transduce verify {directory}` says more. "
            "Take the files from a backup, or train again"
        )
    return contents


def _manifest(directory: Path) -> dict[str, Any]:
    """The manifest's files; a `ValueError` where the directory is no model."""
    if not directory.is_dir():
        fault = f"{directory} is a file" if directory.exists() else f"there is no model directory {directory}"
        raise ValueError(f"{fault}; name one that `transduce train RECIPE --out DIRECTORY` has made")
    path = directory / MANIFEST
    if not path.exists():
        training = directory / "training"
        started = "its training has written no model yet" if training.exists() else f"it has no {MANIFEST}"
        raise ValueError(
            f"{directory} is no model directory: {started}; `transduce train RECIPE --out {directory}` makes one"
        )
    try:
        manifest = json.loads(path.read_text("utf-8"))
        files: dict[str, Any] = manifest["files"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged: it is no manifest") from None
    if manifest.get("version") != VERSION:
        raise ValueError(f"{path} has version {manifest.get('version')}; this program reads version {VERSION}")
    return files


def _entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
