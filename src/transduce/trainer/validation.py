"""Validation: loss, perplexity, accuracy, and BLEU or F1 of a model on a corpus that it is not trained on."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from transduce.corpus import CorpusSpec, DataSpec, Files, Hub, Tmx, Tsv, files_of, name_of, read_pairs
from transduce.measure import bracket_scores, metric_named, scores
from transduce.model import TranslationModel
from transduce.model.cross_entropy import Smoothing
from transduce.model_directory import RECIPE
from transduce.recipe import read_yaml
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.memory import run_by_halves
from transduce.runtime.progress import track
from transduce.search import Decoding, pad_rows
from transduce.settings import validated
from transduce.storage.checksums import checksum_of
from transduce.text.linearisation import InOrder, TopDown
from transduce.text.lines import refuse_markup
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.trees import Tree
from transduce.translation.batching import LineTooLargeError, sentence_batches
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

__all__ = [
    "ParallelText",
    "Validation",
    "ValidationResult",
    "ValidationScore",
    "named_test_set",
    "named_validations",
    "perplexity",
    "read_parallel_text",
    "read_trees_of",
    "test_sets_of",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_TOKENS = 2048  # positions of a side whose loss is computed at once


class ParallelText(NamedTuple):
    """Lines of source and target text, aligned by number."""

    source: Sequence[str]
    target: Sequence[str]

    @property
    def checksum(self) -> str:
        """A checksum of the text of both sides."""
        sums = [checksum_of("\n".join(side).encode())["sha256"] for side in self]
        return "-".join(sums)


def read_parallel_text(spec: CorpusSpec) -> ParallelText:
    """Reads a corpus as text; raises ValueError where it has no pair, or where a file of it is markup.

    Pairs of TMX files and of data sets of the Hub that lack a side are left out, because they cannot be measured.
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


def test_sets_of(run: Path) -> dict[str, CorpusSpec]:
    """Returns the test sets of the recipe of `run` by name, with their languages, and then its validation corpora.

    `validation` is its validation corpus; of several, `validation-` and a name as in the metrics log.
    """
    data = validated(DataSpec, read_yaml(run / RECIPE).get("data", {}), place=str(run / RECIPE))
    validations = {f"validation-{key}": corpus for key, corpus in named_validations(data).items()}
    if len(validations) == 1:
        validations = {"validation": data.validations[0]}
    return {name: data.with_direction(corpus) for name, corpus in {**data.test, **validations}.items()}


def named_test_set(run: Path, name: str) -> CorpusSpec:
    """Returns a test set of `test_sets_of`; raises ValueError where there is none of the name."""
    if not (run / RECIPE).exists():
        raise ValueError(
            f"{run} has no {RECIPE}, as an imported model: it names no {name!r}. Measure it with `transduce evaluate "
            "--source FILE --reference FILE`, or fine-tune it by a recipe that names one"
        )
    corpora = test_sets_of(run)
    if name not in corpora:
        raise ValueError(f"--test {name}: {run / RECIPE} names {', '.join(corpora) or 'no validation and no test set'}")
    return corpora[name]


def named_validations(data: DataSpec) -> dict[str, CorpusSpec]:
    """Returns the validation corpora by direction and tag, such as `en-de`; equal names get numbers."""
    named: dict[str, CorpusSpec] = {}
    for corpus in data.validations:
        name = "-".join(part for part in (*data.direction_of(corpus), corpus.tag) if part) or "validation"
        same = sum(key == name or key.startswith(f"{name}.") for key in named)
        named[f"{name}.{same + 1}" if same else name] = corpus
    return named


class ValidationScore(NamedTuple):
    """The BLEU of translations, or the F1 of trees, from 0 to 100; bounds of its confidence interval if asked for."""

    metric: Literal["bleu", "f1"]
    score: float
    signature: str
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        """The name of the metric in text."""
        return self.metric.upper()


class ValidationResult(NamedTuple):
    """The result of a validation; its means are over target tokens, end symbols included."""

    loss: float  # smoothed as in training, without the penalties of experts and of R-Drop
    perplexity: float  # of the unsmoothed loss
    accuracy: float  # share of tokens that the model ranks first, given the earlier ones of the reference
    score: ValidationScore | None
    outputs: list[str]
    parts: Mapping[str, "ValidationResult"] = {}  # by name, where there are several corpora; their means are above


def perplexity(loss: float) -> float:
    """Returns e^loss for a loss a token; infinity where it exceeds a float."""
    return math.exp(loss) if loss < 700 else math.inf


