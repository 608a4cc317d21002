"""A model directory: the whole of a model, written atomically and read only when every byte is as it was written."""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from safetensors.torch import load
from torch import Tensor

from transduce.corpus import subwords_files
from transduce.model import ModelSpec, TranslationModel, Vocabulary, build_without_weights
from transduce.search import Decoding
from transduce.settings import Spec, parse_json, validated
from transduce.storage.atomic import atomic_write, atomic_write_text, flush_to_disk, write_tensors
from transduce.storage.checksums import Checksums, checksum_of, checksums_of_files, find_damage
from transduce.storage.migrations import CONFIG_VERSION, migrate_config
from transduce.text.subwords import Subwords

__all__ = [
    "Config",
    "Model",
    "Weights",
    "fingerprint",
    "recipe_was_edited",
    "verify",
    "weights_of",
    "write_model",
    "write_recipe",
]

VERSION: Literal[1] = 1  # of the manifest
CONFIG, WEIGHTS, MANIFEST, RECIPE, CARD = (
    "config.json",
    "model.safetensors",
    "manifest.json",
    "recipe.yaml",
    "README.md",
)
NEXT = ".manifest.next.json"  # the manifest of files that are not all in their places yet, and count nevertheless

ATTEMPTS, PAUSE = 5, 0.05  # how often a reader looks again, and after how many seconds: a writer may be at work


class Weights(Spec):
    """Which weights `model.safetensors` holds, and from which steps."""

    kind: Literal["averaged", "best", "last"]
    steps: tuple[int, ...]


class Config(Spec):
    """`config.json`."""

    version: Literal[2] = CONFIG_VERSION
    model: ModelSpec
    vocabulary: Vocabulary
    source_language: str | None = None
    target_language: str | None = None
    decoding: Decoding = Decoding()
    weights: Weights


class Entry(Spec):
    """What a manifest says of one file."""

    bytes: int = Field(ge=0)
    sha256: str


class Manifest(Spec):
    """`manifest.json`; a file is known by its name alone, for all are in the directory."""

    version: Literal[1] = VERSION
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], Entry]
    card: Entry | None = None


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
        config = _parse_config(contents[CONFIG], directory)
        module = build_without_weights(config.model, config.vocabulary)
        _fill(module, _tensors(contents[WEIGHTS], directory / WEIGHTS))
        source, target = _sides(contents, directory)
        if config.vocabulary != Vocabulary(source=source.size, target=target.size):
            raise ValueError(
                f"{directory}: {CONFIG} and the subwords are of different models: the one has "
                f"{config.vocabulary.source:,} and {config.vocabulary.target:,} ids, the others {source.size:,} and "
                f"{target.size:,}; take all files from one model"
            )
        return cls(config, module.eval(), source, target)

    @staticmethod
    def read_config(directory: Path) -> Config:
        """The settings alone, checked like everything else."""
        return _parse_config(_checked(directory, only=CONFIG)[CONFIG], directory)


def _parse_config(content: bytes, directory: Path) -> Config:
    """Returns the settings in the content of a `config.json` of any version."""
    place = str(directory / CONFIG)
    values = parse_json(content, place=place)
    return validated(Config, migrate_config(values) if isinstance(values, dict) else values, place=place)


