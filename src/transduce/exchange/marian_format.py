"""Exports models to Marian, a C++ engine, which supports the architecture of the preset `released-2017`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.exchange.engine_limits import check_products, length_power, refusal
from transduce.exchange.foreign_formats import foreign_format, named_layers
from transduce.exchange.parity import EngineTranslation, import_engine
from transduce.exchange.subword_files import write_subwords
from transduce.exchange.transformer_weights import attentions_of, transformer_weights
from transduce.model.embedding import Sinusoidal
from transduce.model.feed_forward import FeedForward
from transduce.model.readout import Tied
from transduce.model_directory.model import Model
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords
from transduce.translation.results import one_line

MODEL = "model.npz"
NORM_EPSILON = 1e-6  # fixed in Marian
SETTINGS = "special:model.yml"
WORKSPACE = 256  # MiB


def check(model: Model) -> None:
    """Raises ValueError, naming the option, if Marian cannot represent the model."""
    spec = check_products(model, "Marian")
    mixer, cross = attentions_of(spec)
    required = [
        ("model.norm", spec.norm, "post"),
        ("model.norm_epsilon", spec.norm_epsilon, NORM_EPSILON),
        ("model.positions", spec.positions, Sinusoidal(layout="halves")),
        ("model.first_input", spec.first_input, "zeros"),
        ("model.cross.heads", cross.heads, mixer.heads),
    ]
    if isinstance(spec.feed_forward, FeedForward) and spec.feed_forward.activation == "gelu":
        raise refusal("Marian", "`model.feed_forward.activation` is gelu, which is another function there", "use swish")
    for name, attention in (("mixer", mixer), ("cross", cross)):
        required += [
            (f"model.{name}.d_k", attention.d_k, spec.d_model // attention.heads),
            (f"model.{name}.d_v", attention.d_v, spec.d_model // attention.heads),
        ]
    for name, value, needed in required:
        if value != needed:
            fault = f"`{name}` is {value!r} and must be {needed!r}"
            raise refusal("Marian", fault, "the preset `released-2017` has the architecture of Marian")


def write(model: Model, folder: Path, precision: str) -> None:
    """Writes `model.npz`, the vocabularies, `decoder.yml` for `marian-decoder`, and our subwords to `folder`."""
    weights = transformer_weights(model)
    source, target = (weights.tensors[f"{side}_embedding.weight"] for side in ("source", "target"))
    spec, form = weights.spec, foreign_format("marian")
    assert isinstance(spec.feed_forward, FeedForward)
    is_shared, is_tied = spec.embeddings == "shared", isinstance(spec.readout, Tied)
    arrays: dict[str, Any] = {"Wemb": source} if is_shared else {"encoder_Wemb": source, "decoder_Wemb": target}
    if not is_tied:  # Marian multiplies rows by matrices
        arrays["decoder_ff_logit_out_W"] = np.ascontiguousarray(weights.tensors["readout.weight"].T)
    arrays["decoder_ff_logit_out_b"] = weights.bias_or_zeros("readout")[None]
    arrays |= named_layers(weights, form.layers)
    settings = form.settings_of(spec) | {
        "dim-vocabs": [len(source), len(target)],
        "transformer-ffn-activation": spec.feed_forward.activation,
        "tied-embeddings-all": is_shared and is_tied,
        "tied-embeddings-src": is_shared,
        "tied-embeddings": is_tied,
    }
    arrays[SETTINGS] = np.frombuffer(json.dumps(settings).encode() + b"\0", np.int8)  # JSON is YAML
    np.savez(folder / MODEL, **arrays)
    sides, files = (model.source, model.target), vocabulary_files(model)
    write_subwords(sides, folder)
    for file, side in zip(files, sides, strict=True):
        (folder / file).write_text(_vocabulary(marian_tokens(model, side)), "utf-8", newline="\n")
    decoder = {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": list(files),
        "beam-size": model.config.decoding.beam,
        "normalize": length_power(model.config.decoding.length_penalty),
        "max-length-factor": 3,
    }
    (folder / "decoder.yml").write_text(json.dumps(decoder, indent=2) + "\n", "utf-8", newline="\n")


def vocabulary_files(model: Model) -> tuple[str, str]:
    """Returns the file names of the source and target vocabularies: `vocab.yml` for both if they share subwords."""
    return (
        ("vocab.yml",) * 2 if share_subwords((model.source, model.target)) else ("source.vocab.yml", "target.vocab.yml")
    )


def marian_tokens(model: Model, side: TokenVocabulary) -> list[str]:
    """Returns the token strings of a side in the order of their ids, with Marian's names for the symbols.

    The padding symbol is called `<unk>`, unless another token has that name.
    """
    symbols, strings = model.config.model.symbols, list(side.vocabulary)
    strings[symbols.pad] = "<pad>" if "<unk>" in strings else "<unk>"
    strings[symbols.begin], strings[symbols.end] = "<s>", "</s>"
    return strings


def _vocabulary(strings: list[str]) -> str:
    """Returns the content of a vocabulary file, which has a token and its id on each line.

    Characters above U+FFFF are escaped as in YAML, because YAML readers reject the surrogate pairs of JSON.
    """
    quoted = (
        "".join(f"\\U{ord(letter):08x}" if letter > "\uffff" else json.dumps(letter)[1:-1] for letter in string)
        for string in strings
    )
    return "".join(f'"{string}": {token}\n' for token, string in enumerate(quoted))


class MarianEngine:
    """Runs Marian's decoder on a single thread.

    The decoder reads tokens that are separated by spaces, and rounds log-probabilities to six digits.
    """

    def __init__(self, folder: Path, model: Model, source_tags: Sequence[int] = ()) -> None:
        """Prepares the settings of the decoder. `source_tags` are put before each source.

        Raises ValueError if `pymarian` is not installed.
        """
        pymarian = import_engine("pymarian", "Marian", "marian")
        self._source, self._target = model.source, model.target
        self._source_tags = source_tags
        self._ids = {string: token for token, string in enumerate(marian_tokens(model, model.target))}
        self._settings: dict[str, Any] = {
            "models": str(folder / MODEL),
            "vocabs": [str(folder / name) for name in vocabulary_files(model)],
            "beam_size": 1,
            "normalize": 0,
            "word_scores": True,
            "n_best": True,
            "max_length": 4096,
            "mini_batch": 16,
            "maxi_batch": 4,
            "cpu_threads": 1,
            "workspace": WORKSPACE,
            "quiet": True,
        }
        self._translator = pymarian.Translator

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, without EOS, because Marian does not force it."""
        source_tokens, target_tokens = self._encode_sources(sources), self._target.encode(targets)
        lengths = zip(map(len, source_tokens), map(len, target_tokens), strict=True)
        forced = self._translator(
            **self._settings,
            max_length_factor=1 + max(-(-target // max(source, 1)) for source, target in lengths),
            force_decode=True,
            tsv=True,
            tsv_fields=2,
        )
        pairs = zip(_lines(self._source, source_tokens), _lines(self._target, target_tokens), strict=True)
        results = forced.translate([f"{source}\t{target}" for source, target in pairs])
        rows = [result.split(" ||| ")[2].removeprefix("WordScores= ").split() for result in results]
        return [np.array(row[: len(target)], np.float64) for row, target in zip(rows, target_tokens, strict=True)]

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Translates each line with greedy search.

        `bounds` contains the largest number of tokens for each translation. Longer translations are truncated.
        """
        tokens = self._encode_sources(lines)
        # Marian limits the length of a translation to a multiple of the length of its source.
        factors = [-(-bound // len(row)) for row, bound in zip(tokens, bounds, strict=True)]
        rows: list[list[int]] = [[] for _ in lines]
        for factor in sorted(set(factors)):
            indices = [index for index, other in enumerate(factors) if other == factor]
            translator = self._translator(**self._settings, max_length_factor=factor)
            results = translator.translate(_lines(self._source, [tokens[index] for index in indices]))
            for index, result in zip(indices, results, strict=True):
                rows[index] = [self._ids[string] for string in result.split(" ||| ")[1].split()][: bounds[index]]
        return list(map(EngineTranslation, map(one_line, self._target.decode(rows)), rows))

    def _encode_sources(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*self._source_tags, *tokens] for tokens in self._source.encode(lines)]


def _lines(side: TokenVocabulary, rows: Sequence[Sequence[int]]) -> list[str]:
    """Converts each row of token ids to a line of subwords separated by spaces."""
    return [" ".join(side.vocabulary[token] for token in row) for row in rows]
