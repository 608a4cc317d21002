"""Text to text: a model directory, or several as an ensemble, that translates, scores and explains."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.corpus.planner import sentence_batches
from transduce.model import Attention, TransformerModel, TranslationModel
from transduce.model.int8 import quantise
from transduce.model_directory import Model
from transduce.search import (
    Decoding,
    Ensemble,
    ForcedPrefix,
    Hypothesis,
    Sampling,
    SearchProblem,
    Stepper,
    beam_search,
    forced_scores,
    greedy_search,
    pad_rows,
    sample,
)
from transduce.text.subwords import Subwords

__all__ = ["Explanation", "SearchMethod", "Translation", "TranslationPrecision", "Translator"]

TranslationPrecision = Literal["float32", "bfloat16", "int8"]

_log = logging.getLogger("transduce")

BATCH_TOKENS = 8192  # source positions translated at once
SCORED_TOKENS = 4096  # and scored: every word stands before the readout at once

MAX_LINE_TOKENS = (
    10_000  # subwords of a line: attention's memory grows with their square, and no such line is a sentence
)


class Translation(NamedTuple):
    """One translation of a line: text, log-probability, and the score it was chosen by."""

    text: str
    log_probability: float
    score: float
    tokens: list[int]


class Explanation(NamedTuple):
    """A translation with every weight of attention that made it.

    Pieces are subwords as people read them, the end symbol "</s>" included; "▁" begins a word. Row t of the decoder's
    matrices is the step that wrote `target[t]`, whose own input was `target[t − 1]`, or "<s>".
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_text: str
    target_text: str
    encoder: tuple[NDArray[np.float32], ...]  # a layer: [heads source source]
    decoder: tuple[NDArray[np.float32], ...]  # a layer: [heads target target]
    cross: tuple[NDArray[np.float32], ...]  # a layer: [heads target source]


class SearchMethod(NamedTuple):
    """How to search: beam search by default."""

    decoding: Decoding = Decoding()
    n_best: int = 1
    greedy: bool = False
    sampling: Sampling | None = None
    seed: int = 1


class Batch(NamedTuple):
    """Lines that are translated at once: their numbers, their ids, and the ids that each translation begins with."""

    numbers: list[int]
    sources: list[list[int]]
    forced: list[list[int]]