def _tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a file; a `ValueError` where it holds none."""
    try:
        tensors: dict[str, Tensor] = load(content)
    except Exception as error:  # the library raises its own, and whatever a wrong header leads to
        raise ValueError(f"{path} holds no weights ({error}); take it from a backup, or train again") from None
    return tensors


def _sides(contents: Mapping[str, bytes], directory: Path) -> tuple[Subwords, Subwords]:
    """The subwords of source and target: one file where they are shared."""
    shared = subwords_files(shared=True)[0] in contents
    names = dict.fromkeys(subwords_files(shared=shared))
    if missing := [name for name in names if name not in contents]:
        raise ValueError(f"{directory / MANIFEST} is damaged: it does not list {', '.join(missing)}")
    sides = [Subwords.parse(contents[name], place=str(directory / name)) for name in names]
    return sides[0], sides[-1]


def _fill(module: TranslationModel, weights: Mapping[str, Tensor]) -> None:
    """Gives a model without storage its weights; a shared matrix stays one under each of its names."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()} != {
        name: (parameter.shape, parameter.dtype) for name, parameter in module.named_parameters()
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
    """Writes a model directory: whoever reads it finds the old model or the new one, whenever this is cut short.

    `subwords` are the source's and the target's, one file where they are the same object; `texts`, the recipe and the
    card, are by file name. A card that its owner has edited is left alone.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _settle(directory)
    edited = _card_is_edited(directory)
    tokenizers = dict(zip(subwords_files(shared=subwords[0] is subwords[1]), subwords, strict=True))
    described = json.dumps(config.as_dictionary(), indent=2, ensure_ascii=False) + "\n"
    written: dict[str, Callable[[Path], object]] = {name: side.save for name, side in tokenizers.items()}
    written |= {WEIGHTS: partial(write_tensors, weights), CONFIG: _text(described)}
    written |= {name: _text(text) for name, text in texts.items() if name != CARD or not edited}
    _commit(directory, written, {}, checksum_of(texts.get(CARD, "").encode()))


def write_recipe(directory: Path, text: str) -> None:
    """Writes the recipe of a run; where there is a model already, its manifest learns of it."""
    if not (directory / MANIFEST).exists() and not (directory / NEXT).exists():
        atomic_write_text(directory / RECIPE, text)
        return
    _settle(directory)
    manifest = _manifest(directory / MANIFEST)
    _commit(directory, {RECIPE: _text(text)}, manifest["files"], manifest["card"])


def recipe_was_edited(directory: Path) -> bool:
    """Whether the recipe of a run is not the one that its model was written with; False where there is no model."""
    if not (directory / MANIFEST).exists() and not (directory / NEXT).exists():
        return False
    _settle(directory)
    known = _manifest(directory / MANIFEST)["files"].get(RECIPE)
    return known is not None and checksum_of((directory / RECIPE).read_bytes()) != known


def _text(text: str) -> Callable[[Path], object]:
    """Writes it into a file."""
    return lambda path: path.write_text(text, "utf-8")


def _commit(directory: Path, written: Mapping[str, Callable[[Path], object]], kept: Checksums, card: Any) -> None:
    """Replaces files and their manifest as one.

    All are written beside what is there; the moment at which `NEXT` is there, they are what the directory holds, and
    moving them into place is only tidying, which a reader does without and the next writer does first. The card is
    replaced with them, but free to edit, and so no part of what is checked.
    """
    _settle(directory)
    for name, fill in written.items():
        atomic_write(_aside(directory, name), fill)
    fresh = checksums_of_files(_aside(directory, name) for name in written)
    files = {**kept, **{name: fresh[_aside(directory, name).name] for name in written if name != CARD}}
    manifest = {"version": VERSION, "files": {name: files[name] for name in sorted(files)}, "card": card}
    atomic_write_text(directory / NEXT, json.dumps(manifest, indent=2) + "\n")
    _settle(directory)


def _settle(directory: Path) -> None:
    """Finishes a replacement that was cut short after it counted, and forgets one that was before."""
    if (directory / NEXT).exists():
        for name in (*_manifest(directory / NEXT)["files"], CARD):
            if _aside(directory, name).exists():
                _aside(directory, name).replace(directory / name)
        flush_to_disk(directory)
        (directory / NEXT).replace(directory / MANIFEST)
        flush_to_disk(directory)
    for left in directory.glob(".*.next*"):
        left.unlink()


def _aside(directory: Path, name: str) -> Path:
    """Where a file waits to be part of the model."""
    return directory / f".{name}.next"


def _card_is_edited(directory: Path) -> bool:
    """Whether there is a card that is not the one the program has written last."""
    card, manifest = directory / CARD, directory / MANIFEST
    if not card.exists():
        return False
    written = _manifest(manifest)["card"] if manifest.exists() else None
    return checksum_of(card.read_bytes()) != written


def verify(directory: Path) -> list[str]:
    """What is wrong with the files of the manifest, a sentence each; nothing where all is well.

    Where something is, it looks again: another model may just have been taking its place.
    """
    found = _faults(directory)
    if found:
        time.sleep(PAUSE)
        found = _faults(directory)
    return found


def _faults(directory: Path) -> list[str]:
    """What is wrong as the files are now."""
    _require(directory)
    generations = [_generation(directory, name) for name in (NEXT, MANIFEST) if (directory / name).exists()]
    found = [
        [
            fault
            for name, known in files.items()
            for fault in find_damage(places[name].parent, {places[name].name: known})
        ]
        for files, places in generations
    ]
    return min(found, key=len)


def fingerprint(directory: Path) -> str:
    """A checksum over what its translations come from: settings, weights and subwords, as the manifest has them."""
    _require(directory)
    with contextlib.suppress(FileNotFoundError):  # it becomes the manifest, once it is in its place
        return _fingerprint(_manifest(directory / NEXT)["files"])
    return _fingerprint(_manifest(directory / MANIFEST)["files"])


def _fingerprint(files: Checksums) -> str:
    decisive = {name: known["sha256"] for name, known in files.items() if name.endswith((".json", ".safetensors"))}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _checked(directory: Path, only: str | None = None) -> dict[str, bytes]:
    """Every file of the manifest, or one, as it was written; another model may take its place meanwhile."""
    damaged: list[str] = []
    for attempt in range(ATTEMPTS):
        _require(directory)
        for manifest in (NEXT, MANIFEST):
            if (directory / manifest).exists():
                contents, damaged = _read(directory, manifest, only)
                if not damaged:
                    return contents
        if attempt + 1 < ATTEMPTS:
            time.sleep(PAUSE)
    raise ValueError(
        f"{directory} is damaged: {', '.join(damaged)}; `transduce verify {directory}` says more. "
        "Take the files from a backup, or train again"
    )


def _read(directory: Path, manifest: str, only: str | None) -> tuple[dict[str, bytes], list[str]]:
    """The files of one manifest, or one of them, and the names of those that are not as it says."""
    try:
        files, places = _generation(directory, manifest)
    except FileNotFoundError:  # it has just become the manifest
        return {}, [manifest]
    wanted = [only] if only else [*files]
    contents = {name: _content(places[name], files[name]) for name in wanted}
    damaged = [name for name in wanted if checksum_of(contents[name]) != files[name]]
    return contents, damaged


def _content(path: Path, known: Mapping[str, Any]) -> bytes:
    """What is in a file of the right size; of another, of a pipe, a device or a folder nothing is read."""
    try:
        right = path.is_file() and path.stat().st_size == known["bytes"]
        return path.read_bytes() if right else b""
    except FileNotFoundError:  # another model is just taking its place
        return b""


def _generation(directory: Path, manifest: str) -> tuple[Checksums, dict[str, Path]]:
    """What a manifest says of each file, and where that file is: beside its place, or in it already."""
    files: Checksums = _manifest(directory / manifest)["files"]
    waiting = {name: _aside(directory, name) for name in files if manifest == NEXT}
    return files, {
        name: waiting[name] if name in waiting and waiting[name].exists() else directory / name for name in files
    }


def _require(directory: Path) -> None:
    """A `ValueError` where there is no model."""
    if not directory.is_dir():
        fault = f"{directory} is a file" if directory.exists() else f"there is no model directory {directory}"
        raise ValueError(f"{fault}; name one that `transduce train RECIPE --out DIRECTORY` has made")
    if not (directory / MANIFEST).exists() and not (directory / NEXT).exists():
        training = directory / "training"
        started = "its training has written no model yet" if training.exists() else f"it has no {MANIFEST}"
        raise ValueError(
            f"{directory} is no model directory: {started}; `transduce train RECIPE --out {directory}` makes one"
        )


def _manifest(path: Path) -> dict[str, Any]:
    """What a manifest says: its `files` and `card`; a `ValueError` where it is none, or not of a whole model."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is damaged: it is no file")
    try:
        values = json.loads(path.read_bytes())
        version, fetched = values["version"] if "files" in values else None, "parts" in values
    except (ValueError, KeyError, TypeError, RecursionError):
        version, fetched = None, False
    if fetched:
        raise ValueError(f"{path.parent} holds a corpus that `transduce fetch` has brought, and no model")
    if version is None:
        raise ValueError(
            f"{path} is damaged: it is no manifest; take it from a backup, or delete it if a run is to go on"
        )
    if version != VERSION:
        raise ValueError(f"{path} has version {json.dumps(version)}; this program reads version {VERSION}")
    manifest = validated(Manifest, values, place=f"{path} is damaged").as_dictionary()
    if missing := [name for name in (CONFIG, WEIGHTS) if name not in manifest["files"]]:
        raise ValueError(f"{path} is damaged: it does not list {', '.join(missing)}")
    return manifest
