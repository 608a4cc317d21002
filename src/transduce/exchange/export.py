"""Export of a model directory for another engine, with a proof of parity in the exported folder."""

import importlib.metadata
import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from transduce import __version__
from transduce.corpus import read_parallel_text
from transduce.exchange.banned_tokens import with_banned_tokens
from transduce.exchange.parity import Parity, ParityError, compare, odd_sentences
from transduce.exchange.representable import refusal
from transduce.model_directory import RECIPE, Model, check_new_or_empty, fingerprint
from transduce.recipe import read_resolved_recipe
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.locks import exclusive_lock
from transduce.storage.regular_files import remove
from transduce.text.token_vocabulary import tags_of
from transduce.translation.source_request import SourceRequest, choose_tags
from transduce.translation.translator import Translator

__all__ = ["FORMATS", "PARITY", "export"]

PARITY = "parity.json"


class ExportFormat(NamedTuple):
    """An engine that reads an exported folder: its module in this package, its package, and the precisions of weights.

    The module has `check(model)`, which raises ValueError for a model that the engine cannot represent;
    `write(model, folder, precision)`; `open_engine(folder, model)`, which returns a `ForeignEngine`, with
    `with_source_tags(tags)` where `check` accepts models with tags; and `MAX_POSITIONS` of a sentence, None for any
    number.
    """

    module: str
    package: str
    precisions: tuple[str, ...]
    bans_in_weights: bool = False  # see `banned_tokens`


FORMATS = {
    "ctranslate2": ExportFormat("ctranslate2_format", "ctranslate2", ("float32", "float16", "int8"), True),
    "onnx": ExportFormat("onnx_format", "onnxruntime", ("float32", "float16", "int8")),
    "browser": ExportFormat("browser_format", "onnxruntime", ("int8", "float16", "float32")),
    "hugging-face": ExportFormat("hugging_face_format", "transformers", ("float32",)),
    "marian": ExportFormat("marian_format", "pymarian", ("float32",), True),
}

NOT_ELSEWHERE = {
    "no_repeat_ngram": "bans repeated n-grams, whose scores differ between engines",
    "coverage_penalty": "ranks by attention, which engines do not return",
}
"""Settings of decoding that no engine has, each with the reason."""


def export(run: Path, target: str, out: Path, precision: str, sentences: int, say: Callable[[str], None]) -> Parity:
    """Writes the model in `run` into the new folder `out` for the engine `target`, and compares both engines.

    The comparison is on `sentences` sentences of the validation corpora, where the recipe names them, and on odd lines.
    Raises ValueError where the engine cannot represent the model or the precision, where `out` is not empty, and where
    another process exports to it. Raises ParityError, and leaves nothing, where the engines differ by more than the
    tolerance.
    """
    if precision not in FORMATS[target].precisions:
        raise ValueError(f"--precision {precision}: an export to {target} has {', '.join(FORMATS[target].precisions)}")
    out = out.resolve()
    check_new_or_empty(out)
    model, module = Model.read(run), import_module(f"transduce.exchange.{FORMATS[target].module}")
    for key, reason in NOT_ELSEWHERE.items():
        if getattr(model.config.decoding, key) is not None:
            remedy = f"`transduce configure {run} --set decoding.{key}=null` switches it off"
            raise refusal(target, f"`decoding.{key}` {reason}", remedy)
    module.check(model)
    if FORMATS[target].bans_in_weights:
        model = with_banned_tokens(model)
    staging = out.with_name(f".{out.name}.exporting")
    with exclusive_lock(staging, "export"):
        try:
            for path in staging.iterdir():  # of an export that was killed
                remove(path)
            say(f"writing {target} in {precision}")
            module.write(model, staging, precision)
            parity = _compare(run, model, module, staging, sentences, say)
            if (fault := parity.fault(precision)) is not None:
                raise ParityError(
                    f"the exported model does not compute what {run} computes: {fault}; nothing was written"
                )
            _write_parity(run, staging, target, precision, parity)
            _publish(staging, out)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return parity


def _publish(staging: Path, out: Path) -> None:
    """Renames the written folder to `out`, once its files have reached the disk."""
    for path in (*staging.rglob("*"), staging):
        flush_to_disk(path)
    check_new_or_empty(out)
    if out.exists():
        out.rmdir()
    staging.rename(out)
    flush_to_disk(out.parent)


def _compare(run: Path, model: Model, module: Any, folder: Path, sentences: int, say: Callable[[str], None]) -> Parity:
    """Compares the engine of the exported folder with the model on sample sentences.

    A model of several directions or tags is compared in the first one that its settings name.
    """
    translator: Translator = Translator([model.module], model.source, model.target, model.config.decoding)
    engine = module.open_engine(folder, model)
    if tags_of(model.source):
        request = SourceRequest(tag=next(iter(model.config.tags), None))
        if model.config.directions:
            direction = model.config.directions[0]
            request = request._replace(to=direction.target, source_language=direction.source)
        tags = choose_tags(model.config, model.source, request).ids
        translator, engine = translator.with_source_tags(tags), engine.with_source_tags(tags)
    samples = _validation_sentences(run, sentences)
    say(f"comparing both engines on {len(samples)} sentences of the validation corpora, and on odd lines")
    return compare(translator, engine, [*odd_sentences(translator), *samples], module.MAX_POSITIONS)


def _validation_sentences(run: Path, sentences: int) -> list[str]:
    """Returns sources of the validation corpora of `run`; none where its recipe names none, or their files are gone."""
    try:
        data = read_resolved_recipe(run / RECIPE).data
        corpora = [read_parallel_text(corpus).source for corpus in data.validations]
    except (ValueError, OSError):
        return []
    return [line for corpus in corpora for line in corpus[: -(-sentences // len(corpora))]][:sentences]


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
