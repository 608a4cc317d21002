"""Translation of lines in batches: what commands, bulk translation and validation call."""

import copy
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Self

import numpy as np
import torch
from torch import Tensor

from transduce.model import TranslationModel
from transduce.runtime.forks import count_forks
from transduce.runtime.out_of_memory import run_by_halves
from transduce.runtime.progress import track
from transduce.search import (
    Decoding,
    ForcedPrefix,
    Hypothesis,
    NoRepeatedNgrams,
    SearchProblem,
    Stepper,
    StopCheck,
    StoppableStepper,
    beam_search,
    greedy_search,
    pad_rows,
    sample,
)
from transduce.text.linearisation import InOrder, TopDown
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.batching import SentenceBatch, sentence_batches
from transduce.translation.line_lengths import MAX_LINE_TOKENS, LineTooLargeError, count_heads, encode_lines
from transduce.translation.model_steppers import ModelSteppers
from transduce.translation.precision import TranslationPrecision, check_precision
from transduce.translation.results import EMPTY, Translation, decoded
from transduce.translation.search_method import SearchMethod, uniform_draws
from transduce.translation.search_rules import SearchRules
from transduce.translation.search_threads import map_in_threads
from transduce.translation.texts import each_text, without_last_space
from transduce.translation.tree_search import TreeSearch

__all__ = ["LineTranslator"]

_log = logging.getLogger("transduce")

BATCH_TOKENS = 8192  # source positions translated at once
LOOKAHEAD = 1000  # lines that a stream reads before it translates


