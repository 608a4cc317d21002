"""Validates models on held-out corpora, computing the loss, the perplexity, the accuracy and a score of the output."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from transduce.corpus.readers import ParallelText
from transduce.measure.metric_choice import LABELS, MetricFunction, MetricName, ProgramMetric
from transduce.measure.metrics import metric_named, remark_on_short_lines
from transduce.measure.scoring import scores
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import TranslationModel
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.memory import run_by_halves
from transduce.runtime.progress import track
from transduce.search.beam import Decoding
from transduce.search.stepper import pad_rows
from transduce.settings import from_satellite
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.tree_linearisation import InOrder, TopDown
from transduce.translation.batching import LineTooLargeError, sentence_batches
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_TOKENS = 2048  # maximum number of positions on each side of a batch when the loss is computed
CHECKED_LINES = 4  # lines on which a metric program or function is tried before training

Measure = MetricName | Literal["f1", "loss"] | ProgramMetric | MetricFunction
"""The measure by which validations are compared: a metric, the F1 of trees, the loss, a program or a function."""


def label_of(measure: Measure) -> str:
    """Returns the display name of a measure."""
    if isinstance(measure, str):
        return LABELS.get(measure, measure)
    return measure.name if isinstance(measure, ProgramMetric) else getattr(measure, "__name__", "score")


def is_error(measure: Measure) -> bool:
    """Returns True if lower values of the measure are better."""
    return measure in ("loss", "ter") or (isinstance(measure, ProgramMetric) and measure.best == "lowest")


class ValidationScore(NamedTuple):
    """The score of translations or trees, with the bounds of its confidence interval if one was requested."""

    metric: str  # a key of `LABELS`, or the name of a program or function
    score: float
    signature: str
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        """The display name of the metric."""
        return LABELS.get(self.metric, self.metric)


class ValidationResult(NamedTuple):
    """The result of a validation; loss, perplexity and accuracy are averages over the target tokens, including EOS."""

    loss: float  # label-smoothed as in training, but without the auxiliary mixture-of-experts loss and R-Drop
    perplexity: float  # of the loss without label smoothing
    accuracy: float  # share of target tokens that the model ranks first under teacher forcing
    score: ValidationScore | None
    outputs: list[str]
    parts: Mapping[str, "ValidationResult"] = {}  # by corpus, if there are several; the fields above are their means


def perplexity(loss: float) -> float:
    """Returns e^loss for a loss per token, or infinity if the result is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf


