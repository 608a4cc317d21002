"""Exports models to CTranslate2, a C++ engine for CPUs and GPUs, and runs its search with our subwords."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.exchange.parity import EngineTranslation, import_engine
from transduce.exchange.subword_files import write_subwords
from transduce.exchange.transformer_weights import (
    TABLE_POSITIONS,
    TransformerWeights,
    int8_rows,
    position_tables,
    transformer_weights,
)
from transduce.model.feed_forward import FeedForward
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.model_directory.config import Config
from transduce.model_directory.model import Model
from transduce.search.beam import Hypothesis, length_penalty
from transduce.search.cancellation import StopCheck
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.batching import SentenceBatch
from transduce.translation.results import one_line
from transduce.translation.search_method import SearchMethod

WEIGHTS = "model.bin"
CONFIG_COPY = "transduce.json"  # copy of the config.json of the model directory; CTranslate2 has its own config.json

PAIRS_AT_ONCE = 64  # largest number of sentence pairs in a batch

AS_EXPORTED = "default"  # CTranslate2's name for the precision of the exported weights


def import_ctranslate2() -> ModuleType:
    """Imports and returns the package `ctranslate2`; raises ValueError if it is not installed."""
    return import_engine("ctranslate2", "CTranslate2", "ctranslate2")


def write(model: Model, folder: Path, precision: str) -> None:
    """Writes `model.bin`, `config.json` and the vocabularies to `folder`; `precision` is float32, float16 or int8.

    Also writes our subwords and, as `transduce.json`, our config, so that the folder is sufficient to translate text.
    """
    specification = _specification(model, transformer_weights(model))
    if precision == "int8":
        _quantise(specification)
    specification.validate()
    specification.optimize(quantization="float16" if precision == "float16" else None)
    specification.save(str(folder))
    write_subwords((model.source, model.target), folder)
    config = json.dumps(model.config.as_dictionary(), indent=2, ensure_ascii=False)
    (folder / CONFIG_COPY).write_text(config + "\n", "utf-8", newline="\n")


def _specification(model: Model, weights: TransformerWeights) -> Any:
    """Returns the model as a `TransformerSpec`, the class that CTranslate2's own converters build."""
    import_ctranslate2()
    from ctranslate2.specs import transformer_spec
    from ctranslate2.specs.common_spec import Activation

    spec, symbols = weights.spec, weights.spec.symbols
    assert isinstance(spec.feed_forward, FeedForward)
    shape = {
        "num_heads": weights.heads,
        "head_dim": None if weights.heads * weights.width == spec.d_model else weights.width,
        "pre_norm": spec.norm == "pre",
        "activation": {"relu": Activation.RELU, "gelu": Activation.GELU, "swish": Activation.SWISH}[
            spec.feed_forward.activation
        ],
    }
    encoder = transformer_spec.TransformerEncoderSpec(spec.encoder_layers, **shape)
    decoder = transformer_spec.TransformerDecoderSpec(spec.decoder_layers, **shape)
    # The arrays are copied, because they share memory with our model and CTranslate2 quantises arrays in place.
    encoder.embeddings[0].weight = weights.tensors["source_embedding.weight"].copy()
    decoder.embeddings.weight = weights.tensors["target_embedding.weight"].copy()
    tables = position_tables(model)
    encoder.position_encodings.encodings, decoder.position_encodings.encodings = tables
    decoder.start_from_zero_embedding = spec.first_input == "zeros"

    def set_linear(linear: Any, *names: str) -> None:
        """Sets the weights of a linear layer to those of our linear maps `names`, concatenated along the outputs."""
        linear.weight = np.concatenate([weights.tensors[f"{name}.weight"] for name in names])
        if f"{names[0]}.bias" in weights.tensors:
            linear.bias = np.concatenate([weights.tensors[f"{name}.bias"] for name in names])

    def set_norm(norm: Any, name: str) -> None:
        norm.gamma, norm.beta = (weights.tensors[f"{name}.{kind}"] for kind in ("weight", "bias"))

    set_linear(decoder.projection, "readout")
    for side, part in (("encoder", encoder), ("decoder", decoder)):
        if spec.norm == "pre":
            set_norm(part.layer_norm, f"{side}_norm")
        for number, layer in enumerate(part.layer):
            ours, self_attention = f"{side}.{number}", layer.self_attention
            set_linear(self_attention.linear[0], f"{ours}.mixer.query", f"{ours}.mixer.key_value")
            set_linear(self_attention.linear[1], f"{ours}.mixer.output")
            set_norm(self_attention.layer_norm, f"{ours}.around_mixer.norm")
            if side == "decoder":
                for linear, name in zip(layer.attention.linear, ("query", "key_value", "output"), strict=True):
                    set_linear(linear, f"{ours}.cross.{name}")
                set_norm(layer.attention.layer_norm, f"{ours}.around_cross.norm")
            set_linear(layer.ffn.linear_0, f"{ours}.feed_forward.inner")
            set_linear(layer.ffn.linear_1, f"{ours}.feed_forward.outer")
            set_norm(layer.ffn.layer_norm, f"{ours}.around_feed_forward.norm")
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    source, target = model.source.vocabulary, model.target.vocabulary
    specification.register_source_vocabulary(source)
    specification.register_target_vocabulary(target)
    specification.config.unk_token = source[symbols.pad]  # our text never has an unknown token
    specification.config.bos_token = specification.config.decoder_start_token = target[symbols.begin]
    specification.config.eos_token = target[symbols.end]
    specification.config.add_source_eos = True
    specification.config.layer_norm_epsilon = spec.norm_epsilon
    return specification


