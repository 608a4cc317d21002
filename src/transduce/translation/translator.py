"""Translates text end to end with a single model, an ensemble or another search engine."""

import contextlib
import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from multiprocessing import parent_process
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.model.translation_model import TranslationModel
from transduce.model_directory.config import Config
from transduce.model_directory.manifest import fingerprint, require_model
from transduce.model_directory.model import Model
from transduce.runtime.device import choose_device, count_forks
from transduce.runtime.memory import is_out_of_memory, run_by_halves
from transduce.runtime.progress import progress_line, track
from transduce.search.beam import Decoding
from transduce.search.cancellation import StopCheck
from transduce.search.cpu_stepper import WeightsRecord
from transduce.settings import type_in_words
from transduce.text.normalisation import has_text_to_translate, normalise
from transduce.text.sentence_ends import has_several_sentences, several_sentences_in
from transduce.text.symbol_vocabulary import UNKNOWN, SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.tree_linearisation import InOrder, TopDown
from transduce.translation.batching import (
    LineTooLargeError,
    SentenceBatch,
    count_heads,
    encode_lines,
    max_lengths,
    sentence_batches,
)
from transduce.translation.engine import (
    ScoredTarget,
    SearchEngine,
    TokenPair,
    TorchEngine,
    TranslationPrecision,
    check_precision,
)
from transduce.translation.results import EMPTY, Explanation, Translation, decoded, one_line
from transduce.translation.search_method import SearchMethod, SearchOptions, TextOptions, TextsOptions, search_method
from transduce.translation.source_request import SourceRequest, choose_tags

_log = logging.getLogger("transduce")

BATCH_TOKENS = 8192  # source positions in a batch
SCORED_TOKENS = 4096  # positions in a batch for scoring, which keeps all log-probabilities in memory
LOOKAHEAD = 1000  # lines that `stream` reads before it translates them


class _Origin(NamedTuple):
    """The information that is needed to load a translator again; it is pickled instead of the models."""

    directories: tuple[Path, ...]
    fingerprints: tuple[str, ...]
    device: str
    precision: TranslationPrecision


