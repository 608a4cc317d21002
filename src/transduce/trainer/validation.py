"""Validation: loss, perplexity, accuracy and BLEU of a model on a corpus that it is not trained on."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from transduce.corpus import CorpusSpec, DataSpec, Files, Hub, Tmx, Tsv, files_of, name_of, read_pairs
from transduce.measure import Score, metric_named, scores
from transduce.model import TranslationModel
from transduce.model.readout import Smoothing
from transduce.model_directory import RECIPE
from transduce.recipe import read_yaml
from transduce.runtime.device import is_out_of_memory
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.progress import track
from transduce.search import Decoding, pad_rows
from transduce.settings import validated
from transduce.storage.checksums import checksum_of
from transduce.text.lines import refuse_markup
from transduce.text.subwords import Subwords
from transduce.translation.batching import sentence_batches
from transduce.translation.line_translator import LineTranslator
from transduce.translation.search_method import SearchMethod

__all__ = ["ParallelText", "Validation", "ValidationResult", "named_test_set", "perplexity", "read_parallel_text"]

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_TOKENS = 2048  # source and target positions of which the loss is computed at once


class ParallelText(NamedTuple):
    """Lines of text, side by side."""

    source: Sequence[str]
    target: Sequence[str]

    @property
    def checksum(self) -> str:
        """Of the text, wherever it lies."""
        sums = [checksum_of("\n".join(side).encode())["sha256"] for side in self]
        return "-".join(sums)


def read_parallel_text(spec: CorpusSpec) -> ParallelText:
    """The corpus as text; a `ValueError` where it is empty, for then there is nothing to measure, or is no plain text.

    Of a memory or a table what lacks a side is left out: there is nothing to translate, or to compare with.
    """
    lines = list(read_pairs(spec))
    if isinstance(spec, Tmx | Hub):
        lines = [pair for pair in lines if all(side.strip() for side in pair)]
    if not lines:
        raise ValueError(f"{name_of(spec)}: there is no line to validate or test on")
    corpus = ParallelText([source for source, _ in lines], [target for _, target in lines])
    if isinstance(spec, Files | Tsv):
        files = files_of(spec)
        for side, path in zip(corpus, (files[0], files[-1]), strict=True):
            refuse_markup(side, str(path))
    return corpus


def named_test_set(run: Path, name: str) -> CorpusSpec:
    """The test set `name` of the recipe that `run` was trained by, or its `validation`."""
    data = validated(DataSpec, read_yaml(run / RECIPE).get("data", {}), place=str(run / RECIPE))
    named = {**data.test, **({"validation": data.validation} if data.validation else {})}
    if name not in named:
        raise ValueError(f"--test {name}: {run / RECIPE} names {', '.join(named) or 'no test set'}")
    return named[name]


class ValidationResult(NamedTuple):
    """What a validation found.

    Loss is smoothed, as in training, but without what experts are penalised with; perplexity is not, and of a subword,
    ends included.
    """

    loss: float
    perplexity: float
    accuracy: float  # share of subwords that are the most probable, all before them given
    bleu: Score | None
    outputs: list[str]


def perplexity(loss: float) -> float:
    """e^loss, of a loss a word; infinite where it would not fit a float."""
    return math.exp(loss) if loss < 700 else math.inf


class Validation:
    """Measures models on one corpus."""

    def __init__(
        self,
        corpus: ParallelText,
        source: Subwords,
        target: Subwords,
        decoding: Decoding,
        smoothing: Smoothing,
        group: ProcessGroup = SINGLE_PROCESS,
        language: str | None = None,
    ) -> None:
        self.corpus, self.source, self.target = corpus, source, target
        self.decoding, self.smoothing, self.group = decoding, smoothing, group
        self.language = language  # of the target: BLEU cuts some languages in a way of their own

    @torch.inference_mode()
    def check_memory(self, model: TranslationModel) -> None:
        """Raises `RuntimeError` where the longest pair alone does not fit into memory; larger batches are halved."""
        source, target = self.source.encode(self.corpus.source), self.target.encode(self.corpus.target)
        longest = max(zip(source, target, strict=True), key=lambda pair: max(map(len, pair)))
        rows = max(1, BATCH_TOKENS // (max(map(len, longest)) + 1))
        training = model.training
        try:
            halved(lambda batch: self._batch_sums(model.eval(), batch), [longest] * rows)
        finally:
            model.train(training)

    def check(self, model: TranslationModel, *, bleu: bool = True) -> None:
        """A `ValueError` where a line is too long for `model`, or `bleu` is wanted and cannot be had.

        Before a training, and not at its first validation.
        """
        if bleu:
            metric_named("bleu", language=self.language)
        translator = LineTranslator([model], self.source, self.target, self.decoding)
        try:
            translator.encode_checked(self.corpus.source, self.source, " of the source")
            translator.encode_checked(self.corpus.target, self.target, " of the target")
        except ValueError as error:
            raise ValueError(f"data.validation: {error}") from None

    @torch.inference_mode()
    def __call__(self, model: TranslationModel, *, translate: bool = True) -> ValidationResult:
        """Validates `model`, which is left in the mode it came in."""
        training = model.training
        model.eval()
        try:
            smoothed, unsmoothed, right, tokens = self._sums(model)
            outputs = self._outputs(model) if translate else []
        finally:
            model.train(training)
        bleu = scores(outputs, [self.corpus.target], language=self.language)["bleu"] if translate else None
        return ValidationResult(smoothed / tokens, perplexity(unsmoothed / tokens), right / tokens, bleu, outputs)

    def _outputs(self, model: TranslationModel) -> list[str]:
        """The model's translations of the source."""
        translator = LineTranslator([model], self.source, self.target, self.decoding)
        method = SearchMethod(self.decoding)
        batches = translator.batches(self.corpus.source, method)
        work = batches[self.group.rank :: self.group.size]
        mine = self._tracked("translating", lambda batch: translator.translate_batch(batch, method), work)
        outputs = ["" for _ in self.corpus.source]
        for batch, best in zip(batches, self.group.all_gather(mine), strict=True):
            for number, translations in zip(batch.places, best, strict=True):
                outputs[number] = translations[0].text
        return outputs

    @staticmethod
    def _tracked(description: str, work: Callable[[Item], Result], batches: Sequence[Item]) -> list[Result]:
        """Returns the result of `work` on each batch, and counts batches as progress."""
        results = []
        with track(description, len(batches)) as progress:
            for batch in batches:
                results.append(work(batch))
                progress.advance()
        return results

    def _sums(self, model: TranslationModel) -> tuple[float, float, float, int]:
        """Smoothed loss, unsmoothed loss, words predicted right, words: summed over the corpus."""
        source, target = self.source.encode(self.corpus.source), self.target.encode(self.corpus.target)
        lengths = torch.tensor([max(len(one), len(other)) + 1 for one, other in zip(source, target, strict=True)])
        batches = list(sentence_batches(lengths.numpy(), BATCH_TOKENS))

        def stacked_sums(places: Iterable[int]) -> Tensor:
            pairs_of_batch = [(source[place], target[place]) for place in places]
            return torch.stack(halved(partial(self._batch_sums, model), pairs_of_batch))

        mine = self._tracked("validating", stacked_sums, batches[self.group.rank :: self.group.size])
        totals = torch.zeros(3, dtype=torch.float64)
        for sums in self.group.all_gather(mine):  # in the order of one process, so that the sum has its bits
            totals += sums.sum(0)
        smoothed, unsmoothed, right = totals.tolist()
        return smoothed, unsmoothed, right, sum(len(tokens) + 1 for tokens in target)

    def _batch_sums(self, model: TranslationModel, batch: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """The three sums of a batch."""
        symbols, device = model.spec.symbols, next(model.parameters()).device
        source = pad_rows([[*left, symbols.end] for left, _ in batch], symbols.pad, device)
        target_in = pad_rows([[symbols.begin, *right] for _, right in batch], symbols.pad, device)
        target_out = pad_rows([[*right, symbols.end] for _, right in batch], symbols.pad, device)
        # `forward` itself: what is compiled of a model is compiled for the shapes of training.
        states, _ = model.forward(source, source != symbols.pad, target_in)
        sums = model.readout.evaluate(states, target_out, self.smoothing)
        return torch.stack([each.double() for each in sums]).cpu()


def halved(work: Callable[[Sequence[Item]], Result], batch: Sequence[Item]) -> list[Result]:
    """Returns the results of `work` on the batch, or on its halves where memory is refused, and so on.

    Raises the `RuntimeError` where memory does not suffice for one item.
    """
    try:
        return [work(batch)]
    except RuntimeError as error:
        if not is_out_of_memory(error) or len(batch) == 1:
            raise
    # Outside of the handler: the error holds on to what was computed.
    middle = len(batch) // 2
    return halved(work, batch[:middle]) + halved(work, batch[middle:])
