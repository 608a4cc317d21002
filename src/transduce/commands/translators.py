"""Functions that all translation commands share: they read a model's settings, load it and apply a glossary."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.commands.input_checks import check_models
from transduce.commands.options import Engine, MachineChoice

if TYPE_CHECKING:
    from transduce.model_directory.config import Config
    from transduce.translation.glossary_translator import GlossaryTranslator
    from transduce.translation.results import Translation
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import Translator


def converted(runs: list[Path], engine: Engine | None) -> list[Path]:
    """Returns the folders from which the models are loaded.

    Without an engine, these are the model directories `runs` themselves. With CTranslate2, it is the folder of the
    exported model; a model directory is exported when it is first used. Raises ValueError if a directory contains no
    model, and for an ensemble with CTranslate2.
    """
    if engine is None:
        check_models(runs)
        return runs
    from transduce.exchange.ctranslate2_folder import ctranslate2_folder

    if len(runs) > 1:
        raise ValueError("--engine ctranslate2 has no ensembles: name one model")
    return [ctranslate2_folder(runs[0])]


def read_config(run: Path, engine: Engine | None = None) -> "Config":
    """Reads the configuration of a model, or of its export if an engine is given; raises ValueError for a parser."""
    from transduce.model_directory.model import Model

    if engine is not None:
        from transduce.exchange.ctranslate2_folder import read_exported_config

        return read_exported_config(run)
    config = Model.read_config(run)
    if config.linearisation is not None:
        raise ValueError(f"{run} parses and does not translate: use `transduce parse`")
    return config


def load_translator(
    runs: list[Path],
    engine: Engine | None,
    method: "SearchMethod",
    request: "SourceRequest",
    machine: MachineChoice,
) -> "Translator":
    """Loads a translator for the models; raises ValueError for a search method that the engine does not support."""
    from transduce.runtime.device import set_up_device
    from transduce.translation.translator import Translator

    if engine is None:
        return Translator.load(*runs, device=machine.set_up(), precision=machine.precision_name, **request._asdict())
    from transduce.exchange.ctranslate2_folder import load_ctranslate2
    from transduce.exchange.ctranslate2_format import check_method

    check_method(method)
    device, precision = str(set_up_device(machine.device, machine.threads)), machine.precision
    exported = load_ctranslate2(
        runs[0], device=device, threads=machine.threads, precision=precision and precision.value
    )
    return exported.into(**request._asdict())


def with_glossary(
    translator: "Translator", glossary: Path | None, method: "SearchMethod"
) -> "tuple[Callable[..., list[list[Translation]]], GlossaryTranslator | None]":
    """Returns the function that translates lines, and the translator that applies the glossary and counts its terms.

    The latter is None if no glossary is given. Raises ValueError if the engine, the model or the search method does not
    support glossaries.
    """
    if glossary is None:
        return functools.partial(translator.translate_lines, method=method), None
    from transduce.text.glossary import Glossary
    from transduce.translation.engine import TorchEngine
    from transduce.translation.glossary_translator import GlossaryTranslator

    if not isinstance(translator.engine, TorchEngine):
        raise ValueError("--glossary: this engine returns no attention weights; leave out --engine, or --glossary")
    terms = GlossaryTranslator(translator, Glossary.read(glossary))
    terms.check_method(method)
    return functools.partial(terms.translate_lines, method=method), terms
