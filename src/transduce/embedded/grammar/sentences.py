"""Rules for sentences: simple, complex and compound statements, and questions."""

from functools import cache
from itertools import product

from transduce.embedded.grammar.adverbials import WHEN, WHERE, WHITHER, WHY
from transduce.embedded.grammar.choices import Choice, Combine, OneOf, Pick
from transduce.embedded.grammar.clauses import SUBJECT, Setting, any_clause, clause
from transduce.embedded.grammar.held_out_pairs import Pairs
from transduce.embedded.grammar.nominals import PEOPLE
from transduce.embedded.lexicon import CONJUNCTIONS, VERBS
from transduce.embedded.lexicon_entries import Conjunction, Verb
from transduce.embedded.syntax import Clause, InterrogativeAdverb, Sentence, SubordinateClause

DEPTH = 2  # how deep clauses nest in a sentence
COORDINATING = [("and", "und"), ("but", "aber"), ("or", "oder")]


@cache
def sentence(pairs: Pairs, depth: int = DEPTH) -> Choice[Sentence]:
    """Returns all sentences; `depth` is how deep clauses nest, at least 2."""
    return OneOf(
        (52.0, statement(pairs, depth)),
        (16.0, complex_statement(pairs, depth)),
        (8.0, compound_statement(pairs, depth)),
        (8.0, yes_no_question(pairs)),
        (12.0, wh_question(pairs)),
    )


def statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Returns statements of one main clause."""
    return Combine(lambda clause: Sentence("statement", clause), any_clause(pairs, Setting(main=True), depth))


def complex_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Returns main clauses with a subordinate clause before or after them, both in the same time frame."""
    options: list[tuple[float, Choice[Sentence]]] = []
    for time_frame, kind in product(("present", "past"), ("time", "reason")):
        conjunctions = Pick([word for word in CONJUNCTIONS if time_frame in word.tenses and kind == word.kind])
        below = any_clause(pairs, Setting(time_frame=time_frame, temporal=kind == "time"), depth - 2)
        for first, weight in ((True, 1.0), (False, 1.5)):

            def build(main: Clause, word: Conjunction, below: Clause, first: bool = first) -> Sentence:
                return Sentence("statement", main, SubordinateClause(word.english, word.german, below), first)

            main = any_clause(pairs, Setting(time_frame=time_frame, main=not first), depth - 1)
            options.append((weight, Combine(build, main, conjunctions, below)))
    return OneOf(*options)


def compound_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Returns two coordinated main clauses; the first ends in nothing that the second could continue."""

    def build(first: Clause, conjunction: tuple[str, str], second: Clause) -> Sentence:
        return Sentence("statement", first, None, False, conjunction, second)

    first = any_clause(pairs, Setting(main=True, light=True), 0)
    second = any_clause(pairs, Setting(main=True), depth - 2)
    return Combine(build, first, Pick(COORDINATING, [4.0, 3.0, 0.5]), second)


def yes_no_question(pairs: Pairs) -> Choice[Sentence]:
    """Returns questions that begin with the finite verb."""
    clauses = any_clause(pairs, Setting(main=True, question=True), 0)
    return Combine(lambda clause: Sentence("question", clause), clauses)


def wh_question(pairs: Pairs) -> Choice[Sentence]:
    """Returns questions for the subject, an object, a place, a time or a reason."""
    options: list[tuple[float, Choice[Clause]]] = []
    for verb in VERBS:
        if verb.complement in ("", "place", "direction") and verb.subjects:
            numbers = range(0 if "unmoved" in verb.traits else len(verb.slots))
            settings = [
                (2.0, Setting(main=True, question=True, gap=number, interrogative_gap=True)) for number in numbers
            ]
            if set(PEOPLE) & set(verb.subjects):
                settings.append((0.7, Setting(main=True, question=True, gap=SUBJECT, interrogative_gap=True)))
            settings += [
                (0.7, Setting(main=True, question=True, interrogative_adverb=adverb))
                for adverb in _interrogative_adverbs(verb)
            ]
            options += [(weight, clause(pairs, verb, setting, 0)) for weight, setting in settings]
    return Combine(lambda clause: Sentence("question", clause), OneOf(*options))


def _interrogative_adverbs(verb: Verb) -> list[InterrogativeAdverb]:
    """Returns the adverbs of questions with this verb."""
    if verb.complement == "direction":
        return [WHEN, WHY, WHITHER]
    if "lasting" in verb.traits:
        return [WHY]
    return [WHEN, WHY, WHERE] if verb.complement == "place" or "place" in verb.traits else [WHEN, WHY]
