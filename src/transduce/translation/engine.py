"""The search engines that a `Translator` can use: their interface, and the engine for torch models.

The engine for CTranslate2 is in `exchange`.

A search engine turns batches of token ids into hypotheses and never sees the text. Any object with the two members of
`SearchEngine` can be used as an engine. For example, a translator with the following engine writes its input backwards,
whether it translates lines, streams or documents:

    class Backwards:
        max_line_tokens = 100

        def search(self, batch, method, check):
            return [[Hypothesis(tokens[::-1], 0.0, 0.0)] for tokens in batch.sources]

    translator = Translator(Backwards(), source_subwords, target_subwords, Decoding())

Every search follows the model's probabilities, subject to the rules in this table. An exported model passes the same
rules to its engine.

| rule | implemented by |
|---|---|
| padding, BOS and source tags are never chosen | `SearchRules.banned` |
| a translation has at least one token | `SearchRules.banned_first` |
| a translation has at most `extra_length` tokens more than its source | `batching.max_lengths` |
| a source that is too long raises an error and is never truncated | `Translator.batches` |
"""

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.model.attention import Attention
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import Symbols, TranslationModel
from transduce.runtime.device import count_forks
from transduce.search.beam import Decoding, Hypothesis, beam_search
from transduce.search.cancellation import StopCheck, StoppableStepper
from transduce.search.cpu_stepper import WeightsRecord, compile_search, cpu_stepper, is_compiled
from transduce.search.greedy_and_sampling import greedy_search, sample
from transduce.search.stepper import SearchProblem, Stepper, pad_rows, scores_of_tokens
from transduce.search.wrapped_steppers import Ensemble, ForcedPrefix, NoRepeatedNgrams
from transduce.settings import from_satellite
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import TokenVocabulary, tags_of
from transduce.text.tree_linearisation import InOrder, TopDown
from transduce.translation.batching import MAX_LINE_TOKENS, SentenceBatch
from transduce.translation.search_method import SearchMethod, uniform_draws
from transduce.translation.search_threads import map_in_threads

if TYPE_CHECKING:
    from transduce.search.spelling import Spelling

TranslationPrecision = Literal["float32", "bfloat16", "int8"]


def check_precision(precision: str) -> None:
    """Raises ValueError if `precision` is not one of the values of `TranslationPrecision`."""
    if precision not in get_args(TranslationPrecision):
        raise ValueError(f"precision {precision!r} is unknown: choose {', '.join(get_args(TranslationPrecision))}")


class SearchEngine(Protocol):
    """The interface of search engines, which find translations for batches of encoded sentences."""

    @property
    def max_line_tokens(self) -> int:
        """The maximum number of tokens in a source, including its tags, or in a prefix; EOS does not count."""

    def search(self, batch: SentenceBatch, method: SearchMethod, check: StopCheck) -> list[list[Hypothesis]]:
        """Returns at least one and at most `method.n_best` translations of each sentence, best first.

        Each translation begins with the prefix of its sentence and has at most as many tokens as the sentence's bound.
        The engine should call `check` between steps, if it can, because `check` raises SearchStoppedError when the
        search must stop. Raises ValueError if the engine does not support the search method. If the engine raises an
        error that `is_out_of_memory` recognises, the translator splits the batch into halves and searches each of them.
        """


TokenPair = tuple[Sequence[int], Sequence[int]]  # the source, including its tags, and the target


class ScoredTarget(NamedTuple):
    """The log-probabilities of the tokens of a target."""

    log_probabilities: NDArray[np.float64]  # one for each token, including EOS
    has_rival: bool  # whether another segmentation of the text has a more probable token at some position


SPLITS = 4  # beam size of the search for the most probable segmentation of a text


class SearchRules(NamedTuple):
    """The tokens that a search must not choose.

    The rules are needed because a model may give these tokens a high probability, especially for unusual input.
    """

    banned: tuple[int, ...]
    """Tokens that are never chosen: padding, BOS and source tags."""
    banned_first: tuple[int, ...]
    """Tokens that must not be the first token of a translation: EOS."""

    @classmethod
    def of(cls, symbols: Symbols, target: TokenVocabulary) -> "SearchRules":
        """Returns the rules for models with the given special symbols and target vocabulary."""
        banned = {symbols.pad, symbols.begin, *tags_of(target).values()} - {symbols.end}
        return cls(tuple(sorted(banned)), (symbols.end,))


