"""Export of a model directory for another engine, with a proof of parity in the exported folder."""

import importlib.metadata
import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from transduce import __version__
from transduce.exchange.parity import Parity, ParityError, compare, odd_sentences
from transduce.model_directory import Model, fingerprint
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.trainer.validation import named_test_set, read_parallel_text
from transduce.translation.translator import Translator

__all__ = ["FORMATS", "PARITY", "export"]

PARITY = "parity.json"


class ExportFormat(NamedTuple):
    """An engine that reads an exported folder: its module in this package, its package, and the precisions of weights.

    The module has `check(model)`, which raises ValueError for a model that the engine cannot represent;
    `write(model, folder, precision)`; `open_engine(folder, model)`, which returns a `ForeignEngine`; and
    `MAX_POSITIONS` of a sentence, None for any number.
    """

    module: str
    package: str
    precisions: tuple[str, ...]


FORMATS = {
    "ctranslate2": ExportFormat("ctranslate2_format", "ctranslate2", ("float32", "float16", "int8")),
    "onnx": ExportFormat("onnx_format", "onnxruntime", ("float32", "float16", "int8")),
    "browser": ExportFormat("browser_format", "onnxruntime", ("int8", "float16", "float32")),
    "hugging-face": ExportFormat("hugging_face_format", "transformers", ("float32",)),
    "marian": ExportFormat("marian_format", "pymarian", ("float32",)),
}


def export(run: Path, target: str, out: Path, precision: str, sentences: int, say: Callable[[str], None]) -> Parity:
    """Writes the model in `run` into the new folder `out` for the engine `target`, and compares both engines.

    The comparison is on `sentences` sentences of the validation corpus, where the recipe names one, and on odd lines.
    Raises ValueError where the engine cannot represent the model or the precision, and where `out` is not empty.
    Raises ParityError, and leaves nothing, where the engines differ by more than the tolerance.
    """
    if precision not in FORMATS[target].precisions:
        raise ValueError(f"--precision {precision}: an export to {target} has {', '.join(FORMATS[target].precisions)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is not empty: choose another folder for --out")
    model, module = Model.read(run), import_module(f"transduce.exchange.{FORMATS[target].module}")
    module.check(model)
    staging = out.resolve().with_name(f".{out.resolve().name}.exporting")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
        say(f"writing {target} in {precision}")
        module.write(model, staging, precision)
        say("comparing both engines")
        parity = _compare(run, model, module, staging, sentences)
        if (fault := parity.fault(precision)) is not None:
            raise ParityError(f"the exported model does not compute what {run} computes: {fault}; nothing was written")
        _write_parity(run, staging, target, precision, parity)
        if out.exists():
            out.rmdir()
        staging.rename(out)
        flush_to_disk(out.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return parity


def _compare(run: Path, model: Model, module: Any, folder: Path, sentences: int) -> Parity:
    """Compares the engine of the exported folder with the model on sample sentences."""
    translator = Translator([model.module], model.source, model.target, model.config.decoding)
    lines = [*odd_sentences(translator), *_validation_sentences(run, sentences)]
    return compare(translator, module.open_engine(folder, model), lines, module.MAX_POSITIONS)


def _validation_sentences(run: Path, sentences: int) -> list[str]:
    """Returns sources of the validation corpus of `run`; none where its recipe names none, or its files are gone."""
    try:
        return list(read_parallel_text(named_test_set(run, "validation")).source[:sentences])
    except (ValueError, OSError):
        return []


def _write_parity(run: Path, folder: Path, target: str, precision: str, parity: Parity) -> None:
    package = FORMATS[target].package
    described = {
        "engine": target,
        "engine_version": importlib.metadata.version(package),
        "precision": precision,
        "transduce": __version__,
        "model": fingerprint(run),
        **parity.as_dictionary(),
    }
    atomic_write_text(folder / PARITY, json.dumps(described, indent=2, ensure_ascii=False) + "\n")
