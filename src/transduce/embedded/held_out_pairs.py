"""Decides which verb–object and adjective–noun pairs are held out, so that they occur only in the `novel` split."""

from collections.abc import Iterator
from typing import Literal, NamedTuple
from zlib import crc32

from transduce.embedded.lexicon import Adjective, Noun, Verb
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Clause,
    Coordination,
    EventTime,
    Gap,
    NounPhrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Sentence,
    SubordinateClause,
)

ONE_IN = 8  # one in eight pairs is held out


class Pairs(NamedTuple):
    """The pairs of words that a rule may use: every pair, only common pairs, or only held-out pairs."""

    kind: Literal["every", "common", "held out"]

    def allow(self, word: Verb | Adjective, noun: Noun) -> bool:
        """Returns True if the verb may take the noun as its object, or if the adjective may describe the noun."""
        return self.kind == "every" or is_held_out(word.english, noun.english) == (self.kind == "held out")


def is_held_out(word: str, noun: str) -> bool:
    """Returns True if a pair of English lemmas is held out of training.

    A hash of the pair decides, so the result does not depend on the tables and rules.
    """
    return crc32(f"{word} {noun}".encode()) % ONE_IN == 0


def pairs_in(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yields every verb–object and adjective–noun pair of a sentence, as English lemmas."""
    for node in (sentence.clause, sentence.subordinate, sentence.second):
        yield from _pairs_within(node)


def _pairs_within(node: object, antecedent: tuple[Noun, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yields the pairs within a node; `antecedent` holds the nouns to which the gap of a relative clause refers."""
    match node:
        case Clause():
            yield from _pairs_of_clause(node, antecedent)
            adjuncts = node.adjuncts
            for inner in (node.subject, node.agent, node.complement, adjuncts.place, adjuncts.time, *node.objects):
                yield from _pairs_within(inner)
        case NounPhrase():
            if node.adjective_phrase:
                yield node.adjective_phrase.adjective.english, node.noun.english
            yield from _pairs_within(node.modifier, (node.noun,))
        case Coordination():
            for phrase in node:
                yield from _pairs_within(phrase)
        case Place() | EventTime() | PrepositionalModifier():
            yield from _pairs_within(node.phrase)
        case Possessor(owner, _):
            yield from _pairs_within(owner)
        case SubordinateClause():
            yield from _pairs_within(node.clause)


def _pairs_of_clause(clause: Clause, antecedent: tuple[Noun, ...]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of the verb with its objects, and of a predicative adjective with the subject.

    In the passive, the subject is paired with the verb instead of the objects.
    """
    objects = [clause.subject] if clause.form.passive else list(clause.objects)
    for phrase in objects:
        yield from ((clause.verb.english, noun.english) for noun in _head_nouns(phrase, antecedent))
    if isinstance(clause.complement, AdjectivePhrase):
        adjective = clause.complement.adjective.english
        yield from ((adjective, noun.english) for noun in _head_nouns(clause.subject, antecedent))


def _head_nouns(phrase: object, antecedent: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """Returns the head nouns of a phrase; those of a gap are the head nouns of its antecedent."""
    match phrase:
        case NounPhrase():
            return (phrase.noun,)
        case Coordination(first, second):
            return _head_nouns(first, ()) + _head_nouns(second, ())
        case Gap():
            return antecedent
    return ()