class TorchEngine:
    """Searches with a torch model or an ensemble of torch models that share their subwords.

    It can also compute scores and attention weights. On a CPU, a model is replaced by compiled code if there is such
    code for all of its parts. Since the compiled code copies some of the weights, the engine rebuilds it when the
    weights have changed.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: TokenVocabulary,
        target: TokenVocabulary,
        precision: TranslationPrecision = "float32",
        linearisation: TopDown | InOrder | None = None,
    ) -> None:
        """Creates an engine for models that are in evaluation mode.

        If `linearisation` is given, the models are parsers, and the search is constrained to trees. Raises ValueError
        for an unknown precision, or if the target vocabulary of parsers does not consist of tree symbols.
        """
        check_precision(precision)
        self.models, self.source, self.target = tuple(models), source, target
        self.precision, self.linearisation, self._forks = precision, linearisation, count_forks()
        self.symbols = models[0].spec.symbols
        limits = [model.max_positions - 1 for model in models if model.max_positions is not None]
        self.max_line_tokens = min([*limits, MAX_LINE_TOKENS])
        self._rules = SearchRules.of(self.symbols, target)
        self._constrain: Callable[[Stepper, Sequence[Sequence[int]], Tensor, int], Stepper] | None = None
        if linearisation is not None:
            constraint_of = from_satellite("transduce.parsing.tree_constraint:constraint_of")
            self._constrain = constraint_of(linearisation, source, target, self.device)
        self._pack_weights()

    @property
    def device(self) -> torch.device:
        """The device on which the models run."""
        return next(self.models[0].parameters()).device

    @cached_property
    def _spelling(self) -> "Spelling | None":
        """The `Spelling` of the target's subwords, or None if the target vocabulary is not `Subwords`.

        Other vocabularies have no `Spelling`, because the bytes of their tokens are not known.
        """
        from transduce.search.spelling import Spelling  # imported here, because translating does not need it

        return Spelling(self.target.subword_bytes, self.symbols.end) if isinstance(self.target, Subwords) else None

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copies the engine together with its models."""
        copied = copy.copy(self)
        copied.models = copy.deepcopy(self.models, memo)
        copied._pack_weights()
        return copied

    def _pack_weights(self) -> None:
        """Builds the stepper for the current weights, and records the weights so that later changes can be detected.

        The stepper and the flag that says whether it is compiled share one attribute, so that other threads always read
        a consistent pair.
        """
        steppers = [cpu_stepper(model, int8=self.precision == "int8") for model in self.models]
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        compiled = all(map(is_compiled, steppers))
        if compiled:
            compile_search(stepper, self.symbols)
        self.current: tuple[Stepper, bool] = stepper, compiled
        pairs = zip(self.models, steppers, strict=True)
        self._records = [WeightsRecord(model) for model, stepper in pairs if stepper is not model]

    def check_ready(self) -> None:
        """Prepares the engine for a search, and rebuilds its compiled code if the weights have changed.

        Raises ValueError if a model is in training mode. Raises RuntimeError in a forked process in which the search
        would hang or be killed, because it needs threads that exist only in the parent process. A search that runs on a
        CPU with one thread, and not in int8, needs no such threads.
        """
        can_fork = self.precision != "int8" and self.device.type == "cpu" and torch.get_num_threads() == 1
        if count_forks() > self._forks and not can_fork:
            raise RuntimeError(
                "the model was loaded before this process was forked, and its threads do not survive a fork: send the "
                "translator through `Pool.map` or a queue, or start processes by multiprocessing's spawn"
            )
        if any(model.training for model in self.models):
            raise ValueError("the model is in training mode, where dropout changes translations: call its eval() first")
        if not all(record.is_current() for record in self._records):
            self._pack_weights()

    def search(self, batch: SentenceBatch, method: SearchMethod, check: StopCheck) -> list[list[Hypothesis]]:
        """Searches for translations of a batch; a compiled search divides the sentences among all threads."""
        self.check_ready()
        stepper, compiled = self.current

        def search_share(numbers: Sequence[int], check: StopCheck) -> list[list[Hypothesis]]:
            return self._search_share(StoppableStepper(stepper, check), compiled, batch.select(numbers), method)

        # A torch search parallelises its own operations. A compiled search is single-threaded and releases the GIL.
        threads = torch.get_num_threads() if compiled else 1
        tokens = sum(len(source) + 1 for source in batch.sources) if compiled else 0
        return map_in_threads(search_share, range(len(batch.sources)), threads, tokens, check)

    @torch.inference_mode()
    def _search_share(
        self, stepper: Stepper, compiled: bool, batch: SentenceBatch, method: SearchMethod
    ) -> list[list[Hypothesis]]:
        """Wraps the stepper as required by the search method and the prefixes, and runs the search."""
        end, prefix_lengths = self.symbols.end, list(map(len, batch.prefixes))
        source, bounds = self._rectangle([[*tokens, end] for tokens in batch.sources]), self._tensor(batch.bounds)
        problem = SearchProblem(source, source != self.symbols.pad, bounds, self.symbols.begin, end, *self._rules)
        if self._constrain is not None and method.constrained:
            stepper = self._constrain(stepper, batch.sources, bounds, end)
        if method.decoding.no_repeat_ngram is not None:
            stepper = NoRepeatedNgrams(stepper, method.decoding.no_repeat_ngram, self._tensor(prefix_lengths))
        if any(prefix_lengths):
            stepper = ForcedPrefix(stepper, self._rectangle(batch.prefixes), self.symbols.pad, method.may_follow)
        if method.sampling is not None:
            draws = uniform_draws(method.seed, batch.indices, problem.max_length)
            drawn = sample(stepper, problem, method.sampling, torch.from_numpy(draws).to(self.device))
            return [[hypothesis] for hypothesis in drawn]
        if method.greedy:
            return [[best] for best in greedy_search(stepper, problem, compiled=compiled)]
        return beam_search(stepper, problem, method.decoding, method.n_best, compiled=compiled)

    @torch.inference_mode()
    def score(self, pairs: Sequence[TokenPair], check: StopCheck) -> list[ScoredTarget]:
        """Returns the log-probabilities of the target tokens for each pair of source and target."""
        self.check_ready()
        begin, end, pad = self.symbols.begin, self.symbols.end, self.symbols.pad
        source = self._rectangle([[*source, end] for source, _ in pairs])
        target_in = self._rectangle([[begin, *target] for _, target in pairs])
        target_out = self._rectangle([[*target, end] for _, target in pairs])
        stepper = StoppableStepper(self.current[0], check)
        of_vocabulary, _ = stepper.step(target_in, stepper.start(source, source != pad, target_in.shape[1]))
        chosen = scores_of_tokens(of_vocabulary, target_out, pad)
        has_rival = torch.zeros(len(pairs), dtype=torch.bool)
        if self._spelling is not None:
            rivals = [self._spelling.rivals(target) for _, target in pairs]
            counts = [[len(tokens) for tokens in row] for row in rivals]
            rows = self._tensor([row for row, of_row in enumerate(counts) for _ in range(sum(of_row))])
            places = self._tensor([at for of_row in counts for at, count in enumerate(of_row) for _ in range(count)])
            tokens = self._tensor([token for row in rivals for place in row for token in place])
            is_likelier = of_vocabulary[rows, places, tokens] > chosen[rows, places]
            has_rival[rows[is_likelier].cpu()] = True
        results = zip(chosen.double().cpu().numpy(), has_rival.tolist(), pairs, strict=True)
        return [ScoredTarget(row[: len(target) + 1], rival) for row, rival, (_, target) in results]

    @torch.inference_mode()
    def score_best_split(self, pairs: Sequence[TokenPair], check: StopCheck) -> list[float]:
        """Returns, for each target, the log-probability of the most probable segmentation that beam search finds."""
        from transduce.search.spelling import Spelled

        assert self._spelling is not None
        begin, end, pad = self.symbols.begin, self.symbols.end, self.symbols.pad
        source = self._rectangle([[*tokens, end] for tokens, _ in pairs])
        texts = [self._spelling.text_of(target) for _, target in pairs]
        stepper = Spelled(StoppableStepper(self.current[0], check), self._spelling, texts)
        bounds = self._tensor([min(len(text), self.max_line_tokens) + 1 for text in texts])
        problem = SearchProblem(source, source != pad, bounds, begin, end, ())
        found = beam_search(stepper, problem, Decoding(beam=SPLITS, length_penalty=0.0))
        return [best[0].log_probability for best in found]

    @torch.inference_mode()
    def attention_weights(self, source_tokens: list[int], target_tokens: list[int]) -> tuple[tuple[Any, ...], ...]:
        """Returns the attention weights [heads query key] of each layer of encoder, decoder and cross-attention."""
        source = self._rectangle([[*source_tokens, self.symbols.end]])
        target_in = self._rectangle([[self.symbols.begin, *target_tokens]])
        visible = torch.ones_like(source, dtype=torch.bool)
        weights = self.attention_model().attention_weights(source, visible, target_in)
        return tuple(tuple(layer[0].float().cpu().numpy() for layer in part) for part in weights)

    def attention_model(self) -> TransformerModel:
        """Returns the first model; raises ValueError if it is not a Transformer with attention in every layer."""
        model = self.models[0]
        if not isinstance(model, TransformerModel) or not isinstance(model.spec.mixer, Attention):
            raise ValueError(
                "there is nothing to draw or to align: this model has no heads that attend to a whole sentence in "
                "every layer; only a Transformer with `model.mixer.kind: attention` has"
            )
        return model

    def _rectangle(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Pads rows of ids to the length of the longest and returns them as a tensor on the device of the models."""
        return pad_rows(rows, self.symbols.pad, self.device)

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self.device)
