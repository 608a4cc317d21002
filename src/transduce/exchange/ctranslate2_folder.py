"""Loads models for CTranslate2 from an exported folder, or from a converted copy that a model directory contains."""

import errno
import hashlib
import logging
import shutil
from pathlib import Path

from transduce import __version__
from transduce.exchange.ctranslate2_format import CONFIG_COPY, WEIGHTS, CTranslate2Engine, import_ctranslate2
from transduce.exchange.export_model import PARITY, export
from transduce.model_directory.config import Config, parse_config
from transduce.model_directory.manifest import fingerprint
from transduce.runtime.progress import quiet
from transduce.storage.locks import wait_for_lock
from transduce.storage.regular_files import read_regular_file
from transduce.text.token_vocabulary import load_vocabulary, subwords_files, target_side
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
CONVERSION = 2  # to be increased whenever the conversion of the same model changes
CONVERSIONS = "exports"  # folder of the converted copies in a model directory; it is safe to delete


def ctranslate2_folder(path: Path) -> Path:
    """Returns the folder from which CTranslate2 loads the model in `path`.

    If `path` is an export, this is `path` itself. If `path` is a model directory, this is a converted copy inside it.
    The first call for a model converts it, compares both engines, and removes older converted copies of the model.
    Raises the errors of `export`, and ValueError if the model directory is not writable.
    """
    if (path / CONFIG_COPY).exists() and (path / WEIGHTS).exists():
        return path
    conversions = path / CONVERSIONS
    # The name depends on the weights and on all versions, because a later version may convert differently.
    origin = f"{fingerprint(path)} {__version__} {CONVERSION} {import_ctranslate2().__version__}"
    converted = conversions / f"ctranslate2-{hashlib.sha256(origin.encode()).hexdigest()[:16]}"
    if (converted / PARITY).exists():
        return converted
    try:
        conversions.mkdir(exist_ok=True)
        with wait_for_lock(conversions):
            if not (converted / PARITY).exists():
                _log.info(f"converting {path} for CTranslate2, once")
                with quiet():
                    export(path, "ctranslate2", converted, "float32", 0)
                for older in (*conversions.glob("ctranslate2-*"), *conversions.glob(".ctranslate2-*")):
                    if older != converted:
                        shutil.rmtree(older, ignore_errors=True)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        raise ValueError(
            f"{path} is not writable, so that the model for CTranslate2 cannot be kept there: "
            f"`transduce export {path} --to ctranslate2 --out FOLDER`, and translate with FOLDER"
        ) from None
    return converted


def read_exported_config(folder: Path) -> Config:
    """Reads the config of an exported model from the copy of it in `folder`."""
    return parse_config(read_regular_file(folder / CONFIG_COPY), folder)


def load_ctranslate2(
    folder: Path, *, device: str = "cpu", threads: int | None = None, precision: str | None = None
) -> Translator:
    """Loads a translator that runs the exported model in `folder` with CTranslate2.

    See `CTranslate2Engine` for the other arguments and the errors raised.
    """
    config = read_exported_config(folder)
    names = subwords_files(shared=(folder / subwords_files(shared=True)[0]).exists())
    source = load_vocabulary(folder / names[0])
    target = target_side(source) if names[0] == names[1] else load_vocabulary(folder / names[1])
    engine = CTranslate2Engine(folder, config, (source, target), device=device, threads=threads, precision=precision)
    translator = Translator(engine, source, target, config.decoding)
    translator.configs = (config,)
    return translator