class Validation:
    """Measures models on one corpus; the processes of `group` divide the batches among them."""

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
    ) -> None:
        self.corpus, self.source, self.target = corpus, source, target
        self.decoding, self.smoothing, self.group = decoding, smoothing, group
        self.language = language  # of the target: BLEU has tokenizers of their own for some languages
        self.linearisation = linearisation  # of the trees of a parser
        self.bootstrap = bootstrap  # resamples for the confidence interval of the score
        self.source_tags = source_tags  # ids before each source

    @torch.inference_mode()
    def check_memory(self, model: TranslationModel) -> None:
        """Raises RuntimeError where the longest pair alone does not fit into memory; larger batches are halved."""
        source, target = self._encode()
        longest = max(zip(source, target, strict=True), key=lambda pair: max(map(len, pair)))
        rows = max(1, BATCH_TOKENS // (max(map(len, longest)) + 1))
        training = model.training
        try:
            run_by_halves(lambda batch: [self._batch_sums(model.eval(), batch)], [longest] * rows)
        finally:
            model.train(training)

    def check(self, model: TranslationModel, *, will_translate: bool = True) -> None:
        """Raises ValueError where a line is too long for `model`, or where its output cannot be measured.

        A training calls it at its start, so that its first validation does not fail.
        """
        if will_translate and self.linearisation is None:
            metric_named("bleu", language=self.language)
        translator = self._translator(model)
        try:
            translator.encode_sources(self.corpus.source)
            translator.encode_checked(self.corpus.target, self.target, " of the target")
        except ValueError as error:
            raise ValueError(f"data.validation: {error}") from None

    @torch.inference_mode()
    def __call__(self, model: TranslationModel, *, translate: bool = True) -> ValidationResult:
        """Validates `model` and leaves its mode unchanged; no score and no outputs where `translate` is False.

        Raises RuntimeError on all processes where memory does not suffice on one.
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
        """Returns the BLEU of translations, or the F1 of linearised trees."""
        if self.linearisation is None:
            references = [self.corpus.target]
            bleu = scores(outputs, references, language=self.language, bootstrap=self.bootstrap)["bleu"]
            return ValidationScore("bleu", bleu.score, bleu.signature, bleu.low, bleu.high)
        gold, output = (
            read_trees_of(self.linearisation, lines, self.corpus.source) for lines in (self.corpus.target, outputs)
        )
        f1 = bracket_scores(gold, output, bootstrap=self.bootstrap)
        # The corpus has cleaned trees, which lack brackets that `transduce evaluate` counts.
        return ValidationScore("f1", f1.f1, f"{f1.signature}|gold:cleaned", f1.low, f1.high)

    def _translator(self, model: TranslationModel) -> Translator:
        """Returns the translator of `model`, or its parser."""
        sides = [model], self.source, self.target, self.decoding
        return Translator.of_models(*sides, linearisation=self.linearisation).with_source_tags(self.source_tags)

    def _encode(self) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the tokens of both sides, without end symbols."""
        sources = [[*self.source_tags, *tokens] for tokens in self.source.encode(self.corpus.source)]
        return sources, self.target.encode(self.corpus.target)

    def _outputs(self, model: TranslationModel) -> list[str]:
        """Returns the model's translations of the source lines."""
        translator = self._translator(model)
        method = SearchMethod(self.decoding)
        batches = translator.batches(self.corpus.source, method)
        results = self._map_batches("translating", lambda batch: translator.translate_by_halves(batch, method), batches)
        outputs = ["" for _ in self.corpus.source]
        for batch, best in zip(batches, results, strict=True):
            for place, translations in zip(batch.indices, best, strict=True):
                if isinstance(translations, str):
                    raise LineTooLargeError(place + 1, translations)
                outputs[place] = translations[0].text
        return outputs

    def _map_batches(self, description: str, work: Callable[[Item], Result], batches: Sequence[Item]) -> list[Result]:
        """Returns the result of `work` on each batch; each process works on its part of the batches."""

        def own_results() -> list[Result]:
            own_batches, results = batches[self.group.rank :: self.group.size], []
            with track(description, len(own_batches)) as progress:
                for batch in own_batches:
                    results.append(work(batch))
                    progress.advance()
            return results

        return self.group.all_gather(self.group.on_every_rank(own_results))

    def _sums(self, model: TranslationModel) -> tuple[float, float, float, int]:
        """Returns smoothed loss, unsmoothed loss, correct tokens and all tokens, summed over the corpus."""
        source, target = self._encode()
        lengths = torch.tensor([max(map(len, pair)) + 1 for pair in zip(source, target, strict=True)])
        batches = list(sentence_batches(lengths.numpy(), BATCH_TOKENS))

        def stacked_sums(places: Iterable[int]) -> Tensor:
            pairs_of_batch = [(source[place], target[place]) for place in places]
            return torch.stack(run_by_halves(lambda batch: [self._batch_sums(model, batch)], pairs_of_batch))

        totals = torch.zeros(3, dtype=torch.float64)
        # In the order of the batches, so that the sum does not depend on the number of processes.
        for sums in self._map_batches("validating", stacked_sums, batches):
            totals += sums.sum(0)
        smoothed, unsmoothed, correct = totals.tolist()
        return smoothed, unsmoothed, correct, sum(len(tokens) + 1 for tokens in target)

    def _batch_sums(self, model: TranslationModel, batch: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """Returns smoothed loss, unsmoothed loss and correct tokens of a batch, summed, as float64 [3] on the CPU."""
        symbols, device = model.spec.symbols, next(model.parameters()).device
        source = pad_rows([[*tokens, symbols.end] for tokens, _ in batch], symbols.pad, device)
        target_in = pad_rows([[symbols.begin, *tokens] for _, tokens in batch], symbols.pad, device)
        target_out = pad_rows([[*tokens, symbols.end] for _, tokens in batch], symbols.pad, device)
        # `forward` and not `__call__`, which would compile the model for the shapes of the validation.
        states, _ = model.forward(source, source != symbols.pad, target_in)
        sums = model.readout.evaluate(states, target_out, self.smoothing)
        return torch.stack([total.double() for total in sums]).cpu()


def read_trees_of(linearisation: TopDown | InOrder, symbols: Sequence[str], words: Sequence[str]) -> list[Tree]:
    """Returns the trees of lines of symbols over lines of words; raises ValueError where they make no tree."""
    return [linearisation.tree(line.split(), over.split(" ")) for line, over in zip(symbols, words, strict=True)]