class LineTranslator:
    """Translates lines with one model, or with an ensemble of models that share their subwords."""

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: TokenVocabulary,
        target: TokenVocabulary,
        decoding: Decoding,
        precision: TranslationPrecision = "float32",
        linearisation: TopDown | InOrder | None = None,
    ) -> None:
        """Takes models in evaluation mode; with `linearisation` they are parsers, and search is constrained to trees.

        Raises ValueError for an unknown precision.
        """
        check_precision(precision)
        self.models, self.source, self.target, self.decoding = tuple(models), source, target, decoding
        self.precision, self.linearisation, self._forks = precision, linearisation, count_forks()
        self._steppers = ModelSteppers(self.models, int8=precision == "int8")
        self._stop_check: StopCheck | None = None
        self.symbols = models[0].spec.symbols
        limits = [model.max_positions - 1 for model in models if model.max_positions is not None]
        self.max_line_tokens = min([*limits, MAX_LINE_TOKENS])  # of a source or a prefix, without the end symbol
        self.source_tags: tuple[int, ...] = ()
        self.target_language: str | None = None  # of a model of several directions
        self._tree_search = None if linearisation is None else TreeSearch(linearisation, target, self.device)
        # For the memory that a line needs at most; in int8 the attention weights of few rows are in memory at a time.
        self._attention_heads = 0 if precision == "int8" else count_heads(models)

    @property
    def device(self) -> torch.device:
        """The device of the models."""
        return next(self.models[0].parameters()).device

    def with_source_tags(self, tags: Sequence[int], target_language: str | None = None) -> Self:
        """Returns a translator with the same models that puts the ids `tags` before each source."""
        tagging = copy.copy(self)
        tagging.source_tags, tagging.target_language = tuple(tags), target_language
        return tagging

    def with_stop_check(self, check: StopCheck) -> Self:
        """Returns a translator with the same models that calls `check` between the steps of each search.

        Where `check` raises SearchStoppedError, so does the method that translates or scores. Other translators of the
        same models are not affected.
        """
        checking = copy.copy(self)
        checking._stop_check = check
        return checking

    def __copy__(self) -> Self:
        """Returns a translator with the same models, where pickling would load them again."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Returns a translator with copies of the models."""
        copied = copy.copy(self)
        copied.models = copy.deepcopy(self.models, memo)
        copied._steppers = ModelSteppers(copied.models, int8=self.precision == "int8")
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"this {type(self).__name__} was not made by `Translator.load`, so another process cannot load its models: "
            "make one there"
        )

    def current_stepper(self) -> tuple[Stepper, bool]:
        """Returns the stepper for the weights at the last call of `_check_ready`, and whether it is compiled."""
        stepper, compiled = self._steppers.current
        return (stepper if self._stop_check is None else StoppableStepper(stepper, self._stop_check)), compiled

    def translate_lines(
        self,
        lines: Sequence[str],
        method: SearchMethod | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[list[Translation]]:
        """Returns the translations of each line, best first; of an empty line one empty translation.

        `lines_before` counts the lines of the text before these: messages and draws use the number in the whole text.
        """
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` is {batch_tokens}: translate at least 1 source position at a time")
        method, translations = method or SearchMethod(self.decoding), [[EMPTY] for _ in lines]
        with track("translating", sum(1 for line in lines if line.strip())) as progress:
            for place, best in self.translate_each(lines, method, prefixes, batch_tokens, lines_before):
                if isinstance(best, str):
                    raise LineTooLargeError(lines_before + place + 1, best)
                translations[place] = best
                progress.advance()
        return translations

    def stream_lines(
        self,
        lines: Iterable[str],
        method: SearchMethod,
        *,
        prefixes: Iterable[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lookahead: int = LOOKAHEAD,
    ) -> Iterator[list[Translation]]:
        """Yields the translations of each line, in order; reads `lookahead` lines at a time."""
        if lookahead < 1:
            raise ValueError(f"`lookahead` is {lookahead}: read at least 1 line at a time")
        texts, remaining = each_text(lines, "text"), None if prefixes is None else each_text(prefixes, "prefix")
        before = 0
        while window := list(islice(texts, lookahead)):
            window_prefixes = None if remaining is None else list(islice(remaining, len(window)))
            yield from self.translate_lines(
                window, method, prefixes=window_prefixes, batch_tokens=batch_tokens, lines_before=before
            )
            before += len(window)
        if remaining is not None and (surplus := len(list(remaining))):
            raise ValueError(f"there are {before + surplus:,} prefixes for {before:,} texts: give one a text, or none")

    def translate_each(
        self,
        lines: Sequence[str],
        method: SearchMethod,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> Iterator[tuple[int, list[Translation] | str]]:
        """Yields the place of each line that is not empty, and its translations or a message, batch by batch.

        Messages and errors are those of `translate_by_halves` and `batches`.
        """
        for batch in self.batches(lines, method, prefixes, batch_tokens, lines_before):
            yield from zip(batch.places, self.translate_by_halves(batch, method, lines_before), strict=True)

    def translate_by_halves(
        self, batch: SentenceBatch, method: SearchMethod, lines_before: int = 0
    ) -> list[list[Translation] | str]:
        """Translates a batch, in halves where memory is short; a line that does not fit alone has a message instead.

        Raises ValueError where a model is in training mode, RuntimeError in a forked process that lacks threads.
        """
        self._check_ready()

        def translate(numbers: Sequence[int]) -> list[list[Translation] | str]:
            if not self.current_stepper()[1]:
                return map_in_threads(search, numbers, 1)
            tokens = sum(len(batch.sources[number]) + 1 for number in numbers)
            return map_in_threads(search, numbers, torch.get_num_threads(), tokens)

        def search(numbers: Sequence[int], check: StopCheck) -> list[list[Translation] | str]:
            hypotheses = self._search(batch.select(numbers), method, lines_before, check)
            return [decoded(best, self.target) for best in hypotheses]

        def fault(number: int) -> str:
            return f"has {len(batch.sources[number]):,} subwords, too many for the memory here; split the line"

        return run_by_halves(translate, range(len(batch.places)), fault)

    def batches(
        self,
        lines: Sequence[str],
        method: SearchMethod,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[SentenceBatch]:
        """Encodes the lines that are not empty and groups them by length, the longest first.

        Raises ValueError for a line or a prefix that is too long, and for unequal numbers of prefixes and lines.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"there are {len(prefixes):,} prefixes for {len(lines):,} texts: give one prefix a text, or none"
            )
        places = [place for place, line in enumerate(lines) if line.strip()]
        numbers = [lines_before + place + 1 for place in places]
        sources = self.encode_sources([lines[place] for place in places], "", numbers)
        forced = [list[int]() for _ in places]
        if prefixes:
            beginnings = without_last_space([prefixes[place] for place in places])
            forced = self.encode_checked(beginnings, self.target, " of the prefixes", numbers)
        lengths = np.array([max(map(len, pair)) + 1 for pair in zip(sources, forced, strict=True)], dtype=np.int64)
        return [
            SentenceBatch([places[n] for n in chosen], [sources[n] for n in chosen], [forced[n] for n in chosen])
            for chosen in sentence_batches(lengths, batch_tokens, method.width, self.target.size)
        ]

    def line_faults(self, lines: Sequence[str], prefixes: Sequence[str] | None = None) -> dict[int, str]:
        """Returns a message for each line that is too long, or has a prefix that is too long, by its place."""
        sides = [("", self._encode(lines, self.source, self.source_tags))]
        if prefixes:
            sides.insert(0, ("must begin with a prefix that ", self._encode(without_last_space(prefixes), self.target)))
        return {
            place: f"{beginning}{tokens}"
            for beginning, side in sides
            for place, tokens in enumerate(side)
            if isinstance(tokens, str) and lines[place].strip()
        }

    def encode_sources(
        self, lines: Sequence[str], side: str = " of the source", numbers: Sequence[int] | None = None
    ) -> list[list[int]]:
        """Returns the source tags and the tokens of each line; raises ValueError as `encode_checked`."""
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

        Raises ValueError for a line that is too long; `side`, such as " of the source", and `numbers` locate it.
        """
        encoded = []
        for place, tokens in enumerate(self._encode(lines, subwords, tags)):
            if isinstance(tokens, str):
                raise ValueError(f"line {numbers[place] if numbers else place + 1}{side} {tokens}")
            encoded.append(tokens)
        return encoded

    def _encode(self, lines: Sequence[str], side: TokenVocabulary, tags: Sequence[int] = ()) -> list[list[int] | str]:
        """Returns `tags` and the tokens of each line, or a message for a line that is too long."""
        return encode_lines(lines, side, self.max_line_tokens, self._attention_heads, tags)

    def _check_ready(self) -> None:
        """Follows changes of the weights; called before each search.

        Raises RuntimeError in a forked process that would hang or be killed, ValueError in training mode. After a fork
        only float32 on a CPU with one thread needs no thread of the parent process.
        """
        can_fork = self.precision != "int8" and self.device.type == "cpu" and torch.get_num_threads() == 1
        if count_forks() > self._forks and not can_fork:
            raise RuntimeError(
                "the model was loaded before this process was forked, and its threads do not survive a fork: send the "
                "translator through `Pool.map` or a queue, or start processes by multiprocessing's spawn"
            )
        if any(model.training for model in self.models):
            raise ValueError("the model is in training mode, where dropout changes translations: call its eval() first")
        self._steppers.follow_changes()

    @torch.inference_mode()
    def _search(
        self, batch: SentenceBatch, method: SearchMethod, lines_before: int, check: StopCheck
    ) -> list[list[Hypothesis]]:
        """Searches for the translations of a batch."""
        current, compiled = self.current_stepper()
        stepper: Stepper = StoppableStepper(current, check)
        problem = self._problem(batch, method)
        if self._tree_search is not None and method.constrained:
            words = [len(text.split(" ")) for text in self.source.decode(batch.sources)]
            stepper = self._tree_search.constrain(stepper, words, problem)
        if method.decoding.no_repeat_ngram is not None:
            exempt = torch.tensor(list(map(len, batch.prefixes)), device=self.device)
            stepper = NoRepeatedNgrams(stepper, method.decoding.no_repeat_ngram, exempt)
        if any(batch.prefixes):
            stepper = ForcedPrefix(stepper, self._rectangle(batch.prefixes), self.symbols.pad, method.may_follow)
        if method.sampling is not None:
            numbers = [lines_before + place for place in batch.places]
            draws = torch.from_numpy(uniform_draws(method.seed, numbers, problem.max_length)).to(self.device)
            return [[hypothesis] for hypothesis in sample(stepper, problem, method.sampling, draws)]
        if method.greedy:
            return [[best] for best in greedy_search(stepper, problem, compiled=compiled)]
        return beam_search(stepper, problem, method.decoding, method.n_best, compiled=compiled)

    def _problem(self, batch: SentenceBatch, method: SearchMethod) -> SearchProblem:
        """Returns the search problem of a batch."""
        pad, begin, end = self.symbols.pad, self.symbols.begin, self.symbols.end
        rules = SearchRules.of(self.symbols, self.target)
        source = self._rectangle([[*tokens, end] for tokens in batch.sources])
        extra, limit = method.decoding.extra_length, self.max_line_tokens + 1
        bounds = torch.tensor(batch.max_lengths(len(self.source_tags), extra, limit), device=self.device)
        return SearchProblem(source, source != pad, bounds, begin, end, rules.banned, rules.banned_first)

    def _rectangle(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Returns rows of ids padded to the longest, on the device of the models."""
        return pad_rows(rows, self.symbols.pad, self.device)
