"""The translator: a model directory, or several as an ensemble, that translates, scores and explains text."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.model import Attention, TransformerModel
from transduce.model.cpu_stepper import WeightsRecord
from transduce.model_directory import Config, Model, fingerprint
from transduce.runtime.device import choose_device, count_forks
from transduce.runtime.memory import is_out_of_memory, run_by_halves
from transduce.search import Decoding, forced_scores
from transduce.text.tree_symbols import UNKNOWN, TreeSymbols
from transduce.translation.batching import sentence_batches
from transduce.translation.line_lengths import LineTooLargeError
from transduce.translation.line_translator import (
    BATCH_TOKENS,
    LOOKAHEAD,
    LineTranslator,
)
from transduce.translation.precision import TranslationPrecision, check_precision
from transduce.translation.results import Explanation, Translation
from transduce.translation.search_method import SearchOptions, search_method
from transduce.translation.source_request import RequestOptions, SourceRequest, choose_tags
from transduce.translation.texts import each_text, one_line

__all__ = ["Translator"]

_log = logging.getLogger("transduce")

SCORED_TOKENS = 4096  # positions scored at once: the log-probabilities of all of them are in memory


class _Origin(NamedTuple):
    """What a translator was loaded from, which is what pickling keeps of its models."""

    directories: tuple[Path, ...]
    fingerprints: tuple[str, ...]
    device: str
    precision: TranslationPrecision


class Translator(LineTranslator):
    """Translates, scores and explains text with one model, or with an ensemble of models that share their subwords.

    A translator that `load` has made can be pickled, so that `Pool.map(translator.translate, texts)` works: the other
    process loads the same directories.
    """

    _origin: _Origin | None = None
    _loaded: tuple[WeightsRecord, ...] = ()  # of the models, as they were in the directories; empty: not known

    def __repr__(self) -> str:
        models = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        sizes = f"{self.source.size:,} source and {self.target.size:,} target subwords"
        return f"Translator({models}, {sizes}, {self.precision} on {self.device}, {self.decoding!r})"

    configs: tuple[Config, ...] = ()
    """The settings of the models that `load` has read."""

    @classmethod
    def load(
        cls,
        *directories: Path | str,
        device: str = "cpu",
        precision: TranslationPrecision = "float32",
        **request: Unpack[RequestOptions],
    ) -> "Translator":
        """Reads the model of one directory, or an ensemble from several.

        `device` is auto, cpu, cuda or cuda:1. `precision` int8 is for a CPU: much faster, and nearly as exact; bfloat16
        is for a GPU. A model of several directions needs `to`, the target language; see `into`. Raises ValueError where
        a model is missing or damaged, the models have different subwords, or the device or the precision is not
        available.
        """
        check_precision(precision)
        if precision == "int8" and device == "auto":
            device = "cpu"
        if precision == "int8" and not device.startswith("cpu"):
            raise ValueError(f"--precision int8 is for a CPU, not for {device}: leave it out, or add --device cpu")
        if precision == "int8" and not torch.backends.mkldnn.is_available():
            raise ValueError("--precision int8 needs oneDNN, which this build of torch does not have: leave it out")
        if not directories:
            raise ValueError("there is no model to load: name a model directory, such as runs/demo")
        return cls._read(directories, device, precision).into(**request)

    @classmethod
    def _read(cls, directories: Sequence[Path | str], device: str, precision: TranslationPrecision) -> "Translator":
        """Reads the models of directories, for no direction yet."""
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
        translator = cls(modules, first.source, first.target, config.decoding, precision, config.linearisation)
        translator.configs = tuple(model.config for model in models)
        translator._origin = _Origin(paths, fingerprints, device, precision)
        translator._loaded = tuple(map(WeightsRecord, modules))
        return translator

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        copied = super().__deepcopy__(memo)
        copied._loaded = ()  # the records are of the original's models
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        """Raises ValueError if the weights were changed after loading, TypeError for what cannot be loaded again."""
        if self._origin is None:
            return super().__reduce__()
        if self._stop_check is not None:
            raise TypeError("a translator with a stop check cannot be pickled: add the check in the other process")
        if not self._loaded or not all(record.is_current() for record in self._loaded):
            self._check_weights(_load_origin(type(self), self._origin))
        return _load_again, (type(self), self._origin, self.decoding, self.source_tags, self.target_language)

    def _check_weights(self, loaded: "Translator") -> None:
        """Raises ValueError unless the models have the weights of those just `loaded`, perhaps at other addresses."""
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

    def into(self, to: str | None = None, *, source_language: str | None = None, tag: str | None = None) -> Self:
        """Returns a translator with the same models for another request.

        `to` is the target language, needed where there are several; `source_language` is checked; `tag` is one of
        the tags that the model was trained with. Raises ValueError for what the models were not trained on. A direction
        that was not trained, but whose languages were, is logged as zero-shot.
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

    @overload
    def translate(self, text: str, *, n_best: None = None, **options: Any) -> Translation: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: None = None, **options: Any) -> list[Translation]: ...
    @overload
    def translate(self, text: str, *, n_best: int, **options: Any) -> list[Translation]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: int, **options: Any) -> list[list[Translation]]: ...
    def translate(
        self,
        text: str | Iterable[str],
        *,
        n_best: int | None = None,
        prefix: str | Iterable[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        **options: Any,
    ) -> Translation | list[Translation] | list[list[Translation]]:
        """Translates one sentence to one `Translation`, or each of an iterable to a list of them.

        With `n_best` a text has a list of at most `n_best` translations, best first, instead of one. `prefix` is the
        beginning of the translation, or one prefix a text. `options` are those of `SearchOptions`. An empty text has an
        empty translation; several sentences, or line ends, count as one sentence. Raises TypeError for a text that is
        no str. Raises ValueError for options that exclude each other or are out of range, for unequal numbers of
        prefixes and texts, and for a text that is too long.
        """
        method = search_method(self.decoding, 1 if n_best is None else n_best, **options)
        if isinstance(text, str):
            if prefix is not None and not isinstance(prefix, str):
                raise TypeError(f"`prefix` of one text is one str, not {type(prefix).__name__}")
            (best,) = self.translate_lines(
                [text], method, prefixes=None if prefix is None else [prefix], batch_tokens=batch_tokens
            )
            return best[0] if n_best is None else best
        prefixes = None if prefix is None else list(each_text(prefix, "prefix"))
        n_best_lists = self.translate_lines(
            list(each_text(text, "text")), method, prefixes=prefixes, batch_tokens=batch_tokens
        )
        return [best[0] for best in n_best_lists] if n_best is None else n_best_lists

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefix: Iterable[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lookahead: int = LOOKAHEAD,
        **options: Unpack[SearchOptions],
    ) -> Iterator[Translation]:
        """Yields the translation of each line, in order; reads at most `lookahead` lines ahead.

        With a `lookahead` of 1, each line is translated before the next is read. The other arguments are those of
        `translate`.
        """
        method = search_method(self.decoding, **options)
        n_best_lists = self.stream_lines(lines, method, prefixes=prefix, batch_tokens=batch_tokens, lookahead=lookahead)
        return (best[0] for best in n_best_lists)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[float]:
        """Returns the log-probability of each target given its source, end symbol included."""
        return [float(tokens.sum()) for tokens in self.token_scores(sources, targets, batch_tokens=batch_tokens)]

    def token_scores(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, end symbol included.

        Raises ValueError for unequal numbers of sources and targets, and for a line that is too long. Raises
        LineTooLargeError for a pair that does not fit into memory alone, and RuntimeError for a log-probability that is
        not finite.
        """
        sources, targets = list(each_text(sources, "source")), list(each_text(targets, "target"))
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources):,} sources and {len(targets):,} targets: give one target a source"
            )
        pairs = list(zip(self.encode_sources(sources), self._encode_targets(targets), strict=True))
        return self.score_tokens(pairs, batch_tokens=batch_tokens)

    @torch.inference_mode()
    def score_tokens(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, batch_tokens: int = SCORED_TOKENS
    ) -> list[NDArray[np.float64]]:
        """Returns what `token_scores` does for pairs of source tokens, tags included, and target tokens."""
        self._check_ready()
        lengths = np.array([max(map(len, pair)) + 1 for pair in pairs], dtype=np.int64)
        scores: list[NDArray[np.float64]] = [np.zeros(0)] * len(pairs)
        for places in sentence_batches(lengths, batch_tokens):
            for place, row in zip(places, self._score_by_halves(pairs, places), strict=True):
                if not np.isfinite(row).all():
                    raise RuntimeError(
                        f"line {place + 1}: the model computes no finite log-probability, because its weights are "
                        "damaged or too large; restore it from a backup, or train it with a lower rate"
                    )
                scores[int(place)] = row
        return scores

    def _encode_targets(self, targets: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each target; raises ValueError for one that is too long or has unknown symbols."""
        encoded = self.encode_checked(targets, self.target, " of the target")
        for number, tokens in enumerate(encoded, start=1):
            if isinstance(self.target, TreeSymbols) and UNKNOWN in tokens:
                symbol = targets[number - 1].split()[tokens.index(UNKNOWN)]
                raise ValueError(
                    f"line {number} of the target has {symbol!r}, no symbol of this parser: write the symbols of a "
                    "tree, such as `(S (NP PRP )NP )S`, and not the tree"
                )
        return encoded

    def _score_by_halves(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], places: NDArray[np.int64]
    ) -> list[NDArray[np.float64]]:
        """Returns the log-probabilities of the pairs at `places`, in halves where memory is short."""

        def refuse(place: int) -> NDArray[np.float64]:
            source, target = pairs[place]
            lengths = f"{len(source):,} source and {len(target):,} target subwords"
            raise LineTooLargeError(place + 1, f"has {lengths}, too many for the memory here; split the line")

        return run_by_halves(lambda some: self._score_batch([pairs[place] for place in some]), places.tolist(), refuse)

    def _score_batch(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[NDArray[np.float64]]:
        """Returns the log-probabilities of the target tokens of each pair."""
        begin, end, pad = self.symbols.begin, self.symbols.end, self.symbols.pad
        source = self._rectangle([[*source, end] for source, _ in pairs])
        target_in = self._rectangle([[begin, *target] for _, target in pairs])
        target_out = self._rectangle([[*target, end] for _, target in pairs])
        log_probabilities = forced_scores(self.current_stepper()[0], source, source != pad, target_in, target_out, pad)
        rows = log_probabilities.double().cpu().numpy()
        return [row[: len(target) + 1] for row, (_, target) in zip(rows, pairs, strict=True)]

    @torch.inference_mode()
    def explain(self, text: str, target: str | list[int] | None = None) -> Explanation:
        """Returns the translation of `text`, or `target` (text or tokens), with the first model's attention weights.

        Raises ValueError where the first model has no attention weights to show, or a text is too long, and
        LineTooLargeError where the weights do not fit into memory.
        """
        self._check_ready()
        self.check_explicable()
        end = self.symbols.end
        (source_tokens,) = self.encode_sources([text])
        if isinstance(target, str):
            (target_tokens,) = self._encode_targets([target])
        else:
            tokens = self.translate(text).tokens if target is None else target
            # A translation that was cut at its bound may be a token longer than the positions.
            target_tokens = tokens[: self.max_line_tokens]
        try:
            encoder, decoder, cross = self._attention_weights(source_tokens, target_tokens)
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

    def _attention_weights(self, source_tokens: list[int], target_tokens: list[int]) -> tuple[tuple[Any, ...], ...]:
        """Returns the weights [heads query key] of each layer: of the encoder, of the decoder, and between the two."""
        source = self._rectangle([[*source_tokens, self.symbols.end]])
        target_in = self._rectangle([[self.symbols.begin, *target_tokens]])
        visible = torch.ones_like(source, dtype=torch.bool)
        weights = self._attention_model().attention_weights(source, visible, target_in)
        return tuple(tuple(layer[0].float().cpu().numpy() for layer in part) for part in weights)

    def check_explicable(self) -> None:
        """Raises ValueError where the first model has no attention weights to show."""
        self._attention_model()

    def _attention_model(self) -> TransformerModel:
        """Returns the first model; raises ValueError where it is no Transformer with attention in every layer."""
        model = self.models[0]
        if not isinstance(model, TransformerModel) or not isinstance(model.spec.mixer, Attention):
            raise ValueError(
                "there is nothing to draw or to align: this model has no heads that attend to a whole sentence in "
                "every layer; only a Transformer with `model.mixer.kind: attention` has"
            )
        return model


def _load_again(
    kind: type[Translator],
    origin: _Origin,
    decoding: Decoding,
    source_tags: tuple[int, ...],
    target_language: str | None,
) -> Translator:
    """Returns a pickled translator; raises ValueError where a directory has another model since it was loaded.

    A forked process lacks the threads of its parent, so that it translates with one thread. A worker process, which
    gets the translator with each task, loads it once.
    """
    if count_forks():
        torch.set_num_threads(1)
    load = _load_once if parent_process() is not None else _load_origin
    translator = load(kind, origin).with_source_tags(source_tags, target_language)
    translator.decoding = decoding
    return translator


def _load_origin(kind: type[Translator], origin: _Origin) -> Translator:
    """Loads the models of a pickled translator."""
    for directory, loaded in zip(origin.directories, origin.fingerprints, strict=True):
        if fingerprint(directory) != loaded:
            raise ValueError(f"the model in {directory} has changed since the translator was loaded: load it again")
    return kind._read(origin.directories, origin.device, origin.precision)


# A pool may alternate between directions.
_load_once = cast(Callable[[type[Translator], _Origin], Translator], lru_cache(maxsize=4)(_load_origin))


def _same_subwords(first: Model, second: Model) -> bool:
    """Returns whether two models have the same subwords on both sides."""
    sides = ((first.source, second.source), (first.target, second.target))
    return all(left.as_json() == right.as_json() for left, right in sides)
