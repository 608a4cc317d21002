"""Weights of a model whose vocabulary has grown."""

from collections.abc import Callable

import torch
from torch import Tensor

from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.model_directory.model import Model, weights_of
from transduce.settings import from_satellite
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.vocabulary_growth import spellings


def grown_weights(base: Model, source: TokenVocabulary, target: TokenVocabulary) -> dict[str, Tensor]:
    """Returns the weights of `base` with rows for the tokens that `source` and `target` have gained.

    A new row of an embedding or a readout is the mean of old rows:

    - of a new subword, those of the old tokens that spell it;
    - of a new symbol of trees, those of the old symbols of its kind;
    - of a new tag, all.

    Given the old tokens of a sentence, states are those of `base`. The logit of a new token is the mean of the logits
    of these old tokens, so that it is never above all of theirs. Probabilities of old tokens are those of `base` times
    what the new tokens leave; relative to each other they stay.
    """
    weights = weights_of(base.module)
    for names, before, now in zip(
        _tables(base.config.model, base.config.vocabulary), (base.source, base.target), (source, target), strict=True
    ):
        if now.size > before.size:
            origins = _origins(now, before.size)
            for name in names:
                weights[name] = torch.cat([weights[name], _means(weights[name], origins)])
    return weights


def _origins(vocabulary: TokenVocabulary, size: int) -> list[list[int]]:
    """Returns, for each token from `size` on, the old tokens whose rows begin its own."""
    if isinstance(vocabulary, SymbolVocabulary):
        same_kind: Callable[[SymbolVocabulary, int, int], list[int]]
        same_kind = from_satellite("transduce.parsing.tree_symbols:same_kind")
        return [same_kind(vocabulary, token, size) for token in range(size, vocabulary.size)]
    assert isinstance(vocabulary, Subwords), "only BPE and the symbols of trees grow"
    return spellings(vocabulary, size)


def _means(rows: Tensor, origins: list[list[int]]) -> Tensor:
    """Returns the mean of the rows of each list of tokens."""
    return torch.stack([rows[tokens].mean(0) for tokens in origins])


def _tables(spec: ModelSpec, vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """Returns the names of the parameters that have a row for each source token, and for each target token.

    A vocabulary that both sides share counts as that of the source.
    """
    larger = vocabulary.source + 1, vocabulary.target + 1
    if spec.embeddings == "shared":
        return _changed(spec, vocabulary, Vocabulary(source=larger[0], target=larger[1])), []
    return (
        _changed(spec, vocabulary, Vocabulary(source=larger[0], target=vocabulary.target)),
        _changed(spec, vocabulary, Vocabulary(source=vocabulary.source, target=larger[1])),
    )


def _changed(spec: ModelSpec, before: Vocabulary, after: Vocabulary) -> list[str]:
    """Returns the names of the parameters whose shapes differ between two vocabularies."""
    shapes = [
        {name: parameter.shape for name, parameter in build_without_weights(spec, vocabulary).named_parameters()}
        for vocabulary in (before, after)
    ]
    return [name for name, shape in shapes[0].items() if shapes[1][name] != shape]
