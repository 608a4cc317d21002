"""Which words may meet: the pairs of verb and object, adjective and noun, that only the `novel` split has."""

from collections.abc import Iterator
from typing import Literal, NamedTuple
from zlib import crc32

from transduce.embedded.lexicon_entries import Adjective, Noun, Verb
from transduce.embedded.syntax import (
    Both,
    Clause,
    Description,
    During,
    Gap,
    NounPhrase,
    Place,
    Possessor,
    Quality,
    Sentence,
    Subordinate,
)

HELD_OUT = 8  # one pair in so many is held out


class Pairs(NamedTuple):
    """A rule over pairs of words: every pair, only the common ones, or only those held out."""

    kind: Literal["every", "common", "held out"]

    def allow(self, word: Verb | Adjective, noun: Noun) -> bool:
        """Whether this verb may have this noun for its object, or this adjective describe it."""
        return self.kind == "every" or held_out(word.english, noun.english) == (self.kind == "held out")


def held_out(word: str, noun: str) -> bool:
    """Whether this pair of English lemmas is kept from training: a hash, so that nothing else decides it."""
    return crc32(f"{word} {noun}".encode()) % HELD_OUT == 0


def pairs_in(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Every (verb, object) and (adjective, noun) of a sentence, as English lemmas."""
    yield from _within(sentence.clause)
    yield from _within(sentence.subordinate)
    yield from _within(sentence.second)


def _within(part: object, antecedent: tuple[Noun, ...] = ()) -> Iterator[tuple[str, str]]:
    """Pairs of a constituent; `antecedent` is what the gap of a relative clause stands for."""
    match part:
        case Clause():
            yield from _of_clause(part, antecedent)
            adjuncts = part.adjuncts
            for inner in (part.subject, part.agent, part.complement, adjuncts.place, adjuncts.time, *part.objects):
                yield from _within(inner)
        case NounPhrase():
            if part.quality:
                yield part.quality.adjective.english, part.noun.english
            yield from _within(part.modifier, (part.noun,))
        case Both(first, second):
            yield from _within(first)
            yield from _within(second)
        case Place() | During() | Description():
            yield from _within(part.phrase)
        case Possessor(owner, _):
            yield from _within(owner)
        case Subordinate():
            yield from _within(part.clause)


def _of_clause(clause: Clause, antecedent: tuple[Noun, ...]) -> Iterator[tuple[str, str]]:
    """Pairs that the predicate makes: with its objects, with its subject if passive or described."""
    objects = [clause.subject] if clause.form.passive else list(clause.objects)
    for phrase in objects:
        yield from ((clause.verb.english, noun.english) for noun in _nouns(phrase, antecedent))
    if isinstance(clause.complement, Quality):
        adjective = clause.complement.adjective.english
        yield from ((adjective, noun.english) for noun in _nouns(clause.subject, antecedent))


def _nouns(phrase: object, antecedent: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """The nouns at the heart of a phrase."""
    match phrase:
        case NounPhrase():
            return (phrase.noun,)
        case Both(first, second):
            return _nouns(first, ()) + _nouns(second, ())
        case Gap():
            return antecedent
    return ()