class Translator:
    """Translates text with a search engine; with a `TorchEngine`, it can also score and explain translations.

    A translator that was created by `load` can be pickled, and the process that unpickles it loads the same model
    directories. `Pool.map(translator.translate, texts)` therefore works.
    """

    configs: tuple[Config, ...] = ()
    """The settings of the models that `load` has read; empty if the translator was created in another way."""

    _origin: _Origin | None = None
    _loaded: tuple[WeightsRecord, ...] = ()  # the weights as they were loaded; empty if that is unknown

    def __new__(cls, *arguments: object, **named: object) -> Self:
        """Raises TypeError if the first argument is a model directory, which `load` reads."""
        if arguments and isinstance(arguments[0], str | PathLike):
            raise TypeError(f"a model is loaded by `{cls.__name__}.load({str(arguments[0])!r})`")
        return super().__new__(cls)

    def __init__(
        self, engine: SearchEngine, source: TokenVocabulary, target: TokenVocabulary, decoding: Decoding
    ) -> None:
        """Creates a translator from an engine that reads tokens of `source` and writes tokens of `target`.

        To create a translator from model directories, call `load` instead.
        """
        self.engine, self.source, self.target, self.decoding = engine, source, target, decoding
        self.max_line_tokens = engine.max_line_tokens
        self.source_tags: tuple[int, ...] = ()
        self.target_language: str | None = None  # set only for a model with several directions
        self._stop_check: StopCheck | None = None
        # For error messages about memory. In int8, the attention weights of only a few rows are in memory at a time.
        has_weights = isinstance(engine, TorchEngine) and engine.precision != "int8"
        self._attention_heads = count_heads(self.models) if has_weights else 0

    @classmethod
    def of_models(
        cls,
        models: Sequence[TranslationModel],
        source: TokenVocabulary,
        target: TokenVocabulary,
        decoding: Decoding,
        precision: TranslationPrecision = "float32",
        linearisation: TopDown | InOrder | None = None,
    ) -> Self:
        """Creates a translator from models in evaluation mode; arguments and errors are those of `TorchEngine`."""
        return cls(TorchEngine(models, source, target, precision, linearisation), source, target, decoding)

    @classmethod
    def load(
        cls,
        *directories: Path | str,
        device: str = "cpu",
        precision: TranslationPrecision = "float32",
        to: str | None = None,
        source_language: str | None = None,
        tag: str | None = None,
    ) -> "Translator":
        """Loads the model in a directory, or an ensemble of the models in several directories.

        `device` is auto, cpu, cuda or a specific GPU such as cuda:1. The precision int8 requires a CPU, on which it is
        much faster than float32 and nearly as accurate; bfloat16 is meant for a GPU. A model with several target
        languages requires `to`, which is explained in `into`. Raises ValueError if a model is missing or damaged, if
        the models have different subwords, or if the device or the precision is not available.
        """
        check_precision(precision)
        if precision == "int8" and device == "auto":
            device = "cpu"
        if precision == "int8" and not device.startswith("cpu"):
            raise ValueError(f"precision int8 is for a CPU, not for {device}: leave it out, or choose the device cpu")
        if precision == "int8" and not torch.backends.mkldnn.is_available():
            raise ValueError("precision int8 needs oneDNN, which this build of torch does not have: leave it out")
        if not directories:
            raise ValueError("there is no model to load: name a model directory, such as runs/demo")
        if wrong := [one for one in directories if not isinstance(one, str | PathLike)]:
            kind = type_in_words(wrong[0])
            raise TypeError(f"a model directory is a str or a path, not {kind}; several are arguments of their own")
        return cls._read(directories, device, precision).into(to, source_language=source_language, tag=tag)

    @classmethod
    def _read(cls, directories: Sequence[Path | str], device: str, precision: TranslationPrecision) -> "Translator":
        """Loads the models in `directories` without choosing a direction."""
        for directory in directories:
            require_model(Path(directory))  # so that the message has the path as it was given
        paths = tuple(Path(directory).absolute() for directory in directories)
        fingerprints = tuple(map(fingerprint, paths))
        models = [Model.read(Path(directory)) for directory in directories]
        while fingerprints != (read := tuple(map(fingerprint, paths))):  # a run has published another model
            fingerprints, models = read, [Model.read(Path(directory)) for directory in directories]
        first = models[0]
        for model, directory in zip(models[1:], directories[1:], strict=True):
            if model.config.vocabulary != first.config.vocabulary or not _same_subwords(first, model):
                raise ValueError(f"{directory} and {directories[0]} have different subwords; an ensemble shares them")
            if model.config.linearisation != first.config.linearisation:
                raise ValueError(f"{directory} and {directories[0]} have different linearisations of trees")
        chosen = choose_device(device)
        modules = [model.module.to(chosen) for model in models]
        if precision == "bfloat16":
            modules = [module.bfloat16() for module in modules]
            if chosen.type == "cpu":
                _log.warning("note: searches on a CPU are compiled for float32 and int8, and slower in bfloat16")
        config = first.config
        translator = cls.of_models(
            modules, first.source, first.target, config.decoding, precision, config.linearisation
        )
        translator.configs = tuple(model.config for model in models)
        translator._origin = _Origin(paths, fingerprints, device, precision)
        translator._loaded = tuple(map(WeightsRecord, modules))
        return translator

    def into(self, to: str | None = None, *, source_language: str | None = None, tag: str | None = None) -> Self:
        """Returns a translator that uses the same models for another direction or tag.

        `to` is the target language, which is required if the models have several. `source_language` must be a language
        on which the models were trained, and `tag` a tag with which they were trained. Raises ValueError for any other
        language or tag. Logs a note if the direction is zero-shot, which means that the models were trained on both
        languages but not in this direction.
        """
        assert self.configs, "`into` is for translators that `load` has made"
        request = SourceRequest(to, source_language, tag)
        choices = [choose_tags(config, self.source, request) for config in self.configs]
        if len({choice.ids for choice in choices}) > 1:
            raise ValueError(
                "the models would each get other source tags: name the language with --to, the tag with --tag"
            )
        for note in dict.fromkeys(choice.note for choice in choices if choice.note):
            _log.warning("note: %s", note)
        return self.with_source_tags(choices[0].ids, choices[0].target_language)

    @property
    def source_language(self) -> str | None:
        """The code of the source language, or None if the model does not name one or has several."""
        return self.configs[0].source_language if self.configs else None

    @property
    def torch_engine(self) -> TorchEngine:
        """The engine, provided that it is a `TorchEngine`.

        Raises ValueError for any other engine, because only torch models can score and explain translations.
        """
        if not isinstance(self.engine, TorchEngine):
            raise ValueError("this engine translates alone: load the model with torch to score or to explain with it")
        return self.engine

    @property
    def device(self) -> torch.device:
        """The device of the models; raises ValueError if the engine is not a `TorchEngine`."""
        return self.torch_engine.device

    @property
    def precision(self) -> TranslationPrecision:
        """The precision of the models; raises ValueError if the engine is not a `TorchEngine`."""
        return self.torch_engine.precision

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """The torch models of the engine; raises ValueError if the engine is not a `TorchEngine`."""
        return self.torch_engine.models

    @property
    def linearisation(self) -> TopDown | InOrder | None:
        """The way in which a parser writes trees as symbols, or None for a translation model."""
        return self.engine.linearisation if isinstance(self.engine, TorchEngine) else None

    def __repr__(self) -> str:
        sizes = f"{self.source.size:,} source and {self.target.size:,} target subwords"
        if not isinstance(self.engine, TorchEngine):
            return f"Translator({type(self.engine).__name__}, {sizes}, {self.decoding!r})"
        models = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        return f"Translator({models}, {sizes}, {self.engine.precision} on {self.engine.device}, {self.decoding!r})"

    def with_source_tags(self, tags: Sequence[int], target_language: str | None = None) -> Self:
        """Returns a translator with the same models that prepends the token ids `tags` to each source."""
        tagging = copy.copy(self)
        tagging.source_tags, tagging.target_language = tuple(tags), target_language
        return tagging

    def with_stop_check(self, check: StopCheck) -> Self:
        """Returns a translator with the same models that calls `check` between the steps of each search.

        `check` can raise SearchStoppedError to stop the search; the method that translates or scores then raises it
        too. Other translators that use the same models are not affected.
        """
        checking = copy.copy(self)
        checking._stop_check = check
        return checking

    @overload
    def translate(self, text: str, **options: Unpack[TextOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Iterable[str], **options: Unpack[TextsOptions]) -> list[str]: ...
    def translate(self, text: str | Iterable[str], **options: Any) -> str | list[str]:
        """Translates one sentence or several sentences.

        Returns a str if `text` is a str, and a list of str if it is an iterable of str. Arguments and errors are those
        of `translate_records`, which can also return scores and several translations of each sentence.
        """
        if "n_best" in options:
            raise TypeError("`translate` returns one text for each: `translate_records` has `n_best`")
        records = self.translate_records(text, **options)
        return records.text if isinstance(records, Translation) else [record.text for record in records]

    @overload
    def translate_records(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: None = None, **options: Unpack[TextOptions]
    ) -> Translation: ...
    @overload
    def translate_records(
        self, text: Iterable[str], *, n_best: None = None, **options: Unpack[TextsOptions]
    ) -> list[Translation]: ...
    @overload
    def translate_records(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: int, **options: Unpack[TextOptions]
    ) -> list[Translation]: ...
    @overload
    def translate_records(
        self, text: Iterable[str], *, n_best: int, **options: Unpack[TextsOptions]
    ) -> list[list[Translation]]: ...
    def translate_records(
        self,
        text: str | Iterable[str],
        *,
        n_best: int | None = None,
        prefix: str | Iterable[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        **options: Unpack[SearchOptions],
    ) -> Translation | list[Translation] | list[list[Translation]]:
        """Translates one sentence to a `Translation`, or an iterable of sentences to a list of them.

        If `n_best` is given, the result for each text is a list of at most `n_best` translations, best first, instead
        of a single translation. `prefix` is the text with which the translation must begin; for several texts, it is an
        iterable with one prefix for each. The other options are described in `SearchOptions`.

        An empty text has an empty translation. A text with several sentences or lines is translated as if it were one
        sentence. Raises TypeError if a text is not a str. Raises ValueError if options exclude each other or are out of
        range, if the numbers of prefixes and texts differ, or if a text is too long.
        """
        method = search_method(self.decoding, 1 if n_best is None else n_best, **options)
        if isinstance(text, str):
            if prefix is not None and not isinstance(prefix, str):
                raise TypeError(f"`prefix` of one text is one str, not {type_in_words(prefix)}")
            (best,) = self.translate_lines(
                [text], method, prefixes=None if prefix is None else [prefix], batch_tokens=batch_tokens
            )
            _note_several_sentences([text])
            _note_file_name(text)
            return best[0] if n_best is None else best
        texts, prefixes = (
            list(_each_text(text, "text", or_one=True)),
            None if prefix is None else list(_each_text(prefix, "prefix")),
        )
        with progress_line():
            n_best_lists = self.translate_lines(texts, method, prefixes=prefixes, batch_tokens=batch_tokens)
        _note_several_sentences(texts)
        return [best[0] for best in n_best_lists] if n_best is None else n_best_lists

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefix: Iterable[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lookahead: int = LOOKAHEAD,
        **options: Unpack[SearchOptions],
    ) -> Iterator[str]:
        """Yields the translations of the lines in order, and reads at most `lookahead` lines ahead.

        If `lookahead` is 1, each line is translated before the next one is read. The other arguments are those of
        `translate`.
        """
        method = search_method(self.decoding, **options)

        def translations() -> Iterator[str]:
            if lookahead < 1:
                raise ValueError(f"`lookahead` is {lookahead}: read at least 1 line at a time")
            texts, prefixes = _each_text(lines, "text"), None if prefix is None else _each_text(prefix, "prefix")
            before = 0
            while window := list(islice(texts, lookahead)):
                some = None if prefixes is None else list(islice(prefixes, len(window)))
                for best in self.translate_lines(
                    window, method, prefixes=some, batch_tokens=batch_tokens, lines_before=before
                ):
                    yield best[0].text
                before += len(window)
            if prefixes is not None and (surplus := len(list(prefixes))):
                raise ValueError(
                    f"there are {before + surplus:,} prefixes for {before:,} texts: give one a text, or none"
                )

        return translations()

    def translate_lines(
        self,
        lines: Sequence[str],
        method: SearchMethod | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[list[Translation]]:
        """Returns a list of translations, best first, for each line.

        A line that has no letter outside URLs and e-mail addresses is not translated; it is copied without its
        invisible characters. `lines_before` is the number of lines that precede `lines` in the whole text. It is added
        to the line numbers in error messages and to the indices on which the random draws of sampling depend.
        """
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` is {batch_tokens}: translate at least 1 source position at a time")
        method, translations = method or SearchMethod(self.decoding), [[EMPTY] for _ in lines]
        with track("translating", len(lines)) as progress:
            for place, best in self.translate_each(lines, method, prefixes, batch_tokens, lines_before):
                if isinstance(best, str):
                    raise LineTooLargeError(lines_before + place + 1, best)
                translations[place] = best
                progress.advance()
        return translations

    def translate_each(
        self,
        lines: Sequence[str],
        method: SearchMethod,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> Iterator[tuple[int, list[Translation] | str]]:
        """Yields the index of each line, together with its translations or an error message.

        The lines that are copied come first. The others follow batch by batch, so they are not in their original order.
        The error messages are those of `translate_by_halves`, and the errors raised are those of `batches`.
        """
        batches = self.batches(lines, method, prefixes, batch_tokens, lines_before)
        if self.linearisation is None:
            yield from ((index, self.copied(line)) for index, line in enumerate(lines) if not self.is_translated(line))
        for batch in batches:
            for index, best in zip(batch.indices, self.translate_by_halves(batch, method), strict=True):
                yield index - lines_before, best

    def translate_by_halves(self, batch: SentenceBatch, method: SearchMethod) -> list[list[Translation] | str]:
        """Translates a batch, and splits it into halves if it does not fit in memory.

        For a line that does not fit in memory even by itself, the result contains an error message instead of
        translations. Other errors of the engine are raised.
        """

        # Hypotheses that segment the same text in different ways count as one translation. To find n different texts,
        # the search therefore returns all hypotheses in the beam.
        widened = method._replace(n_best=method.width) if method.n_best > 1 else method

        def translate(numbers: Sequence[int]) -> list[list[Translation] | str]:
            found = self.engine.search(batch.select(numbers), widened, self._check)
            return [decoded(best, self.target)[: method.n_best] for best in found]

        def fault(number: int) -> str:
            return f"has {len(batch.sources[number]):,} subwords, too many for the memory here; split the line"

        return run_by_halves(translate, range(len(batch.sources)), fault)

    def _check(self) -> None:
        """Calls the stop check, if there is one; it raises SearchStoppedError if the search must stop."""
        if self._stop_check is not None:
            self._stop_check()

    def batches(
        self,
        lines: Sequence[str],
        method: SearchMethod,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[SentenceBatch]:
        """Encodes the lines that have text to translate and groups them into batches by length, longest first.

        Raises ValueError if a line or a prefix is too long, if the numbers of prefixes and lines differ, or if a line
        has a prefix but no text to translate.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"there are {len(prefixes):,} prefixes for {len(lines):,} texts: give one prefix a text, or none"
            )
        places = [place for place, line in enumerate(lines) if self.is_translated(line)]
        for place, prefix in enumerate(prefixes or ()):
            if prefix.strip() and not self.is_translated(lines[place]):
                raise ValueError(
                    f"line {lines_before + place + 1} has no text to translate, and its prefix is {prefix!r}: empty it"
                )
        numbers = [lines_before + place + 1 for place in places]
        sources = self.encode_sources([lines[place] for place in places], "", numbers)
        forced = [list[int]() for _ in places]
        if prefixes:
            beginnings = _without_last_space([prefixes[place] for place in places])
            forced = self.encode_checked(beginnings, self.target, " of the prefixes", numbers)
        extra, limit = method.decoding.extra_length, self.max_line_tokens + 1
        bounds = max_lengths(sources, forced, len(self.source_tags), extra, limit)
        whole = SentenceBatch([lines_before + place for place in places], sources, forced, bounds)
        lengths = np.array([max(map(len, pair)) + 1 for pair in zip(sources, forced, strict=True)], dtype=np.int64)
        return [
            whole.select(chosen.tolist())
            for chosen in sentence_batches(lengths, batch_tokens, method.width, self.target.size)
        ]

    def line_faults(self, lines: Sequence[str], prefixes: Sequence[str] | None = None) -> dict[int, str]:
        """Returns a dictionary of error messages for the lines that are too long or have a prefix that is too long.

        The keys are the indices of these lines.
        """
        sides = [("", self._encode(lines, self.source, self.source_tags))]
        if prefixes:
            beginnings = _without_last_space(prefixes)
            sides.insert(0, ("must begin with a prefix that ", self._encode(beginnings, self.target)))
        return {
            place: f"{beginning}{tokens}"
            for beginning, side in sides
            for place, tokens in enumerate(side)
            if isinstance(tokens, str) and lines[place].strip()
        }

    def check_lengths(self, lines: Sequence[str]) -> None:
        """Raises ValueError if any line is too long, so that the error occurs before translation starts."""
        # A subword has at least one byte, so a line with few bytes cannot be too long.
        long = [place for place, line in enumerate(lines) if len(line.encode()) > self.max_line_tokens]
        for place, fault in sorted(self.line_faults([lines[place] for place in long]).items()):
            raise ValueError(f"line {long[place] + 1} {fault}")

    def is_translated(self, line: str) -> bool:
        """Returns True if a line has to be translated or parsed, and False if it is only copied."""
        return bool(line.strip()) if self.linearisation is not None else has_text_to_translate(line)

    def copied(self, line: str) -> list[Translation]:
        """Returns the output for a line that is not translated: its normalised text, or an empty text for a parser."""
        text = normalise(line, "target") if self.linearisation is None else ""
        return [EMPTY._replace(text=one_line(text))]

    def encode_sources(
        self, lines: Sequence[str], side: str = " of the source", numbers: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Encodes each line and prepends the source tags; raises ValueError like `encode_checked`."""
        return self.encode_checked(lines, self.source, side, numbers, self.source_tags)

    def encode_checked(
        self,
        lines: Sequence[str],
        subwords: TokenVocabulary,
        side: str,
        numbers: Sequence[int] | None = None,
        tags: Sequence[int] = (),
    ) -> list[list[int]]:
        """Returns, for each line, `tags` followed by the line's tokens.

        Raises ValueError if a line is too long. The error message identifies the line by its entry in `numbers` and by
        `side`, for example " of the source".
        """
        encoded = []
        for place, tokens in enumerate(self._encode(lines, subwords, tags)):
            if isinstance(tokens, str):
                raise ValueError(f"line {numbers[place] if numbers else place + 1}{side} {tokens}")
            encoded.append(tokens)
        return encoded

    def _encode(self, lines: Sequence[str], side: TokenVocabulary, tags: Sequence[int] = ()) -> list[list[int] | str]:
        """Returns, for each line, `tags` followed by the line's tokens, or an error message if the line is too long."""
        return encode_lines(lines, side, self.max_line_tokens, self._attention_heads, tags)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[float]:
        """Returns the log-probability of each target given its source, including the EOS token.

        A target can often be segmented into subwords in several ways. The score is that of the most probable
        segmentation that is found, so a translation gets the log-probability that it had when it was generated.
        """
        pairs = self._encode_pairs(sources, targets)
        scored = self._score(pairs, batch_tokens)
        scores = [float(each.log_probabilities.sum()) for each in scored]
        split = [place for place, each in enumerate(scored) if each.has_rival]
        lengths = np.array([max(map(len, pairs[place])) + 1 for place in split], dtype=np.int64)
        for batch in sentence_batches(lengths, batch_tokens):
            places = [split[index] for index in batch.tolist()]
            best = run_by_halves(
                lambda some: self.torch_engine.score_best_split([pairs[place] for place in some], self._check), places
            )
            for place, score in zip(places, best, strict=True):
                scores[place] = max(scores[place], score)
        return scores

    def token_scores(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """Returns the log-probabilities of the tokens of each target, including the EOS token.

        Raises ValueError if the numbers of sources and targets differ, or if a line is too long. Raises
        LineTooLargeError if a pair does not fit in memory even by itself, and RuntimeError if a log-probability is not
        finite.
        """
        return self.score_tokens(self._encode_pairs(sources, targets), batch_tokens=batch_tokens)

    def _encode_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> list[TokenPair]:
        """Encodes the sources, including their tags, and the targets; raises ValueError like `token_scores`."""
        sources, targets = list(_each_text(sources, "source")), list(_each_text(targets, "target"))
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources):,} sources and {len(targets):,} targets: give one target a source"
            )
        return list(zip(self.encode_sources(sources), self._encode_targets(targets), strict=True))

    def score_tokens(
        self, pairs: Sequence[TokenPair], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """Computes the same scores as `token_scores` from token ids instead of text.

        Each pair consists of source tokens, including the source tags, and target tokens.
        """
        return [scored.log_probabilities for scored in self._score(pairs, batch_tokens)]

    def _score(self, pairs: Sequence[TokenPair], batch_tokens: int) -> list[ScoredTarget]:
        """Returns the scores of each pair; raises LineTooLargeError and RuntimeError like `token_scores`."""
        lengths = np.array([max(map(len, pair)) + 1 for pair in pairs], dtype=np.int64)
        scores: list[ScoredTarget] = [ScoredTarget(np.zeros(0), has_rival=False)] * len(pairs)
        for places in sentence_batches(lengths, batch_tokens):
            for place, row in zip(places, self._score_by_halves(pairs, places), strict=True):
                if not np.isfinite(row.log_probabilities).all():
                    raise RuntimeError(
                        f"line {place + 1}: the model computes no finite log-probability, because its weights are "
                        "damaged or too large; restore it from a backup, or train it with a lower learning rate"
                    )
                scores[int(place)] = row
        return scores

    def _encode_targets(self, targets: Sequence[str]) -> list[list[int]]:
        """Encodes each target; raises ValueError if a target is too long or contains unknown symbols."""
        encoded = self.encode_checked(targets, self.target, " of the target")
        for number, tokens in enumerate(encoded, start=1):
            if isinstance(self.target, SymbolVocabulary) and UNKNOWN in tokens:
                symbol = targets[number - 1].split()[tokens.index(UNKNOWN)]
                raise ValueError(
                    f"line {number} of the target has {symbol!r}, no symbol of this parser: write the symbols of a "
                    "tree, such as `(S (NP PRP )NP )S`, and not the tree"
                    if self.linearisation is not None
                    else f"line {number} of the target has {symbol!r}, no token of this model, which takes text that "
                    "is cut already, as its training text was"
                )
        return encoded

    def _score_by_halves(self, pairs: Sequence[TokenPair], places: NDArray[np.int64]) -> list[ScoredTarget]:
        """Scores the pairs at the indices `places`, and splits them into halves if they do not fit in memory."""

        def refuse(place: int) -> ScoredTarget:
            source, target = pairs[place]
            lengths = f"{len(source):,} source and {len(target):,} target subwords"
            raise LineTooLargeError(place + 1, f"has {lengths}, too many for the memory here; split the line")

        engine = self.torch_engine
        return run_by_halves(
            lambda some: engine.score([pairs[place] for place in some], self._check), places.tolist(), refuse
        )

    def explain(self, text: str, target: str | list[int] | None = None) -> Explanation:
        """Returns the translation of `text` together with the attention weights of the first model.

        If `target` is given, as text or as tokens, it is used instead of the model's translation. Raises ValueError if
        a text is too long or if the first model has no attention weights to show, and LineTooLargeError if the weights
        do not fit in memory.
        """
        if not isinstance(text, str):
            raise TypeError(f"`text` is {type_in_words(text)}: `explain` takes one sentence, a str")
        engine = self.torch_engine
        engine.check_ready()
        engine.attention_model()
        end = engine.symbols.end
        (source_tokens,) = self.encode_sources([text])
        if isinstance(target, str):
            (target_tokens,) = self._encode_targets([target])
        else:
            tokens = self.translate_records(text).tokens if target is None else target
            # A translation that was cut off at its bound may have one token more than the model has positions.
            target_tokens = tokens[: self.max_line_tokens]
        try:
            encoder, decoder, cross = engine.attention_weights(source_tokens, target_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            lengths = f"{len(source_tokens):,} source and {len(target_tokens):,} target subwords"
            fault = f"has {lengths}, whose attention weights are too many for the memory here; split the line"
            raise LineTooLargeError(1, fault) from None
        return Explanation(
            source=tuple(self.source.readable_subwords([*source_tokens, end])),
            target=tuple(self.target.readable_subwords([*target_tokens, end])),
            source_text=text,
            target_text=one_line(self.target.decode([target_tokens])[0]),
            encoder=encoder,
            decoder=decoder,
            cross=cross,
            tag_count=len(self.source_tags),
        )

    def check_explicable(self) -> None:
        """Raises ValueError if `explain` cannot return attention weights for this engine and its first model."""
        self.torch_engine.attention_model()

    def __copy__(self) -> Self:
        """Copies the translator but shares its models.

        By default, `copy.copy` would pickle the translator and so load the models again.
        """
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copies the translator together with its models."""
        copied = copy.copy(self)
        copied.engine = copy.deepcopy(self.engine, memo)
        copied._loaded = ()  # the records belong to the original's models
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a description of how the models were loaded, instead of the models themselves.

        Raises ValueError if the weights have been changed since they were loaded. Raises TypeError if the translator
        was not created by `load`, or if it has a stop check, because it then cannot be unpickled in another process.
        """
        if self._origin is None:
            raise TypeError(
                f"this {type(self).__name__} was not made by `Translator.load`, so another process cannot load its "
                "models: make one there"
            )
        if self._stop_check is not None:
            raise TypeError("a translator with a stop check cannot be pickled: add the check in the other process")
        if not self._loaded or not all(record.is_current() for record in self._loaded):
            self._check_weights(_load_origin(type(self), self._origin))
        return _load_again, (type(self), self._origin, self.decoding, self.source_tags, self.target_language)

    def _check_weights(self, loaded: "Translator") -> None:
        """Raises ValueError if the weights of the models differ from those of `loaded`, which has just been loaded."""
        for ours, theirs in zip(self.models, loaded.models, strict=True):
            left, right = dict(ours.named_parameters()), dict(theirs.named_parameters())
            are_equal = left.keys() == right.keys() and all(
                left[name].dtype == right[name].dtype and torch.equal(left[name].cpu(), right[name].cpu())
                for name in left
            )
            if not are_equal:
                raise ValueError(
                    "the weights were changed after loading, and another process would load those of the directory: "
                    "write the changed model into a directory of its own, and load that"
                )
        self._loaded = tuple(map(WeightsRecord, self.models))


def _load_again(
    kind: type[Translator],
    origin: _Origin,
    decoding: Decoding,
    source_tags: tuple[int, ...],
    target_language: str | None,
) -> Translator:
    """Unpickles a translator; raises ValueError if the model in a directory has changed since it was first loaded.

    A forked process does not have the threads of its parent, so it translates with a single thread. A worker process
    receives the translator again with every task, so it caches the models that it has loaded.
    """
    if count_forks():
        torch.set_num_threads(1)
    load = _load_once if parent_process() is not None else _load_origin
    translator = load(kind, origin).with_source_tags(source_tags, target_language)
    translator.decoding = decoding
    return translator


def _load_origin(kind: type[Translator], origin: _Origin) -> Translator:
    for directory, loaded in zip(origin.directories, origin.fingerprints, strict=True):
        if fingerprint(directory) != loaded:
            raise ValueError(f"the model in {directory} has changed since the translator was loaded: load it again")
    return kind._read(origin.directories, origin.device, origin.precision)


# The cache has several entries because the tasks of a pool may alternate between translators.
_load_once = cast(Callable[[type[Translator], _Origin], Translator], lru_cache(maxsize=4)(_load_origin))


def _each_text(lines: Iterable[str], name: str, *, or_one: bool = False) -> Iterator[str]:
    """Yields each text of an iterable without its line ending; `name` is the argument's name in error messages.

    Raises TypeError if `lines` is a single str or is not an iterable of str.
    """
    kind = type_in_words(lines)
    if isinstance(lines, PathLike):
        raise TypeError(f"`{name}` is the path of a file: give the open file, `open(path, encoding='utf-8')`")
    if isinstance(lines, Mapping) or hasattr(lines, "columns"):
        raise TypeError(f"`{name}` is {kind}: give one of its columns or values, such as {name}['en']")
    if isinstance(lines, bytes):
        raise TypeError(f"`{name}` is a bytes: give text, `{name}.decode()`")
    if isinstance(lines, str) or not isinstance(lines, Iterable):
        one = "a str, or " if or_one else ""
        raise TypeError(f"`{name}` is {kind}: give {one}a list, or another iterable, of str")
    for number, line in enumerate(lines, start=1):
        if line is None or (isinstance(line, float) and line != line):
            raise TypeError(f"`{name}` {number} is {line}, a missing value: put '' in its place, or leave it out")
        if isinstance(line, bytes):
            raise TypeError(f"`{name}` {number} is a bytes, not a str: open the file as text, or `decode()` its bytes")
        if not isinstance(line, str):
            flat = ": give one flat list" if isinstance(line, list | tuple) else ""
            raise TypeError(f"`{name}` {number} is {type_in_words(line)}, not a str{flat}")
        yield line[:-1].removesuffix("\r") if line.endswith("\n") else line


def _note_several_sentences(texts: Sequence[str]) -> None:
    """Logs a note if texts seem to contain several sentences, because each text is translated as one."""
    if numbers := [number for number, text in enumerate(texts, start=1) if has_several_sentences(text)]:
        remedy = "each text is translated as one sentence; give a list with one sentence each"
        _log.warning("note: %s; %s", several_sentences_in(numbers, "text"), remedy)


def _note_file_name(text: str) -> None:
    """Logs a note if the text is the name of a file, because the file is not read."""
    with contextlib.suppress(OSError):  # a text without spaces, for example in Japanese, can be too long for a name
        if " " not in text and Path(text).is_file():
            _log.warning(
                f"note: {text} is also a file, which was not read; open({text!r}, encoding='utf-8') gives its lines"
            )


def _without_last_space(prefixes: Sequence[str]) -> list[str]:
    """Removes trailing spaces from prefixes, because in the subwords a space belongs to the word that follows it."""
    return [prefix.rstrip() for prefix in prefixes]


def _same_subwords(first: Model, second: Model) -> bool:
    """Returns True if two models have the same subwords on both sides."""
    sides = ((first.source, second.source), (first.target, second.target))
    return all(left.as_json() == right.as_json() for left, right in sides)
