"""Search engines, which a `Translator` uses: the interface, and the engine for torch models.

The engine for CTranslate2 is in `exchange`.

An engine turns batches of tokens into hypotheses and does not handle text. Any object with the two members of
`SearchEngine` will do. A translator with the following engine writes its input backwards, whether it translates lines,
streams or documents:

    class Backwards:
        max_line_tokens = 100

        def search(self, batch, method, check):
            return [[Hypothesis(tokens[::-1], 0.0, 0.0)] for tokens in batch.sources]

    translator = Translator(Backwards(), source_subwords, target_subwords, Decoding())

Every search follows the model's probabilities and also the rules in this table, which an exported model passes to its
engine:

| rule | here |
|---|---|
| padding, the begin symbol and source tags are never chosen | `SearchRules.banned` |
| a translation has at least one token | `SearchRules.banned_first` |
| a translation has at most `extra_length` tokens more than its source | `batching.max_lengths` |
| a source that is too long is refused, never cut | `Translator.batches` |
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
    """Raises ValueError for an unknown precision."""
    if precision not in get_args(TranslationPrecision):
        raise ValueError(f"precision {precision!r} is unknown: choose {', '.join(get_args(TranslationPrecision))}")


class SearchEngine(Protocol):
    """Finds translations of batches of tokens."""

    @property
    def max_line_tokens(self) -> int:
        """The most tokens of a source (tags included) or of a prefix, not counting the end symbol."""

    def search(self, batch: SentenceBatch, method: SearchMethod, check: StopCheck) -> list[list[Hypothesis]]:
        """Returns the translations of each sentence, best first: at least one, and at most `method.n_best`.

        A translation begins with the prefix of its sentence and has at most as many tokens as the sentence's bound. The
        engine calls `check` between steps if it can; `check` raises SearchStoppedError if the search must stop. Raises
        ValueError for a search that the engine does not support. After an error that `is_out_of_memory` recognises, the
        translator searches the halves of the batch.
        """


TokenPair = tuple[Sequence[int], Sequence[int]]  # source, with its tags, and target


class ScoredTarget(NamedTuple):
    """The scores of a target."""

    log_probabilities: NDArray[np.float64]  # of each token, the end symbol included
    has_rival: bool  # whether another split of the text has a more probable token somewhere


SPLITS = 4  # beam size of the search for the most probable split of a text


class SearchRules(NamedTuple):
    """The tokens that no search chooses, although models may give them high probabilities, especially on odd lines."""

    banned: tuple[int, ...]
    """Never chosen: padding, the begin symbol, source tags."""
    banned_first: tuple[int, ...]
    """Not chosen as the first token either: the end symbol."""

    @classmethod
    def of(cls, symbols: Symbols, target: TokenVocabulary) -> "SearchRules":
        """Builds the rules of models with these symbols and this target vocabulary."""
        banned = {symbols.pad, symbols.begin, *tags_of(target).values()} - {symbols.end}
        return cls(tuple(sorted(banned)), (symbols.end,))


class TorchEngine:
    """Searches with a torch model, or with an ensemble of models that share their subwords; also scores and explains.

    On a CPU, compiled code replaces a model if there is compiled code for all its parts. The code copies some weights
    and reads the rest in place, so the engine rebuilds it after the weights have changed.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: TokenVocabulary,
        target: TokenVocabulary,
        precision: TranslationPrecision = "float32",
        linearisation: TopDown | InOrder | None = None,
    ) -> None:
        """Takes models in evaluation mode; with `linearisation` they are parsers, and search is constrained to trees.

        Raises ValueError for an unknown precision, and for parsers whose target vocabulary has no tree symbols.
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
        """The device of the models."""
        return next(self.models[0].parameters()).device

    @cached_property
    def _spelling(self) -> "Spelling | None":
        """The spelling of text in the target's subwords; None if they are not `Subwords`, whose bytes are known."""
        from transduce.search.spelling import Spelling  # imported here, because translating does not need it

        return Spelling(self.target.subword_bytes, self.symbols.end) if isinstance(self.target, Subwords) else None

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copies the engine together with its models."""
        copied = copy.copy(self)
        copied.models = copy.deepcopy(self.models, memo)
        copied._pack_weights()
        return copied

    def _pack_weights(self) -> None:
        """Builds the stepper for the models as they are now, and a record of each model whose weights were packed.

        The stepper and whether it is compiled are in one attribute, because other threads may read them at the same
        time.
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
        """Rebuilds compiled code if the weights have changed; called before each search.

        Raises RuntimeError in a forked process that would hang or be killed, and ValueError in training mode. After a
        fork, only searches on a CPU with one thread, and not in int8, need no thread of the parent process.
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
        """Searches a batch; a compiled search uses all threads, each with a share of the sentences."""
        self.check_ready()
        stepper, compiled = self.current

        def search_share(numbers: Sequence[int], check: StopCheck) -> list[list[Hypothesis]]:
            return self._search_share(StoppableStepper(stepper, check), compiled, batch.select(numbers), method)

        # A search in torch uses torch's own threads. A compiled search runs in a single thread, without Python's lock.
        threads = torch.get_num_threads() if compiled else 1
        tokens = sum(len(source) + 1 for source in batch.sources) if compiled else 0
        return map_in_threads(search_share, range(len(batch.sources)), threads, tokens, check)

    @torch.inference_mode()
    def _search_share(
        self, stepper: Stepper, compiled: bool, batch: SentenceBatch, method: SearchMethod
    ) -> list[list[Hypothesis]]:
        """Wraps the stepper as the method and the sentences require, and searches."""
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
        """Returns the log-probabilities of the target tokens of each pair of source and target."""
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
        """Returns the log-probability of the most probable split of each target's text that beam search finds."""
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
        """Returns weights [heads query key] per layer: encoder, decoder, and attention over the encoder's output."""
        source = self._rectangle([[*source_tokens, self.symbols.end]])
        target_in = self._rectangle([[self.symbols.begin, *target_tokens]])
        visible = torch.ones_like(source, dtype=torch.bool)
        weights = self.attention_model().attention_weights(source, visible, target_in)
        return tuple(tuple(layer[0].float().cpu().numpy() for layer in part) for part in weights)

    def attention_model(self) -> TransformerModel:
        """The first model; raises ValueError if it is not a Transformer with attention in every layer."""
        model = self.models[0]
        if not isinstance(model, TransformerModel) or not isinstance(model.spec.mixer, Attention):
            raise ValueError(
                "there is nothing to draw or to align: this model has no heads that attend to a whole sentence in "
                "every layer; only a Transformer with `model.mixer.kind: attention` has"
            )
        return model

    def _rectangle(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Pads rows of ids to the longest row, on the device of the models."""
        return pad_rows(rows, self.symbols.pad, self.device)

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self.device)
