"""Exports a model directory for another engine, and records the result of the parity check in the exported folder."""

import contextlib
import copy
import importlib.metadata
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from transduce import __version__
from transduce.corpus.readers import read_parallel_text
from transduce.exchange import browser_format, ctranslate2_format, hugging_face_format, marian_format, onnx_format
from transduce.exchange.engine_limits import check_products, refusal
from transduce.exchange.parity import ForeignEngine, Parity, ParityError, compare, odd_sentences
from transduce.exchange.transformer_weights import TABLE_POSITIONS
from transduce.model.transformer import TransformerModel
from transduce.model_directory.manifest import RECIPE, fingerprint
from transduce.model_directory.model import Model
from transduce.model_directory.writing import check_new_or_empty
from transduce.recipe.recipe import read_resolved_recipe
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.locks import exclusive_lock
from transduce.storage.regular_files import remove
from transduce.storage.result_files import name_in_errors
from transduce.text.token_vocabulary import tags_of
from transduce.translation.engine import SearchRules
from transduce.translation.source_request import SourceRequest, choose_tags
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

PARITY = "parity.json"
BANNED_LOGIT = -3e4  # far below any other logit, and within the range of float16, whose largest value is 65,504


class ExportFormat(NamedTuple):
    """An export format: the engine that reads an exported folder, and the functions that write and open the folder."""

    package: str  # the name of the engine's Python package
    precisions: tuple[str, ...]  # the possible precisions of the weights; the first is the default
    check: Callable[[Model], object]  # raises ValueError for a model that the engine cannot represent
    write: Callable[[Model, Path, str], None]  # writes the model to a folder in the given precision
    # Opens the exported folder of a model. The last argument contains the tags to put before every source.
    open_engine: Callable[[Path, Model, Sequence[int]], ForeignEngine]
    max_positions: int | None = None  # the number of positions in the longest sentence; None: no limit
    bans_in_weights: bool = False  # whether banned tokens are banned in the weights; see `with_banned_tokens`


FORMATS = {
    "ctranslate2": ExportFormat(
        "ctranslate2",
        ("float32", "float16", "int8"),
        partial(check_products, engine="CTranslate2"),
        ctranslate2_format.write,
        ctranslate2_format.open_engine,
        max_positions=TABLE_POSITIONS,
        bans_in_weights=True,
    ),
    "onnx": ExportFormat(
        "onnxruntime",
        ("float32", "float16", "int8"),
        onnx_format.check,
        onnx_format.write,
        lambda folder, *_: onnx_format.OnnxEngine(folder),
    ),
    "browser": ExportFormat(
        "onnxruntime",
        ("int8", "float16", "float32"),
        onnx_format.check,
        browser_format.write,
        lambda folder, *_: onnx_format.OnnxEngine(folder),
    ),
    "hugging-face": ExportFormat(
        "transformers",
        ("float32",),
        hugging_face_format.check,
        hugging_face_format.write,
        lambda folder, *_: hugging_face_format.HuggingFaceEngine(folder),
        max_positions=TABLE_POSITIONS,
    ),
    "marian": ExportFormat(
        "pymarian",
        ("float32",),
        marian_format.check,
        marian_format.write,
        marian_format.MarianEngine,
        bans_in_weights=True,
    ),
}


def export(run: Path, target: str, out: Path, precision: str, sentences: int) -> Parity:
    """Exports the model in `run` for the engine `target` to the new folder `out`, and compares the two engines.

    The comparison uses unusual lines and, if the recipe names validation corpora, up to `sentences` sentences from
    them. Returns the result of the comparison. Raises ValueError if the engine cannot represent the model or the
    precision, if `out` is not empty, or if another process is exporting to it. If the engines differ by more than the
    tolerance, raises ParityError and leaves no files behind.
    """
    form = FORMATS[target]
    if precision not in form.precisions:
        raise ValueError(f"--precision {precision}: an export to {target} has {', '.join(form.precisions)}")
    out = out.resolve()
    check_new_or_empty(out)
    model = Model.read(run)
    if model.config.decoding.no_repeat_ngram is not None:
        ban = "`decoding.no_repeat_ngram` bans repeated n-grams, whose scores differ between engines"
        remedy = f"`transduce info {run} --set decoding.no_repeat_ngram=null` switches it off"
        raise refusal(target, ban, remedy)
    form.check(model)
    if form.bans_in_weights:
        model = with_banned_tokens(model)
    staging = out.with_name(f".{out.name}.exporting")
    with exclusive_lock(staging, "export"):
        try:
            for path in staging.iterdir():  # files from an earlier export that was killed
                remove(path)
            _log.info(f"writing {target} in {precision}")
            with name_in_errors(out):
                form.write(model, staging, precision)
            parity = _compare(run, model, form, staging, sentences)
            if (fault := parity.fault(precision)) is not None:
                raise ParityError(
                    f"the exported model does not compute what {run} computes: {fault}; nothing was written"
                )
            described = {
                "engine": target,
                "engine_version": importlib.metadata.version(form.package),
                "precision": precision,
                "transduce": __version__,
                "model": fingerprint(run),
                **parity.as_dictionary(),
            }
            atomic_write_text(staging / PARITY, json.dumps(described, indent=2, ensure_ascii=False) + "\n")
            for path in (*staging.rglob("*"), staging):
                flush_to_disk(path)
            check_new_or_empty(out)
            if out.exists():
                out.rmdir()
            staging.rename(out)
            flush_to_disk(out.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return parity


def with_banned_tokens(model: Model) -> Model:
    """Returns a copy of the model in which a large negative readout bias bans tokens that must not be generated.

    All other weights are shared with `model`. The ban renormalises the probabilities of the other tokens. It is needed
    for formats that have no options file that every program reads. Programs then pass their own options or none, and
    without the ban they would generate padding or BOS for unusual lines.
    """
    module = model.module
    assert isinstance(module, TransformerModel)
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    banning: TransformerModel = copy.deepcopy(module, shared)
    readout = module.readout
    bias = torch.zeros_like(readout.weight[:, 0]) if readout.bias is None else readout.bias.detach().clone()
    bias[list(SearchRules.of(model.config.model.symbols, model.target).banned)] = BANNED_LOGIT
    banning.readout.bias = nn.Parameter(bias)
    return model._replace(module=banning)


def _compare(run: Path, model: Model, form: ExportFormat, folder: Path, sentences: int) -> Parity:
    """Compares the engine of the exported folder with the model on sample sentences.

    If the model has several directions or tags, only the first direction and the first tag in its config are compared.
    """
    translator: Translator = Translator.of_models([model.module], model.source, model.target, model.config.decoding)
    tags: tuple[int, ...] = ()
    if tags_of(model.source):
        request = SourceRequest(tag=next(iter(model.config.tags), None))
        if model.config.directions:
            direction = model.config.directions[0]
            request = request._replace(to=direction.target, source_language=direction.source)
        tags = choose_tags(model.config, model.source, request).ids
        translator = translator.with_source_tags(tags)
    corpora: list[Sequence[str]] = []
    with contextlib.suppress(ValueError, OSError):  # the recipe names no validation corpora, or their files are gone
        data = read_resolved_recipe(run / RECIPE).data
        corpora = [read_parallel_text(corpus).source for corpus in data.validations]
    samples = [line for corpus in corpora for line in corpus[: -(-sentences // len(corpora))]][:sentences]
    _log.info(f"comparing both engines on {len(samples)} sentences of the validation corpora, and on odd lines")
    engine = form.open_engine(folder, model, tags)
    return compare(translator, engine, [*odd_sentences(translator), *samples], form.max_positions)