class Translator:
    """Translates lines of text; `stepper` is a model or an ensemble, whose members share their subwords."""

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: Subwords,
        target: Subwords,
        decoding: Decoding,
        precision: TranslationPrecision = "float32",
    ) -> None:
        self.models, self.source, self.target, self.decoding = tuple(models), source, target, decoding
        self.precision = precision
        steppers: list[Stepper] = [quantise(model, _log.warning) if precision == "int8" else model for model in models]
        self.stepper = steppers[0] if len(models) == 1 else Ensemble(steppers)
        self.symbols = models[0].spec.symbols
        self.device = next(models[0].parameters()).device
        limits = [model.max_positions - 1 for model in models if model.max_positions is not None]
        self.longest = min([*limits, MAX_LINE_TOKENS])  # subwords of a sentence, without the end symbol

    @classmethod
    def load(
        cls, *directories: Path | str, device: str = "cpu", precision: TranslationPrecision = "float32"
    ) -> "Translator":
        """The model of one directory, or the ensemble of several; a `ValueError` where they do not fit together.

        In `int8` products are several times as fast, on a CPU, and a hair less exact; `bfloat16` is for a GPU.
        """
        models = [Model.read(Path(directory)) for directory in directories]
        first = models[0]
        for other, directory in zip(models[1:], directories[1:], strict=True):
            if other.config.vocabulary != first.config.vocabulary or not _same_subwords(first, other):
                raise ValueError(f"{directory} and {directories[0]} have different subwords; an ensemble shares them")
        if precision == "int8" and torch.device(device).type != "cpu":
            raise ValueError(f"--precision int8 is for a CPU, not for {device}: leave it out, or add --device cpu")
        if precision == "int8" and not torch.backends.mkldnn.is_available():
            raise ValueError(
                "--precision int8: this build of torch has no oneDNN, whose products these are; leave it out"
            )
        modules = [model.module.to(device) for model in models]
        for module in modules:
            if precision == "bfloat16":
                module.bfloat16()
        return cls(modules, first.source, first.target, first.config.decoding, precision)

    def translate(
        self,
        lines: Sequence[str],
        method: SearchMethod | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[Translation]]:
        """For each line its translations, best first; for an empty line one empty translation."""
        method = method or SearchMethod(self.decoding)
        found = [[Translation("", 0.0, 0.0, [])] for _ in lines]
        for batch in self.batches(lines, prefixes, batch_tokens):
            for number, translations in zip(batch.numbers, self.solved(batch, method), strict=True):
                found[number] = translations
        return found

    def solved(self, batch: Batch, method: SearchMethod) -> list[list[Translation]]:
        """The translations of each line of a batch, best first."""
        found = []
        for best in self._solve(batch, method):
            texts = self.target.decode([hypothesis.tokens for hypothesis in best])
            found.append(
                [
                    Translation(_one_line(text), hypothesis.log_probability, hypothesis.score, hypothesis.tokens)
                    for text, hypothesis in zip(texts, best, strict=True)
                ]
            )
        return found

    def batches(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> list[Batch]:
        """The lines that are not empty, cut into subwords, those of like length together, the longest first."""
        numbers = [number for number, line in enumerate(lines) if line.strip()]
        sources = self.source.encode([lines[number] for number in numbers])
        forced = self._forced([prefixes[number] for number in numbers]) if prefixes else [[] for _ in numbers]
        self._check_lengths(numbers, sources)
        self._check_lengths(numbers, forced, " of the prefixes")
        lengths = np.array([len(tokens) + 1 for tokens in sources], dtype=np.int64)
        return [
            Batch(
                [numbers[place] for place in places],
                [sources[place] for place in places],
                [forced[place] for place in places],
            )
            for places in sentence_batches(lengths, batch_tokens)
        ]

    def _forced(self, prefixes: Sequence[str]) -> list[list[int]]:
        """What translations begin with; a space at its end belongs to the word that follows."""
        return self.target.encode([prefix.rstrip() for prefix in prefixes])

    def untranslatable(self, lines: Sequence[str], prefixes: Sequence[str] | None = None) -> dict[int, str]:
        """The lines, by their place, that are too long, or their prefixes are, and what to do."""
        sides = [("", self.source.encode(lines))]
        if prefixes:
            sides.insert(0, ("is to begin with a prefix that ", self._forced(prefixes)))
        return {
            place: f"{which}{self._too_long(tokens)}"
            for which, side in sides
            for place, tokens in enumerate(side)
            if len(tokens) > self.longest and lines[place].strip()
        }

    @torch.inference_mode()
    def _solve(self, batch: Batch, method: SearchMethod) -> list[list[Hypothesis]]:
        """Searches in the way that was asked for."""
        stepper, problem = self.stepper, self._problem(batch, method)
        if any(batch.forced):
            stepper = ForcedPrefix(stepper, self._rectangle(batch.forced), self.symbols.pad)
        if method.sampling is not None:
            draws = _draws(method.seed, batch.numbers, problem.max_length).to(self.device)
            return [[hypothesis] for hypothesis in sample(stepper, problem, method.sampling, draws)]
        if method.greedy:
            return [[hypothesis] for hypothesis in greedy_search(stepper, problem)]
        return beam_search(stepper, problem, method.decoding, method.n_best)

    def _problem(self, batch: Batch, method: SearchMethod) -> SearchProblem:
        """The batch as a search wants it: a translation has at most as many words as its source, or the prefix, plus
        extra."""
        source = self._rectangle([[*tokens, self.symbols.end] for tokens in batch.sources])
        extra = method.decoding.extra_length
        pairs = zip(batch.sources, batch.forced, strict=True)
        bounds = [max(len(tokens), len(prefix)) + 1 + extra for tokens, prefix in pairs]
        return SearchProblem(
            source=source,
            visible=source != self.symbols.pad,
            bounds=torch.tensor([int(min(bound, self.longest + 1)) for bound in bounds], device=self.device),
            begin=self.symbols.begin,
            end=self.symbols.end,
            banned=(self.symbols.pad, self.symbols.begin),
        )

    @torch.inference_mode()
    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[float]:
        """The log-probability of each target given its source, end symbol included."""
        return [float(tokens.sum()) for tokens in self.token_scores(sources, targets, batch_tokens=batch_tokens)]

    @torch.inference_mode()
    def token_scores(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """The log-probability of each word of each target, end symbol included."""
        source_ids, target_ids = self.source.encode(sources), self.target.encode(targets)
        self._check_lengths(range(len(sources)), source_ids, " of the source")
        self._check_lengths(range(len(targets)), target_ids, " of the target")
        lengths = np.array(
            [max(len(s), len(t)) + 1 for s, t in zip(source_ids, target_ids, strict=True)], dtype=np.int64
        )
        scores: list[NDArray[np.float64]] = [np.zeros(0)] * len(sources)
        begin, end, pad = self.symbols.begin, self.symbols.end, self.symbols.pad
        for places in sentence_batches(lengths, batch_tokens):
            source = self._rectangle([[*source_ids[place], end] for place in places])
            target_in = self._rectangle([[begin, *target_ids[place]] for place in places])
            target_out = self._rectangle([[*target_ids[place], end] for place in places])
            found = forced_scores(self.stepper, source, source != pad, target_in, target_out, pad)
            for place, row in zip(places, found.double().cpu().numpy(), strict=True):
                scores[int(place)] = row[: len(target_ids[place]) + 1]
        return scores

    def check_lengths(self, lines: Sequence[str], subwords: Subwords, side: str) -> None:
        """A `ValueError` where a line is too long for the models; `side` is what it calls them: " of the source"."""
        self._check_lengths(range(len(lines)), subwords.encode(lines), side)

    @torch.inference_mode()
    def explain(self, text: str, target: str | list[int] | None = None) -> Explanation:
        """The translation of `text`, or the given `target`, as text or as words; with all weights of attention.

        Of the first model; `ValueError` where that has none to show.
        """
        model, end = self._explicable(), self.symbols.end
        read = self.source.encode([text])[0]
        self._check_lengths([0], [read], " of the source")
        if isinstance(target, str):
            written = self.target.encode([target])[0]
            self._check_lengths([0], [written], " of the target")
        else:
            tokens = self.translate([text])[0][0].tokens if target is None else target
            written = tokens[: self.longest]  # one that was cut at its bound may be a word longer than the positions
        source, tokens = [*read, end], [*written, end]
        rows = self._rectangle([source])
        visible = torch.ones_like(rows, dtype=torch.bool)
        weights = model.attention_weights(rows, visible, self._rectangle([[self.symbols.begin, *written]]))
        encoder, decoder, cross = (tuple(layer[0].float().cpu().numpy() for layer in part) for part in weights)
        return Explanation(
            source=tuple(self.source.readable_subwords(source)),
            target=tuple(self.target.readable_subwords(tokens)),
            source_text=text,
            target_text=_one_line(self.target.decode([written])[0]),
            encoder=encoder,
            decoder=decoder,
            cross=cross,
        )

    def check_explicable(self) -> None:
        """A `ValueError` where the first model has no weights of attention to show."""
        self._explicable()

    def _explicable(self) -> TransformerModel:
        """The first model, a Transformer whose layers attend to whole sentences."""
        model = self.models[0]
        if not isinstance(model, TransformerModel) or not isinstance(model.spec.mixer, Attention):
            raise ValueError(
                "there is nothing to draw or to align: this model has no heads that look at a whole sentence in every "
                "layer; only a Transformer with `model.mixer.kind: attention` has"
            )
        return model

    def _check_lengths(self, numbers: Sequence[int], sentences: Sequence[list[int]], side: str = "") -> None:
        """Refuses a line that is longer than the positions a model has learned, or than any sentence."""
        for number, tokens in zip(numbers, sentences, strict=True):
            if len(tokens) > self.longest:
                raise ValueError(f"line {number + 1}{side} {self._too_long(tokens)}")

    def _too_long(self, tokens: Sequence[int]) -> str:
        if self.longest == MAX_LINE_TOKENS:
            return f"has {len(tokens):,} subwords, more than {MAX_LINE_TOKENS:,}; split the line"
        return (
            f"has {len(tokens)} subwords, and this model has learned positions for {self.longest}; "
            "split the line, or train a model with more of them, or a Transformer with sinusoids"
        )

    def _rectangle(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Rows of ids, padded to the longest, on the device of the models."""
        return pad_rows(rows, self.symbols.pad, self.device)


def _draws(seed: int, numbers: Sequence[int], max_length: int) -> Tensor:
    """Uniform numbers for each line, a function of the seed and the line's number alone."""
    rows = [np.random.Generator(np.random.Philox(key=[seed, number])).random(max_length) for number in numbers]
    return torch.from_numpy(np.stack(rows))


def _one_line(text: str) -> str:
    """One line in is one line out, whatever a model writes."""
    return text.replace("\n", " ")


def _same_subwords(one: Model, other: Model) -> bool:
    """Whether two models cut text alike."""
    pairs = ((one.source, other.source), (one.target, other.target))
    return all(mine.as_json() == theirs.as_json() for mine, theirs in pairs)
