"""Growth of the vocabulary of another model on the corpora of a training that begins with it."""

import hashlib
import logging
from collections.abc import Mapping, Sequence

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.subword_sample import sample_pairs
from transduce.inspection.line_checks import Check
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords, target_side
from transduce.text.vocabulary_growth import check_can_grow, grow_subwords

_log = logging.getLogger("transduce")

Vocabularies = tuple[TokenVocabulary, TokenVocabulary]
"""Of source and target, which may share one."""


def check_vocabularies(sides: Vocabularies) -> None:
    """Raises ValueError where the vocabularies of a model cannot grow."""
    for side, name in zip(sides, ("source", "target"), strict=True):
        if not isinstance(side, SymbolVocabulary):
            check_can_grow(side, name)


def vocabulary_checksums(sides: Vocabularies) -> tuple[str, ...]:
    """Returns a checksum of the vocabulary of each side."""
    return tuple(hashlib.sha256(side.as_json().encode()).hexdigest() for side in sides)


def grow_vocabularies(
    sides: Vocabularies,
    count: int,
    data: DataSpec,
    dropped: Sequence[Mapping[int, Check]],
) -> Vocabularies:
    """Returns the vocabularies with `count` more subwords, at most, learned on a sample of the training corpora.

    A vocabulary that both sides share grows once, on both sides of the corpora, without the `dropped` pairs of each.
    The symbols of trees get all others of the corpora. Logs what a sentence gains.
    """
    check_vocabularies(sides)
    symbols: set[str] = set()
    is_parser = isinstance(sides[1], SymbolVocabulary)
    pairs, _ = sample_pairs(data.train, data.longest, symbols if is_parser else None, dropped)
    texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if share_subwords(sides):
        both = _grow(sides[0], [*texts[0], *texts[1]], count)
        grown = both, target_side(both)
    else:
        target_lines = [" ".join(symbols)] if symbols else texts[1]
        grown = _grow(sides[0], texts[0], count), _grow(sides[1], target_lines, count)
    names = "source", "target"
    gains = [_gain(*side) for side in zip(sides, grown, texts, strict=True)]
    if share_subwords(sides):
        _log_growth(
            "", sides[0], grown[0], ", ".join(f"{name} {gain}" for name, gain in zip(names, gains, strict=True))
        )
        return grown
    for name, before, after, gain in zip(names, sides, grown, gains, strict=True):
        if isinstance(after, SymbolVocabulary):
            _log.info(f"symbols of trees grown from {before.size:,} to {after.size:,}")
        else:
            _log_growth(f"{name} ", before, after, gain)
    return grown


def _log_growth(name: str, before: TokenVocabulary, after: TokenVocabulary, gain: str) -> None:
    """Says the subwords of a vocabulary before and after, and what the sentences of the new text gain."""
    sizes = f"from {before.size:,} to {after.size:,} subwords"
    _log.info(f"{name}vocabulary grown {sizes}: {gain} subwords a sentence of the new text")


def _grow(side: TokenVocabulary, lines: Sequence[str], count: int) -> TokenVocabulary:
    """Returns one side with more subwords, or with the other symbols of linearised trees."""
    if isinstance(side, SymbolVocabulary):
        return side.grown(lines)
    assert isinstance(side, Subwords), "check_vocabularies has refused it"
    return grow_subwords(side, lines, count)


def _gain(before: TokenVocabulary, after: TokenVocabulary, lines: Sequence[str]) -> str:
    """Returns the mean number of subwords of a sentence, before and after."""
    lengths = [sum(map(len, side.encode(lines))) / max(1, len(lines)) for side in (before, after)]
    return f"{lengths[0]:.2f} → {lengths[1]:.2f}"