def _quantise(part: Any) -> None:
    """Quantises all matrices of a layer or model specification in place with `int8_rows`.

    CTranslate2's own quantisation uses the full range of int8, which overflows on processors without VNNI.
    """
    from ctranslate2.specs.model_spec import LayerSpec

    if hasattr(part, "weight_scale"):
        part.weight, scales = int8_rows(part.weight)
        part.weight_scale = 1 / scales  # CTranslate2 divides by it
    for value in list(vars(part).values()):
        for layer in value if isinstance(value, list) else [value]:
            if isinstance(layer, LayerSpec):
                _quantise(layer)


class CTranslate2Engine:
    """Runs CTranslate2's search with an exported model. For the parity check, it also translates and scores text."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        sides: tuple[TokenVocabulary, TokenVocabulary],
        *,
        device: str = "cpu",
        threads: int | None = None,
        precision: str | None = None,
    ) -> None:
        """Loads the model in `folder` with the settings `config` and the source and target vocabularies `sides`.

        `device` is "cpu", "cuda" or, with an index, for example "cuda:1". `precision` is the precision of the
        computation; the default is the precision of the exported weights. Raises ValueError if CTranslate2 cannot load
        the model on the device.
        """
        self.source, self.target = sides
        self.source_tags: tuple[int, ...] = ()  # put before each source in `score` and `translate`
        self.symbols = config.model.symbols
        self._ids = {string: token for token, string in enumerate(self.target.vocabulary)}
        vocabulary = Vocabulary(source=self.source.size, target=self.target.size)
        positions = build_without_weights(config.model, vocabulary).max_positions
        self.max_line_tokens = min(positions or TABLE_POSITIONS, TABLE_POSITIONS) - 1
        kind, _, index = device.partition(":")
        try:
            self._engine = import_ctranslate2().Translator(
                str(folder),
                device=kind,
                device_index=int(index or 0),
                compute_type=precision or AS_EXPORTED,
                intra_threads=threads or 0,
            )
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"CTranslate2 cannot load {folder} on {device}: {error}") from None

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, including EOS."""
        return self._score(self._encode_sources(sources), self.target.encode(targets))

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Translates each line with greedy search.

        `bounds` contains the largest number of tokens for each translation. Longer translations are truncated.
        """
        results = self._engine.translate_batch(
            _strings(self._encode_sources(lines), self.source),
            beam_size=1,
            max_batch_size=PAIRS_AT_ONCE,
            max_decoding_length=max(bounds),
            min_decoding_length=1,
            max_input_length=0,
        )
        whole = (self._tokens(result.hypotheses[0]) for result in results)
        rows = [tokens[:bound] for tokens, bound in zip(whole, bounds, strict=True)]
        return list(map(EngineTranslation, map(one_line, self.target.decode(rows)), rows))

    def _encode_sources(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*self.source_tags, *tokens] for tokens in self.source.encode(lines)]

    def search(self, batch: SentenceBatch, method: SearchMethod, check: StopCheck) -> list[list[Hypothesis]]:
        """Translates a batch, and returns the hypotheses of each sentence, the best first.

        `check` can stop the search only before it begins. CTranslate2 applies a single length bound to all sentences of
        a batch. If a translation exceeds the bound of its sentence, this sentence is translated again on its own, so
        that its translation does not depend on the batch. A sentence is also translated again if empty hypotheses leave
        fewer than `n_best` others.
        """
        check_method(method)
        check()
        translated = self._translate(batch, method, max(batch.bounds))
        for index, bound in enumerate(batch.bounds):
            n_best = min(method.n_best, len(translated[index]))
            translated[index] = [hypothesis for hypothesis in translated[index] if hypothesis.tokens]
            is_too_long = any(len(hypothesis.tokens) > bound for hypothesis in translated[index])
            if is_too_long or len(translated[index]) < n_best:
                has_prefix = bool(batch.prefixes[index])
                (translated[index],) = self._translate(batch.select([index]), method, bound, not has_prefix)
        return [hypotheses[: method.n_best] for hypotheses in translated]

    def _translate(
        self, batch: SentenceBatch, method: SearchMethod, bound: int, bans_empty: bool = False
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each sentence, with the best by our length penalty first.

        If `bans_empty` is true, CTranslate2 does not generate empty hypotheses. The hypotheses are then scored again,
        because this ban makes CTranslate2 renormalise the probabilities of the other tokens.
        """
        sources, prefixes = _strings(batch.sources, self.source), _strings(batch.prefixes, self.target)
        width, alpha = method.width, method.decoding.length_penalty
        results = self._engine.translate_batch(
            sources,
            target_prefix=prefixes if any(prefixes) else None,
            beam_size=width,
            num_hypotheses=width,
            length_penalty=alpha,
            max_decoding_length=bound,
            min_decoding_length=int(bans_empty),
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        translated = []
        for source, result in zip(batch.sources, results, strict=True):
            # CTranslate2's score is the log-probability of the tokens after the prefix, divided by length^α.
            log_probabilities = [
                score * len(tokens) ** alpha for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            if any(prefixes) or bans_empty:
                # If a hypothesis has not ended, the log-probability of EOS is left out.
                rows = self._score([source] * len(result.hypotheses), list(map(self._tokens, result.hypotheses)))
                pairs = zip(rows, result.hypotheses, strict=True)
                log_probabilities = [float(row[: len(tokens)].sum()) for row, tokens in pairs]
            divisors = [length_penalty(len(tokens), alpha) if width > 1 else 1.0 for tokens in result.hypotheses]
            hypotheses = [
                Hypothesis(self._tokens(tokens), log_probability, log_probability / divisor)
                for tokens, log_probability, divisor in zip(result.hypotheses, log_probabilities, divisors, strict=True)
            ]
            translated.append(sorted(hypotheses, key=lambda hypothesis: -hypothesis.score))
        return translated

    def _score(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[NDArray[np.float64]]:
        results = self._engine.score_batch(
            _strings(sources, self.source),
            _strings(targets, self.target),
            max_batch_size=PAIRS_AT_ONCE,
            max_input_length=0,
        )
        return [np.array(result.log_probs, dtype=np.float64) for result in results]

    def _tokens(self, strings: Sequence[str]) -> list[int]:
        """Returns the ids of the tokens that CTranslate2 returns as strings, without EOS."""
        ended = bool(strings) and self._ids[strings[-1]] == self.symbols.end
        return [self._ids[string] for string in strings[: len(strings) - ended]]


def open_engine(folder: Path, model: Model, tags: Sequence[int]) -> CTranslate2Engine:
    """Opens an exported folder for the parity check. `tags` are put before each source."""
    engine = CTranslate2Engine(folder, model.config, (model.source, model.target))
    engine.source_tags = tuple(tags)
    return engine


def check_method(method: SearchMethod) -> None:
    """Raises ValueError if the search has an option that CTranslate2 lacks or applies differently."""
    if method.sampling is not None:
        raise ValueError(
            "--engine ctranslate2 does not sample by our seeds: leave out --temperature and the like, or --engine"
        )
    if method.decoding.margin is not None:
        raise ValueError(
            "--engine ctranslate2 has no threshold pruning: leave out --engine, or switch it off with "
            "`transduce info RUN --set decoding.margin=null`"
        )
    if method.decoding.no_repeat_ngram is not None:
        raise ValueError("--engine ctranslate2 scores a ban otherwise: leave out --no-repeat-ngram, or --engine")


def _strings(rows: Sequence[Sequence[int]], side: TokenVocabulary) -> list[list[str]]:
    return [[side.vocabulary[token] for token in row] for row in rows]
