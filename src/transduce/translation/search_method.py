"""The search methods (beam search, greedy search and sampling) and the options that select them."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from transduce.search.beam import Decoding
from transduce.search.greedy_and_sampling import Sampling
from transduce.settings import did_you_mean, merged, validated


class SearchMethod(NamedTuple):
    """A search method with its settings; the method is beam search unless `greedy` or `sampling` is set."""

    decoding: Decoding
    n_best: int = 1
    greedy: bool = False
    sampling: Sampling | None = None
    seed: int = 1
    constrained: bool = True  # for parsers: allows only trees over the words of the sentence
    may_follow: Bool[Tensor, " vocabulary"] | None = None  # tokens allowed directly after a prefix; None: all

    @property
    def width(self) -> int:
        """The maximum number of hypotheses of a sentence that each step of the search extends."""
        return 1 if self.greedy or self.sampling is not None else self.decoding.beam


class SearchOptions(TypedDict, total=False):
    """Keyword arguments that select and configure a search; None stands for the default value.

    They have the same names as the options of `transduce translate`. `beam`, `length_penalty` and `margin` are only for
    beam search, whereas `no_repeat_ngram` is for every search; all four default to the settings of the model. If any of
    `temperature`, `top_k` and `top_p` is set, tokens are sampled from the model's distribution. Sampling with the same
    `seed` returns the same translations.
    """

    beam: int | None
    length_penalty: float | None
    margin: float | None  # inf turns pruning off
    no_repeat_ngram: int | None  # length in tokens of n-grams that must not be repeated; 0 allows repetition
    greedy: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None


class TextOptions(SearchOptions, total=False):
    """Keyword arguments for translating a single text."""

    prefix: str | None  # text with which the translation must begin
    batch_tokens: int  # source positions in a batch


class TextsOptions(SearchOptions, total=False):
    """Keyword arguments for translating several texts."""

    prefix: Iterable[str] | None
    batch_tokens: int


ELSEWHERE = {
    **dict.fromkeys(("num_beams", "beam_size"), "it is `beam` here"),
    **dict.fromkeys(("batch_size", "max_batch_size"), "`batch_tokens` counts source positions"),
    **dict.fromkeys(("sample", "do_sample", "sampling"), "`temperature`, `top_k` or `top_p` draws"),
    **dict.fromkeys(("device", "precision"), "it is an argument of `Translator.load`"),
    **dict.fromkeys(("to", "tag"), "`translator.into` chooses a language or a tag, where the model has several"),
    "alignments": "`explain` returns attention weights",
    "glossary": "`GlossaryTranslator` takes a glossary (docs/guides/terms.md)",
    "confidence": "`Calibration` has it (docs/guides/confidence.md)",
}
"""Maps option names from other programs, and options that belong to other functions, to hints."""

BEAM_OPTIONS = ("beam", "length_penalty", "margin")
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p")


def search_method(model_decoding: Decoding, n_best: int = 1, **options: Unpack[SearchOptions]) -> SearchMethod:
    """Returns the search method that `options` select; `model_decoding` contains the default settings of beam search.

    Raises TypeError if an option is unknown, and ValueError if a value is out of range or options exclude each other.
    """
    _check_names(options)
    changes = {name: value for name, value in options.items() if value is not None}
    drawn = {name: changes[name] for name in SAMPLING_OPTIONS if name in changes}
    greedy, sample = bool(changes.get("greedy")), bool(drawn)
    chosen = next(iter(drawn), "greedy")
    if greedy and sample:
        raise ValueError(f"`greedy` and `{chosen}` exclude each other: `{chosen}` draws tokens; leave one out")
    if unused := [name for name in BEAM_OPTIONS if name in changes and (greedy or sample)]:
        raise ValueError(f"`{unused[0]}` is an option of a beam search: leave it out, or `{chosen}`")
    if "seed" in changes and not sample:
        raise ValueError("`seed` is an option of sampling: add `temperature`, `top_k` or `top_p`, or leave it out")
    decoding_changes = {name: changes[name] for name in BEAM_OPTIONS if name in changes}
    if decoding_changes.get("margin") == math.inf:
        decoding_changes["margin"] = None
    if "no_repeat_ngram" in changes:
        decoding_changes["no_repeat_ngram"] = changes["no_repeat_ngram"] or None
    decoding = validated(Decoding, merged(model_decoding.as_dictionary(), decoding_changes), place="options")
    _check_n_best(n_best, 1 if greedy or sample else decoding.beam, greedy or sample)
    sampling = validated(Sampling, drawn, place="options") if sample else None
    return SearchMethod(decoding, n_best, greedy, sampling, _checked_seed(changes.get("seed", 1)))


def _check_names(options: SearchOptions) -> None:
    names = [*SearchOptions.__annotations__, "n_best", "prefix", "batch_tokens"]
    for name in options:
        if name not in names:
            hint = f"; {ELSEWHERE[name]};" if name in ELSEWHERE else did_you_mean(name, names) or ";"
            raise TypeError(f"there is no option `{name}`{hint} options: {', '.join(names)}")


def _check_n_best(n_best: int, width: int, is_single: bool) -> None:
    """Raises ValueError if a search with `width` hypotheses per sentence cannot return `n_best` translations."""
    if isinstance(n_best, bool) or not isinstance(n_best, int) or n_best < 1:
        raise ValueError(f"`n_best` is {n_best!r}: give a whole number from 1")
    if n_best > width and is_single:
        raise ValueError(f"`n_best` is {n_best}: greedy search and sampling give one translation; use a beam search")
    if n_best > width:
        raise ValueError(f"`n_best` is {n_best}, and a beam of {width} gives at most {width}: add `beam={n_best}`")


def _checked_seed(seed: object) -> int:
    """Returns `seed`, or raises ValueError if NumPy's random number generator would not accept it."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"`seed` is {seed!r}: give a whole number from 0 to 2^63 − 1")
    return seed


def uniform_draws(seed: int, numbers: Sequence[int], max_length: int) -> NDArray[np.float64]:
    """Returns uniform random numbers as an array [lines max_length].

    The random numbers of a line depend only on `seed` and on the index of the line in the whole text, which `numbers`
    contain.
    """
    rows = [np.random.Generator(np.random.Philox(key=[seed, number])).random(max_length) for number in numbers]
    return np.stack(rows)
