"""Marked terms in training pairs: target words in the places of the source words that they translate.

The words are those of the pair itself. In half of the spans made-up words replace them on both sides, so that a model
learns to copy any text that is marked, whatever the glossary that it will be given.
"""

import random
from collections.abc import Mapping, Sequence

from pydantic import Field

from transduce.corpus.checks import CheckedPair
from transduce.settings import Spec
from transduce.text.directions import Direction
from transduce.text.glossary import capitalise
from transduce.text.subwords import Subwords
from transduce.text.term_marks import MarkedSpan, encode_marked, mark_terms
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.word_links import WordLinks

MAX_TERMS = 3
"""Marked in a pair."""

MADE_UP = 0.5
"""Share of the spans whose translation is replaced by made-up words."""

MAX_PAIRS = 30_000
"""Pairs of a direction, evenly spread, from which the links of words are learned."""


class MarkedTerms(Spec):
    """Marked terms in training pairs."""

    share: float = Field(gt=0.0, le=1.0, description="Of the pairs, those in which up to 3 terms are marked.")

    def build(self, samples: Mapping[Direction, Sequence[tuple[str, str]]]) -> "TermMarker":
        """Learns which words translate each other from pairs of each direction."""
        links = {
            direction: WordLinks.learn(pairs[:: -(-len(pairs) // MAX_PAIRS) or 1])
            for direction, pairs in samples.items()
        }
        return TermMarker(self.share, links)


class TermMarker:
    """Marks terms in a share of the pairs; which ones depends on the place of a pair alone."""

    def __init__(self, share: float, links: Mapping[Direction, WordLinks]) -> None:
        self.share, self.links = share, links
        self._words = {way: sorted({word for _, word in some.dice}) for way, some in links.items()}

    def encode(
        self,
        pairs: Mapping[int, CheckedPair],
        direction: Direction,
        sides: tuple[TokenVocabulary, TokenVocabulary],
        max_length: int,
    ) -> dict[int, tuple[list[int], list[int]]]:
        """Returns the ids of the pairs in which terms are marked, under the keys of `pairs`.

        A pair of which a side would have more than `max_length` tokens is left out.
        """
        source, target = sides
        assert isinstance(source, Subwords), "a recipe with marked terms has subwords"
        marked = {key: one for key, pair in pairs.items() if (one := self.mark(*pair, direction)) is not None}
        sources = encode_marked(source, [one for one, _ in marked.values()])
        targets = target.encode([one for _, one in marked.values()])
        encoded = dict(zip(marked, zip(sources, targets, strict=True), strict=True))
        return {key: ids for key, ids in encoded.items() if max(map(len, ids)) <= max_length}

    def mark(self, place: str, source: str, target: str, direction: Direction) -> tuple[str, str] | None:
        """Returns the source with marked terms, and the target; None for a pair that stays as it is, or has no term."""
        rng = random.Random(place)
        if rng.random() >= self.share:
            return None
        spans = self.links[direction].draw_spans(source, target, MAX_TERMS, rng)
        texts = [target[span.target] for span in spans]
        texts = [self._make_up(text, direction, rng) if rng.random() < MADE_UP else text for text in texts]
        marked = mark_terms(
            source, [MarkedSpan(*_ends(span.source), text) for span, text in zip(spans, texts, strict=True)]
        )
        for span, text in sorted(zip(spans, texts, strict=True), key=lambda one: -one[0].target.start):
            target = target[: span.target.start] + text + target[span.target.stop :]
        return (marked, target) if marked and spans else None

    def _make_up(self, text: str, direction: Direction, rng: random.Random) -> str:
        """Returns as many made-up words as `text` has, each the first half of one word and the second of another."""
        words = []
        for word in text.split():
            first, second = rng.choices(self._words[direction], k=2)
            made_up = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
            words.append(capitalise(made_up) if word[0].isupper() else made_up)
        return " ".join(words)


def _ends(span: slice) -> tuple[int, int]:
    return span.start, span.stop
