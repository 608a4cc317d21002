"""Which words may meet: the pairs of verb and object, adjective and noun, that only the `novel` split has."""

from collections.abc import Iterator
from typing import Literal, NamedTuple
from zlib import crc32

from transduce.embedded.lexicon import Adjective, Noun, Verb
from transduce.embedded.syntax import (
    Both,
    Clause,
    NamePhrase,
    NounPhrase,
    Place,
    Quality,
    Sentence,
    Subordinate,
)

HELD_OUT = 8  # one pair in so many is held out


class Pairs(NamedTuple):
    """A rule over pairs of words: every pair, the common ones, or only the held out ones."""

    kind: Literal["every", "common", "held_out"]

    def allow(self, word: Verb | Adjective, noun: Noun) -> bool:
        """Whether this verb may have this noun for its object, or this adjective describe it."""
        return self.kind == "every" or held_out(word.english, noun.english) == (self.kind == "held_out")


def held_out(word: str, noun: str) -> bool:
    """Whether this pair of English lemmas is kept from training; a hash, so that it depends on nothing else."""
    return crc32(f"{word} {noun}".encode()) % HELD_OUT == 0


def pairs_in(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Every (verb, object) and (adjective, noun) of a sentence, as English lemmas."""
    yield from _in_clause(sentence.clause, ())
    if sentence.subordinate:
        yield from _in_clause(sentence.subordinate.clause, ())
    if sentence.second:
        yield from _in_clause(sentence.second, ())


def _in_clause(clause: Clause, antecedent: tuple[Noun, ...]) -> Iterator[tuple[str, str]]:
    """Pairs of a clause; `antecedent` is what its gap stands for."""
    subjects = _nouns(clause.subject) or antecedent
    if clause.form.passive:
        yield from ((clause.verb.english, noun.english) for noun in subjects)
    for phrase in clause.objects:
        nouns = _nouns(phrase) if not _is_gap(phrase) else antecedent
        yield from ((clause.verb.english, noun.english) for noun in nouns)
    if isinstance(clause.complement, Quality):
        yield from ((clause.complement.adjective.english, noun.english) for noun in subjects)
    for phrase in (clause.subject, clause.agent, clause.complement, clause.adjuncts.place, *clause.objects):
        yield from _inside(phrase)
    if clause.adjuncts.time:
        yield from _inside(getattr(clause.adjuncts.time, "phrase", None))


def _inside(part: object) -> Iterator[tuple[str, str]]:
    """Pairs within a phrase."""
    match part:
        case NounPhrase():
            if part.quality:
                yield part.quality.adjective.english, part.noun.english
            yield from _inside_modifier(part)
        case Both():
            yield from _inside(part.first)
            yield from _inside(part.second)
        case Place():
            yield from _inside(part.phrase)
        case Subordinate():
            yield from _in_clause(part.clause, ())
        case Clause():
            yield from _in_clause(part, ())


def _inside_modifier(phrase: NounPhrase) -> Iterator[tuple[str, str]]:
    if isinstance(phrase.modifier, Clause):
        yield from _in_clause(phrase.modifier, (phrase.noun,))
    elif phrase.modifier:
        yield from _inside(phrase.modifier[0 if hasattr(phrase.modifier, "owner") else 1])


def _is_gap(phrase: object) -> bool:
    return type(phrase).__name__ == "Gap"


def _nouns(phrase: object) -> tuple[Noun, ...]:
    match phrase:
        case NounPhrase():
            return (phrase.noun,)
        case Both():
            return _nouns(phrase.first) + _nouns(phrase.second)
        case NamePhrase():
            return ()
    return ()
