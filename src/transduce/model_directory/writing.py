"""Writes model directories atomically, so that a reader finds either the old model or the new one."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from transduce.model_directory.config import Config
from transduce.model_directory.manifest import (
    CARD,
    CONFIG,
    MANIFEST,
    NEXT,
    RECIPE,
    VERSION,
    WEIGHTS,
    has_model,
    path_aside,
    read_manifest,
)
from transduce.storage.atomic import atomic_write_text, flush_to_disk, write_tensors
from transduce.storage.checksums import Checksums, checksum_of, checksums_of_files, find_damage
from transduce.storage.locks import exclusive_lock
from transduce.storage.operating_system import replace
from transduce.storage.regular_files import read_regular_file, remove
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords, subwords_files


def write_model(
    directory: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    subwords: tuple[TokenVocabulary, TokenVocabulary],
    texts: Mapping[str, str],
) -> None:
    """Writes a model directory atomically, so that a reader finds either the old model or the new one.

    `subwords` are the subwords of the source and the target side; if both are the same object, they are written to a
    single file. `texts` contains the recipe and the model card, by file name. A model card that its owner has edited is
    not replaced.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _settle(directory)
    edited = _card_is_edited(directory)
    tokenizers = dict(zip(subwords_files(shared=share_subwords(subwords)), subwords, strict=True))
    written: dict[str, Callable[[Path], object]] = {name: side.save for name, side in tokenizers.items()}
    written |= {WEIGHTS: partial(write_tensors, weights), CONFIG: _config_text(config)}
    written |= {name: _text(text) for name, text in texts.items() if name != CARD or not edited}
    _commit(directory, written, {}, checksum_of(texts.get(CARD, "").encode()))


def write_new_model(
    directory: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    subwords: tuple[TokenVocabulary, TokenVocabulary],
    texts: Mapping[str, str],
) -> None:
    """Writes a model as `write_model` does, but only to a new or empty directory.

    Raises ValueError if the directory is not empty, or if another process is writing a model there.
    """
    with exclusive_lock(directory, "command"):
        check_new_or_empty(directory)
        write_model(directory, config, weights, subwords, texts)


def check_new_or_empty(directory: Path) -> None:
    """Raises ValueError unless `directory` is an empty directory or does not exist."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ValueError(f"{directory} is not empty: choose another directory for --out")


def write_config(directory: Path, config: Config) -> None:
    """Replaces the settings of a model directory, and their checksum in the manifest."""
    _replace_file(directory, CONFIG, _config_text(config))


def write_recipe(directory: Path, text: str) -> None:
    """Writes the recipe of a run; if there already is a model, updates the recipe's checksum in the manifest."""
    if not has_model(directory):
        atomic_write_text(directory / RECIPE, text)
        return
    _replace_file(directory, RECIPE, _text(text))


def _replace_file(directory: Path, name: str, fill: Callable[[Path], object]) -> None:
    """Replaces a single file of a model directory, and its checksum in the manifest.

    `fill` writes the new file to the path that it is given.
    """
    _settle(directory)
    manifest = read_manifest(directory / MANIFEST)
    _commit(directory, {name: fill}, manifest["files"], manifest["card"])


def write_card_section(directory: Path, heading: str, text: str) -> None:
    """Writes a section at the end of the model card, replacing an earlier section with the same heading.

    Does nothing if there is no model card, or if its owner has edited it.
    """
    _settle(directory)
    if _card_is_edited(directory) or not (directory / CARD).exists():
        return
    earlier = read_regular_file(directory / CARD).decode().partition(f"\n{heading}\n")[0]
    card = f"{earlier}\n{heading}\n\n{text}"
    manifest = read_manifest(directory / MANIFEST)
    _commit(directory, {CARD: _text(card)}, manifest["files"], checksum_of(card.encode()))


def recipe_was_edited(directory: Path) -> bool:
    """Returns True if the recipe has changed since the program wrote it; returns False if there is no model."""
    if not has_model(directory):
        return False
    _settle(directory)
    checksum = read_manifest(directory / MANIFEST)["files"].get(RECIPE)
    return checksum is not None and checksum_of(read_regular_file(directory / RECIPE)) != checksum


def _config_text(config: Config) -> Callable[[Path], object]:
    return _text(json.dumps(config.as_dictionary(), indent=2, ensure_ascii=False) + "\n")


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: atomic_write_text(path, text)


def _commit(directory: Path, written: Mapping[str, Callable[[Path], object]], unchanged: Checksums, card: Any) -> None:
    """Replaces several files of a model directory and its manifest in a single atomic operation.

    The functions in `written` write the new files next to the old ones. The new files become valid at the moment when
    the new manifest exists under the name `NEXT`. They are then moved into place, by this writer or, if it is
    interrupted, by the next one; until then, readers read them from where they are.

    The files in `unchanged` keep their checksums. `card` is the checksum with which the model card was written; it is
    stored separately, because the owner may edit the model card.
    """
    try:
        for name, fill in written.items():
            fill(path_aside(directory, name))
        fresh = checksums_of_files(path_aside(directory, name) for name in written)
        files = {**unchanged, **{name: fresh[path_aside(directory, name).name] for name in written if name != CARD}}
        manifest = {"version": VERSION, "files": {name: files[name] for name in sorted(files)}, "card": card}
        atomic_write_text(directory / NEXT, json.dumps(manifest, indent=2) + "\n")
    except BaseException:
        if not (directory / NEXT).exists():
            for name in written:  # frees the disk space for the next attempt
                path_aside(directory, name).unlink(missing_ok=True)
        raise
    with suppress(OSError):
        _settle(directory)


def _settle(directory: Path) -> None:
    """Moves the new files of a replacement into place if they are already valid, and removes them otherwise."""
    if (directory / NEXT).exists():
        for name in (*read_manifest(directory / NEXT)["files"], CARD):
            if path_aside(directory, name).exists():
                replace(path_aside(directory, name), directory / name)
        flush_to_disk(directory)
        replace(directory / NEXT, directory / MANIFEST)
        flush_to_disk(directory)
    for path in directory.glob(".*.next*"):
        remove(path)


def _card_is_edited(directory: Path) -> bool:
    """Returns True if the model card differs from the one that the program last wrote."""
    card, manifest = directory / CARD, directory / MANIFEST
    if not card.exists():
        return False
    written = read_manifest(manifest)["card"] if manifest.exists() else None
    return written is None or bool(find_damage(directory, {CARD: written}))