class Validation:
    """Evaluates models on one corpus, dividing the batches among the processes of `group`."""

    def __init__(
        self,
        corpus: ParallelText,
        source: TokenVocabulary,
        target: TokenVocabulary,
        decoding: Decoding,
        smoothing: Smoothing,
        group: ProcessGroup = SINGLE_PROCESS,
        language: str | None = None,
        linearisation: TopDown | InOrder | None = None,
        bootstrap: int | None = None,
        source_tags: Sequence[int] = (),
        metric: MetricName | ProgramMetric | MetricFunction = "bleu",
    ) -> None:
        self.corpus, self.source, self.target = corpus, source, target
        self.decoding, self.smoothing, self.group = decoding, smoothing, group
        self.language = language  # of the target; BLEU uses special tokenisers for some languages
        self.linearisation = linearisation  # for parsers: the way in which trees are written as symbols
        self.bootstrap = bootstrap  # number of resamples for the confidence interval of the score
        self.source_tags = source_tags  # ids that precede the tokens of each source
        self.metric = metric  # for translations; trees are always scored with F1

    @torch.inference_mode()
    def check_memory(self, model: TranslationModel) -> None:
        """Raises RuntimeError if the longest sentence pair of the corpus does not fit in memory by itself.

        The check evaluates a full batch of copies of this pair. As in a validation, a batch that does not fit in memory
        is split into halves, so only a single pair that does not fit is an error.
        """
        source, target = self._encode()
        longest = max(zip(source, target, strict=True), key=lambda pair: max(map(len, pair)))
        rows = max(1, BATCH_TOKENS // (max(map(len, longest)) + 1))
        training = model.training
        try:
            run_by_halves(lambda batch: [self._batch_sums(model.eval(), batch)], [longest] * rows)
        finally:
            model.train(training)

    def check(self, model: TranslationModel, *, will_translate: bool = True) -> None:
        """Raises ValueError if a line is too long for `model`, or if the output of `model` cannot be scored.

        A training run calls this method before it starts, so that the first validation does not fail. The metric is not
        checked if `will_translate` is False.
        """
        if will_translate and self.linearisation is None:
            self._check_metric()
        translator = self._translator(model)
        try:
            translator.encode_sources(self.corpus.source)
            translator.encode_checked(self.corpus.target, self.target, " of the target")
        except ValueError as error:
            raise ValueError(f"data.validation: {error}") from None

    def _check_metric(self) -> None:
        """Raises ValueError if the metric cannot be computed.

        A metric program or function is tried on a few references. If BLEU is unsuitable because the references are too
        short, only a warning is logged.
        """
        if callable(self.metric):
            sources, references = self.corpus.source[:CHECKED_LINES], self.corpus.target[:CHECKED_LINES]
            self.group.on_rank_zero(lambda: self._score_by_function(sources, references, references), slow=True)
            return
        metric_named(self.metric, language=self.language)
        remark = remark_on_short_lines(self.corpus.target, language=self.language) if self.metric == "bleu" else None
        if remark:
            _log.warning(
                f"data.validation: {remark}, and the loss selects the weights; `training.validate_by: chrf` measures "
                "short lines"
            )

    @torch.inference_mode()
    def __call__(self, model: TranslationModel, *, translate: bool = True) -> ValidationResult:
        """Validates `model` in evaluation mode, and then restores the mode that it was in.

        If `translate` is False, the result contains no score and no outputs. Raises RuntimeError in all processes if
        one of them runs out of memory.
        """
        training = model.training
        model.eval()
        try:
            smoothed, unsmoothed, correct, tokens = self._sums(model)
            outputs = self._outputs(model) if translate else []
        finally:
            model.train(training)
        score = self._score(outputs) if translate else None
        return ValidationResult(smoothed / tokens, perplexity(unsmoothed / tokens), correct / tokens, score, outputs)

    def _score(self, outputs: Sequence[str]) -> ValidationScore:
        """Returns the score of translations, or the F1 of linearised trees.

        If a metric program or function fails, a warning is logged and the score is NaN, because a metric that fails
        should not stop the training.
        """
        if self.linearisation is None and callable(self.metric):
            return self.group.on_rank_zero(lambda: self._try_function(outputs), slow=True)
        if self.linearisation is None:
            name = cast(MetricName, self.metric)
            by_metric = scores(outputs, [self.corpus.target], [name], language=self.language, bootstrap=self.bootstrap)
            return ValidationScore(name, *by_metric[name])
        f1_of_symbols: Callable[..., ValidationScore] = from_satellite("transduce.parsing.tree_scores:f1_of_symbols")
        return f1_of_symbols(self.linearisation, self.corpus, outputs, self.bootstrap)

    def _try_function(self, outputs: Sequence[str]) -> ValidationScore:
        try:
            score = self._score_by_function(self.corpus.source, outputs, self.corpus.target)
        except Exception as error:
            _log.warning(f"warning: this validation has no score: {error}")
            score = math.nan
        name = label_of(self.metric)
        return ValidationScore(name, score, self.metric.command if isinstance(self.metric, ProgramMetric) else name)

    def _score_by_function(self, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> float:
        """Calls the metric program or function and returns its score; raises ValueError if that is not a number."""
        assert callable(self.metric)
        score = self.metric(sources, outputs, references)
        if not isinstance(score, int | float):
            raise ValueError(f"the metric {label_of(self.metric)} must return a number, and returned {score!r}")
        return float(score)

    def _translator(self, model: TranslationModel) -> Translator:
        """Returns a translator that uses `model`; if the model is a parser, the translator writes linearised trees."""
        sides = [model], self.source, self.target, self.decoding
        return Translator.of_models(*sides, linearisation=self.linearisation).with_source_tags(self.source_tags)

    def _encode(self) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the tokens of both sides without EOS; each source begins with the source tags."""
        sources = [[*self.source_tags, *tokens] for tokens in self.source.encode(self.corpus.source)]
        return sources, self.target.encode(self.corpus.target)

    def _outputs(self, model: TranslationModel) -> list[str]:
        """Returns the translations of the source lines; raises LineTooLargeError if a line does not fit in memory."""
        translator = self._translator(model)
        method = SearchMethod(self.decoding)
        batches = translator.batches(self.corpus.source, method)
        results = self._map_batches("translating", lambda batch: translator.translate_by_halves(batch, method), batches)
        outputs = [translator.copied(line)[0].text for line in self.corpus.source]
        for batch, best in zip(batches, results, strict=True):
            for index, translations in zip(batch.indices, best, strict=True):
                if isinstance(translations, str):
                    raise LineTooLargeError(index + 1, translations)
                outputs[index] = translations[0].text
        return outputs

    def _map_batches(self, description: str, work: Callable[[Item], Result], batches: Sequence[Item]) -> list[Result]:
        """Applies `work` to each batch and returns the results of all batches.

        The batches are divided among the processes, but every process returns all results.
        """

        def own_results() -> list[Result]:
            own_batches, results = batches[self.group.rank :: self.group.size], []
            with track(description, len(own_batches)) as progress:
                for batch in own_batches:
                    results.append(work(batch))
                    progress.advance()
            return results

        return self.group.all_gather(self.group.on_every_rank(own_results))

    def _sums(self, model: TranslationModel) -> tuple[float, float, float, int]:
        """Returns the smoothed loss, the unsmoothed loss, the number of correct predictions and the number of tokens.

        All four are totals over the corpus.
        """
        source, target = self._encode()
        lengths = torch.tensor([max(map(len, pair)) + 1 for pair in zip(source, target, strict=True)])
        batches = list(sentence_batches(lengths.numpy(), BATCH_TOKENS))

        def stacked_sums(indices: Iterable[int]) -> Tensor:
            pairs_of_batch = [(source[index], target[index]) for index in indices]
            return torch.stack(run_by_halves(lambda batch: [self._batch_sums(model, batch)], pairs_of_batch))

        totals = torch.zeros(3, dtype=torch.float64)
        # Batches are added in a fixed order, so that the sum does not depend on the number of processes.
        for sums in self._map_batches("validating", stacked_sums, batches):
            totals += sums.sum(0)
        smoothed, unsmoothed, correct = totals.tolist()
        return smoothed, unsmoothed, correct, sum(len(tokens) + 1 for tokens in target)

    def _batch_sums(self, model: TranslationModel, batch: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """Returns the smoothed loss, the unsmoothed loss and the number of correct predictions.

        They are totals over the batch, in a float64 tensor [3] on the CPU.
        """
        symbols, device = model.spec.symbols, next(model.parameters()).device
        source = pad_rows([[*tokens, symbols.end] for tokens, _ in batch], symbols.pad, device)
        target_in = pad_rows([[symbols.begin, *tokens] for _, tokens in batch], symbols.pad, device)
        target_out = pad_rows([[*tokens, symbols.end] for _, tokens in batch], symbols.pad, device)
        # Calls `forward`, because `__call__` would compile the model for the shapes of the validation batches.
        states, _ = model.forward(source, source != symbols.pad, target_in)
        sums = model.readout.evaluate(states, target_out, self.smoothing)
        return torch.stack([total.double() for total in sums]).cpu()


class JointValidation:
    """Evaluates models on several corpora, with the same methods as `Validation`."""

    def __init__(self, validations: Mapping[str, Validation]) -> None:
        self.validations = validations
        corpora = [validation.corpus for validation in validations.values()]
        self.corpus = ParallelText(
            [line for corpus in corpora for line in corpus.source],
            [line for corpus in corpora for line in corpus.target],
        )

    def check_memory(self, model: TranslationModel) -> None:
        """Raises RuntimeError if the longest sentence pair of any corpus does not fit in memory by itself."""
        for validation in self.validations.values():
            validation.check_memory(model)

    def check(self, model: TranslationModel, *, will_translate: bool = True) -> None:
        """Raises ValueError if a line is too long for `model`, or if the output of `model` cannot be scored."""
        for name, validation in self.validations.items():
            try:
                validation.check(model, will_translate=will_translate)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

    def __call__(self, model: TranslationModel, *, translate: bool = True) -> ValidationResult:
        """Validates `model` on each corpus and returns the mean of the results, together with all outputs.

        All corpora have the same weight. The mean perplexity is the geometric mean, so it is the perplexity of the mean
        loss.
        """
        parts = {name: validation(model, translate=translate) for name, validation in self.validations.items()}
        results = list(parts.values())
        return ValidationResult(
            fmean(result.loss for result in results),
            perplexity(fmean(math.log(result.perplexity) for result in results)),
            fmean(result.accuracy for result in results),
            _mean_score(result.score for result in results),
            [output for result in results for output in result.outputs],
            parts,
        )


def _mean_score(scores: Iterable[ValidationScore | None]) -> ValidationScore | None:
    """Returns the mean of scores that use the same metric, or None if no corpus was translated."""
    measured = [score for score in scores if score is not None]
    if not measured:
        return None
    signatures = " and ".join(dict.fromkeys(score.signature for score in measured))
    mean = fmean(score.score for score in measured)
    return measured[0]._replace(score=mean, signature=f"mean:{len(measured)}|{signatures}", low=None, high=None)
