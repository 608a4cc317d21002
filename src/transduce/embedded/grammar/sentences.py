"""Rules for sentences: statements, simple, complex and joined, and questions."""

from functools import cache
from itertools import product

from transduce.embedded.grammar.adverbials import WHEN, WHERE, WHITHER, WHY
from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick
from transduce.embedded.grammar.clauses import SUBJECT, Setting, clause, said
from transduce.embedded.grammar.nominals import PEOPLE
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.lexicon import CONJUNCTIONS, VERBS
from transduce.embedded.lexicon_entries import Conjunction, Verb
from transduce.embedded.syntax import Ask, Clause, Sentence, Subordinate

DEPTH = 2  # how deep clauses nest in a sentence
JOINTS = [("and", "und"), ("but", "aber"), ("or", "oder")]


@cache
def sentence(pairs: Pairs, depth: int = DEPTH) -> Choice[Sentence]:
    """Any sentence of the language, its clauses nested to a depth of at least 2."""
    return OneOf(
        (52.0, statement(pairs, depth)),
        (16.0, complex_statement(pairs, depth)),
        (8.0, joint_statement(pairs, depth)),
        (8.0, yes_no_question(pairs)),
        (12.0, wh_question(pairs)),
    )


def statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """One main clause."""
    return Each(lambda clause: Sentence("statement", clause), said(pairs, Setting(main=True), depth))


def complex_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """A main clause with a subordinate one, before it or after it, in the same time."""
    options: list[tuple[float, Choice[Sentence]]] = []
    for family, kind in product(("present", "past"), ("time", "reason")):
        words = Pick([word for word in CONJUNCTIONS if family in word.tenses and kind == word.kind])
        below = said(pairs, Setting(family=family, temporal=kind == "time"), depth - 2)
        for before, weight in ((True, 1.0), (False, 1.5)):

            def built(main: Clause, word: Conjunction, below: Clause, before: bool = before) -> Sentence:
                return Sentence("statement", main, Subordinate(word.english, word.german, below), before)

            main = said(pairs, Setting(family=family, main=not before), depth - 1)
            options.append((weight, Each(built, main, words, below)))
    return OneOf(*options)


def joint_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Two main clauses side by side; the first ends in nothing that the second could continue."""

    def built(first: Clause, words: tuple[str, str], second: Clause) -> Sentence:
        return Sentence("statement", first, None, False, words, second)

    first = said(pairs, Setting(main=True, light=True), 0)
    second = said(pairs, Setting(main=True), depth - 2)
    return Each(built, first, Pick(JOINTS, [4.0, 3.0, 0.5]), second)


def yes_no_question(pairs: Pairs) -> Choice[Sentence]:
    """The verb first."""
    clauses = said(pairs, Setting(main=True, question=True), 0)
    return Each(lambda clause: Sentence("question", clause), clauses)


def wh_question(pairs: Pairs) -> Choice[Sentence]:
    """A question for the subject, an object, a place, a time or a reason."""
    options: list[tuple[float, Choice[Clause]]] = []
    for verb in VERBS:
        if verb.complement in ("", "place", "direction") and verb.subjects:
            moved = range(0 if "unmoved" in verb.traits else len(verb.slots))
            gaps = [(2.0, Setting(main=True, question=True, gap=number, asked=True)) for number in moved]
            if set(PEOPLE) & set(verb.subjects):
                gaps.append((0.7, Setting(main=True, question=True, gap=SUBJECT, asked=True)))
            asks = [(0.7, Setting(main=True, question=True, ask=ask)) for ask in _asks(verb)]
            options += [(weight, clause(pairs, verb, setting, 0)) for weight, setting in gaps + asks]
    return Each(lambda clause: Sentence("question", clause), OneOf(*options))


def _asks(verb: Verb) -> list[Ask]:
    """The adverbs one may ask with."""
    if verb.complement == "direction":
        return [WHEN, WHY, WHITHER]
    if "lasting" in verb.traits:
        return [WHY]
    placed = verb.complement == "place" or "place" in verb.traits
    return [WHEN, WHY, WHERE] if placed else [WHEN, WHY]
