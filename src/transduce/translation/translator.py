"""The translator: from text to text, with one model, an ensemble, or any other search engine."""

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
from transduce.model_directory.manifest import fingerprint
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

BATCH_TOKENS = 8192  # source positions translated at once
SCORED_TOKENS = 4096  # positions scored at once; the log-probabilities of all of them are in memory
LOOKAHEAD = 1000  # lines that a stream reads before it translates


class _Origin(NamedTuple):
    """Where a translator was loaded from; pickling saves this instead of the models."""

    directories: tuple[Path, ...]
    fingerprints: tuple[str, ...]
    device: str
    precision: TranslationPrecision


class Translator:
    """Translates text with an engine; with one torch model or an ensemble, it also scores and explains.

    A translator that was made by `load` can be pickled, so that `Pool.map(translator.translate, texts)` works: the
    other process loads the same directories.
    """

    configs: tuple[Config, ...] = ()
    """The settings of the models that `load` has read."""

    _origin: _Origin | None = None
    _loaded: tuple[WeightsRecord, ...] = ()  # the models' weights as the directories have them; empty: not known

    def __init__(
        self, engine: SearchEngine, source: TokenVocabulary, target: TokenVocabulary, decoding: Decoding
    ) -> None:
        """Takes an engine that reads tokens of `source` and writes tokens of `target`.

        `load` builds one from models.
        """
        self.engine, self.source, self.target, self.decoding = engine, source, target, decoding
        self.max_line_tokens = engine.max_line_tokens
        self.source_tags: tuple[int, ...] = ()
        self.target_language: str | None = None  # set for a model with several directions
        self._stop_check: StopCheck | None = None
        # For messages about memory; in int8 the attention weights of only a few rows are in memory at a time.
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
        """Builds a translator from models in evaluation mode; arguments and errors are as in `TorchEngine`."""
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
        """Reads the model of one directory, or an ensemble from several.

        `device` is auto, cpu, cuda or cuda:1. `precision` int8 is for a CPU: much faster and nearly as accurate;
        bfloat16 is for a GPU. A model with several directions needs `to`, the target language; see `into`. Raises
        ValueError if a model is missing or damaged, the models have different subwords, or the device or the precision
        is not available.
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
        """Reads the models of directories, without choosing a direction."""
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
        """Returns a translator with the same models for another request.

        `to` is the target language; it is required if the models have several. `source_language` must be a language
        that the models were trained on, and `tag` a tag that they were trained with. Raises ValueError for other
        languages or tags. Logs a note that a direction is zero-shot if the models were trained on both its languages,
        but not in this direction.
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
        """The code of the source language; None if the model has none or several."""
        return self.configs[0].source_language if self.configs else None

    @property
    def torch_engine(self) -> TorchEngine:
        """The engine; raises ValueError if it has no torch models, because it then cannot score or explain."""
        if not isinstance(self.engine, TorchEngine):
            raise ValueError("this engine translates alone: load the model with torch to score or to explain with it")
        return self.engine

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """The torch models of the engine; raises ValueError like `torch_engine`."""
        return self.torch_engine.models

    @property
    def linearisation(self) -> TopDown | InOrder | None:
        """How the trees of a parser are written; None for a model that translates."""
        return self.engine.linearisation if isinstance(self.engine, TorchEngine) else None

    def __repr__(self) -> str:
        sizes = f"{self.source.size:,} source and {self.target.size:,} target subwords"
        if not isinstance(self.engine, TorchEngine):
            return f"Translator({type(self.engine).__name__}, {sizes}, {self.decoding!r})"
        models = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        return f"Translator({models}, {sizes}, {self.engine.precision} on {self.engine.device}, {self.decoding!r})"

    def with_source_tags(self, tags: Sequence[int], target_language: str | None = None) -> Self:
        """Returns a translator with the same models that puts the ids `tags` before each source."""
        tagging = copy.copy(self)
        tagging.source_tags, tagging.target_language = tuple(tags), target_language
        return tagging

    def with_stop_check(self, check: StopCheck) -> Self:
        """Returns a translator with the same models that calls `check` between the steps of each search.

        If `check` raises SearchStoppedError, so does the method that translates or scores. Other translators of the
        same models are not affected.
        """
        checking = copy.copy(self)
        checking._stop_check = check
        return checking

    @overload
    def translate(self, text: str, **options: Unpack[TextOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Iterable[str], **options: Unpack[TextsOptions]) -> list[str]: ...
    def translate(self, text: str | Iterable[str], **options: Any) -> str | list[str]:
        """Translates one sentence to a str, or an iterable of sentences to a list of str.

        Arguments and errors are as in `translate_records`, which can also return scores and several translations.
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
        """Translates one sentence to a `Translation`, or an iterable of sentences to a list.

        With `n_best` each text gets a list of at most `n_best` translations, best first, instead of a single one.
        `prefix` is the beginning of the translation, or an iterable with one prefix for each text. `options` are
        described in `SearchOptions`. An empty text has an empty translation; several sentences, or several lines, count
        as one sentence. Raises TypeError if a text is not a str. Raises ValueError for options that exclude each other
        or are out of range, if the numbers of prefixes and texts differ, and for a text that is too long.
        """
        method = search_method(self.decoding, 1 if n_best is None else n_best, **options)
        if isinstance(text, str):
            if prefix is not None and not isinstance(prefix, str):
                raise TypeError(f"`prefix` of one text is one str, not {type_in_words(prefix)}")
            (best,) = self.translate_lines(
                [text], method, prefixes=None if prefix is None else [prefix], batch_tokens=batch_tokens
            )
            _note_several_sentences([text])
            return best[0] if n_best is None else best
        texts, prefixes = list(_each_text(text, "text")), None if prefix is None else list(_each_text(prefix, "prefix"))
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
        """Yields the translation of each line, in order; reads at most `lookahead` lines ahead.

        With a `lookahead` of 1, each line is translated before the next is read. The other arguments are as in
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
        """Returns the translations of each line, best first; a line without text to translate is copied.

        A line without text to translate has no letter outside URLs and e-mail addresses; the copy has no invisible
        characters. `lines_before` counts the lines of the text before these: messages and draws use the number in the
        whole text.
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
        """Yields each line's index with its translations or a message: first copied lines, then batch by batch.

        Messages and errors are as in `translate_by_halves` and `batches`.
        """
        batches = self.batches(lines, method, prefixes, batch_tokens, lines_before)
        if self.linearisation is None:
            yield from ((index, self.copied(line)) for index, line in enumerate(lines) if not self.is_translated(line))
        for batch in batches:
            for index, best in zip(batch.indices, self.translate_by_halves(batch, method), strict=True):
                yield index - lines_before, best

    def translate_by_halves(self, batch: SentenceBatch, method: SearchMethod) -> list[list[Translation] | str]:
        """Translates a batch, in halves if memory is short; a line that does not fit even alone gets a message instead.

        Raises the errors of the engine.
        """

        # Two splits into subwords may spell the same text, so all hypotheses of the beam are candidates for n different
        # texts.
        widened = method._replace(n_best=method.width) if method.n_best > 1 else method

        def translate(numbers: Sequence[int]) -> list[list[Translation] | str]:
            found = self.engine.search(batch.select(numbers), widened, self._check)
            return [decoded(best, self.target)[: method.n_best] for best in found]

        def fault(number: int) -> str:
            return f"has {len(batch.sources[number]):,} subwords, too many for the memory here; split the line"

        return run_by_halves(translate, range(len(batch.sources)), fault)

    def _check(self) -> None:
        """Raises SearchStoppedError if a search must stop; does nothing without a stop check."""
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
        """Encodes the lines with text to translate and groups them by length, longest first.

        Raises ValueError for a line or a prefix that is too long, if the numbers of prefixes and lines differ, and if a
        line without text to translate has a prefix.
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
        """Returns a message, by line index, for each line that is too long or whose prefix is too long."""
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
        """Raises ValueError for the first line that is too long, before any line is translated."""
        # A subword has at least one byte, so a line with few bytes cannot be too long.
        long = [place for place, line in enumerate(lines) if len(line.encode()) > self.max_line_tokens]
        for place, fault in sorted(self.line_faults([lines[place] for place in long]).items()):
            raise ValueError(f"line {long[place] + 1} {fault}")

    def is_translated(self, line: str) -> bool:
        """True if a line is translated or parsed; False if it is copied."""
        return bool(line.strip()) if self.linearisation is not None else has_text_to_translate(line)

    def copied(self, line: str) -> list[Translation]:
        """Returns the output for a line that is not translated."""
        text = normalise(line, "target") if self.linearisation is None else ""
        return [EMPTY._replace(text=one_line(text))]

    def encode_sources(
        self, lines: Sequence[str], side: str = " of the source", numbers: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Encodes each line, with the source tags before it; raises ValueError like `encode_checked`."""
        return self.encode_checked(lines, self.source, side, numbers, self.source_tags)

    def encode_checked(
        self,
        lines: Sequence[str],
        subwords: TokenVocabulary,
        side: str,
        numbers: Sequence[int] | None = None,
        tags: Sequence[int] = (),
    ) -> list[list[int]]:
        """Returns `tags` and the tokens of each line.

        Raises ValueError for a line that is too long; `side`, for example " of the source", and `numbers` locate it.
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
        """Returns the log-probability of each target given its source, including the end symbol.

        If a text can be split into subwords in several ways, the most probable split that is found is scored, so that a
        translation gets the log-probability that it had when it was generated.
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
        """Returns the log-probability of each token of each target, including the end symbol.

        Raises ValueError if the numbers of sources and targets differ, or if a line is too long. Raises
        LineTooLargeError for a pair that does not fit into memory even alone, and RuntimeError for a log-probability
        that is not finite.
        """
        return self.score_tokens(self._encode_pairs(sources, targets), batch_tokens=batch_tokens)

    def _encode_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> list[TokenPair]:
        """Encodes sources, tags included, and targets; raises ValueError like `token_scores`."""
        sources, targets = list(_each_text(sources, "source")), list(_each_text(targets, "target"))
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources):,} sources and {len(targets):,} targets: give one target a source"
            )
        return list(zip(self.encode_sources(sources), self._encode_targets(targets), strict=True))

    def score_tokens(
        self, pairs: Sequence[TokenPair], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """Like `token_scores`, but for pairs of source tokens, tags included, and target tokens."""
        return [scored.log_probabilities for scored in self._score(pairs, batch_tokens)]

    def _score(self, pairs: Sequence[TokenPair], batch_tokens: int) -> list[ScoredTarget]:
        """Scores each pair; raises the errors of `token_scores`."""
        lengths = np.array([max(map(len, pair)) + 1 for pair in pairs], dtype=np.int64)
        scores: list[ScoredTarget] = [ScoredTarget(np.zeros(0), has_rival=False)] * len(pairs)
        for places in sentence_batches(lengths, batch_tokens):
            for place, row in zip(places, self._score_by_halves(pairs, places), strict=True):
                if not np.isfinite(row.log_probabilities).all():
                    raise RuntimeError(
                        f"line {place + 1}: the model computes no finite log-probability, because its weights are "
                        "damaged or too large; restore it from a backup, or train it with a lower rate"
                    )
                scores[int(place)] = row
        return scores

    def _encode_targets(self, targets: Sequence[str]) -> list[list[int]]:
        """Encodes each target; raises ValueError for one that is too long or has unknown symbols."""
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
        """Scores the pairs at `places`, in halves if memory is short."""

        def refuse(place: int) -> ScoredTarget:
            source, target = pairs[place]
            lengths = f"{len(source):,} source and {len(target):,} target subwords"
            raise LineTooLargeError(place + 1, f"has {lengths}, too many for the memory here; split the line")

        engine = self.torch_engine
        return run_by_halves(
            lambda some: engine.score([pairs[place] for place in some], self._check), places.tolist(), refuse
        )

    def explain(self, text: str, target: str | list[int] | None = None) -> Explanation:
        """Returns the translation of `text`, or `target` (text or tokens), with the first model's attention weights.

        Raises ValueError if the first model has no attention weights to show, or a text is too long, and
        LineTooLargeError if the weights do not fit into memory.
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
            # A translation that was cut at its bound may be a token longer than the positions.
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
        """Raises ValueError if the engine or the first model has no attention weights to show."""
        self.torch_engine.attention_model()

    def __copy__(self) -> Self:
        """Copies the translator but shares its models; by default copying would pickle, and load them again."""
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
        """Pickles the origin of the models instead of the models.

        Raises ValueError if the weights were changed after loading, and TypeError if another process cannot load the
        models.
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
        """Raises ValueError unless the models have the same weights as the models just `loaded`."""
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
    """Rebuilds a pickled translator; raises ValueError if a directory's model has changed since it was loaded.

    A forked process lacks the threads of its parent, so it translates with one thread. A worker process, which gets the
    translator with each task, loads it only once.
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


# More than one entry, because a pool may alternate between directions.
_load_once = cast(Callable[[type[Translator], _Origin], Translator], lru_cache(maxsize=4)(_load_origin))


def _each_text(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yields each text of an iterable without its line end; `name` is the name of a text in messages.

    Raises TypeError if `lines` is not an iterable of str; a single str is an error too.
    """
    kind = type_in_words(lines)
    if isinstance(lines, PathLike):
        raise TypeError(f"`{name}` is the path of a file: give the open file, `open(path, encoding='utf-8')`")
    if isinstance(lines, Mapping) or hasattr(lines, "columns"):
        raise TypeError(f"`{name}` is {kind}: give one of its columns or values, such as {name}['en']")
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise TypeError(f"`{name}` is {kind}: give a list, or another iterable, of str")
    for number, line in enumerate(lines, start=1):
        if line is None or (isinstance(line, float) and line != line):
            raise TypeError(f"`{name}` {number} is {line}, a missing value: put '' in its place, or leave it out")
        if not isinstance(line, str):
            raise TypeError(f"`{name}` {number} is {type_in_words(line)}, not a str")
        yield line[:-1].removesuffix("\r") if line.endswith("\n") else line


def _note_several_sentences(texts: Sequence[str]) -> None:
    """Logs a warning for texts that seem to hold several sentences."""
    if numbers := [number for number, text in enumerate(texts, start=1) if has_several_sentences(text)]:
        _log.warning("note: %s; each text is translated as one sentence", several_sentences_in(numbers, "text"))


def _without_last_space(prefixes: Sequence[str]) -> list[str]:
    """Strips the spaces at the ends of prefixes, because a space belongs to the word that follows."""
    return [prefix.rstrip() for prefix in prefixes]


def _same_subwords(first: Model, second: Model) -> bool:
    """Whether two models have the same subwords on both sides."""
    sides = ((first.source, second.source), (first.target, second.target))
    return all(left.as_json() == right.as_json() for left, right in sides)
