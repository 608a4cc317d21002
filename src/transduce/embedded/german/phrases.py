"""German noun phrases and adverbials."""

from typing import NamedTuple, TypeAlias

from transduce.embedded.german import morphology
from transduce.embedded.lexicon import DETERMINERS, NUMERALS, find_entry
from transduce.embedded.lexicon_entries import Case
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Clause,
    ClockTime,
    Coordination,
    EventTime,
    InterrogativePronoun,
    Key,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Pronoun,
    TimeExpression,
)


class Word(NamedTuple):
    """A word and its alignment keys."""

    text: str
    keys: tuple[Key, ...] = ()


Words: TypeAlias = list[Word]

THE = find_entry(DETERMINERS, "the")
A = find_entry(DETERMINERS, "a")
HOURS = {numeral.hour: numeral.german for numeral in NUMERALS if numeral.hour}
INTERROGATIVE = {"nominative": "wer", "accusative": "wen", "dative": "wem"}


class Constituent(NamedTuple):
    """The words of a phrase, and the relative clause at its end, which may move behind the verb."""

    words: Words
    tail: Words


def make_word(text: str, node: object, role: str) -> Word:
    """Returns a word that is aligned to the words with this role of the same node."""
    return Word(text, ((id(node), role),))


def single_word(text: str, node: object, role: str) -> Constituent:
    """Returns a phrase of one word."""
    return Constituent([make_word(text, node, role)], [])


# Noun phrases --------------------------------------------------------------------------------------------


def phrase(node: Phrase, case: Case, negation: Key | None = None) -> Constituent:
    """Returns a phrase in a case; `negation` is the key of a "not" that turns the article into "kein"."""
    match node:
        case NounPhrase():
            return noun_phrase(node, case, negation)
        case NamePhrase():
            return single_word(node.name.german, node, "noun")
        case Pronoun():
            return single_word(getattr(node.pronoun, case), node, "noun")
        case Coordination():
            first, second = phrase(node.first, case), phrase(node.second, case)
            return Constituent([*first.words, make_word("und", node, "and"), *second.words], second.tail)
        case InterrogativePronoun():
            return single_word(INTERROGATIVE[case] if node.human else "was", node, "noun")
    return single_word("es", node, "noun")


def noun_phrase(node: NounPhrase, case: Case, negation: Key | None) -> Constituent:
    """Returns article, numeral, adjective, noun and modifier; a relative clause is the tail."""
    column = morphology.column(node.noun.gender, node.number)
    words, declension = article(node, case, column, negation)
    if node.numeral:
        words.append(make_word(node.numeral.german, node, "numeral"))
    if node.adjective_phrase:
        text = morphology.adjective(node.adjective_phrase.adjective, declension, case, column)
        words += adjective_phrase(node.adjective_phrase, text)
    words.append(make_word(morphology.noun(node.noun, case, node.number), node, "noun"))
    following = modifier(node)
    return Constituent(words + following.words, following.tail)


def article(node: NounPhrase, case: Case, column: int, negation: Key | None) -> tuple[Words, str]:
    """Returns the article, or a name in its place, and the declension that it requires of an adjective."""
    match node.modifier:
        case Possessor(NamePhrase(name) as owner, _):
            return [make_word(morphology.possessive_name(name.german), owner, "noun")], ""
        case Possessor(owner, True):
            # "the teacher's car" is "das Auto des Lehrers": German adds an article that English does not have.
            return [Word(morphology.determiner(THE, case, column), ())], THE.declension
    key = (id(node), "determiner")
    if negation:
        return [Word("k" + morphology.determiner(A, case, column), (negation, key))], A.declension
    if not node.determiner:
        return [], ""
    return [Word(morphology.determiner(node.determiner, case, column), (key,))], node.determiner.declension


def modifier(node: NounPhrase) -> Constituent:
    """Returns what follows the noun."""
    match node.modifier:
        case Possessor(owner, _) if isinstance(owner, NounPhrase):
            return phrase(owner, "genitive")
        case PrepositionalModifier(attribute, filler):
            return prepositional(attribute.german, attribute.case, filler, (id(node.modifier), "preposition"))
        case Clause():
            # Imported here because noun phrases and clauses contain each other.
            from transduce.embedded.german.clauses import relative

            return Constituent([], relative(node.modifier, node))
    return Constituent([], [])


def adjective_phrase(node: AdjectivePhrase, text: str) -> Words:
    """Returns an adjective, inflected to `text`, with or without "sehr"."""
    very = [make_word("sehr", node, "very")] if node.very else []
    return [*very, make_word(text, node, "adjective")]


# Adverbials ----------------------------------------------------------------------------------------------


def place(node: Place) -> Constituent:
    """Returns a phrase of place or direction."""
    return prepositional(node.german, node.case, node.phrase, (id(node), "preposition"))


def time(node: TimeExpression | ClockTime | EventTime) -> Words:
    """Returns an adverbial of time."""
    match node:
        case TimeExpression():
            texts = node.time.german.split()
            numbers = [min(len(texts) - position, node.time.aligned) for position in range(len(texts))]
            return [make_word(text, node, str(number)) for text, number in zip(texts, numbers, strict=True)]
        case EventTime():
            return prepositional(node.german, node.case, node.phrase, (id(node), "preposition")).words
    return clock(node)


def clock(node: ClockTime) -> Words:
    """Returns "um fünf Uhr", "um halb acht", "um Viertel vor drei"; "halb" counts towards the next hour."""
    at, hour = make_word("um", node, "at"), node.hour
    match node.relation:
        case "full":
            name = "ein" if hour.hour == 1 else hour.german
            return [at, make_word(name, node, "hour"), make_word("Uhr", node, "relation")]
        case "half":
            half = Word("halb", ((id(node), "fraction"), (id(node), "relation")))
            return [at, half, make_word(HOURS[hour.hour % 12 + 1], node, "hour")]
        case _:
            relation = make_word("vor" if node.relation == "to" else "nach", node, "relation")
            return [at, make_word("Viertel", node, "fraction"), relation, make_word(hour.german, node, "hour")]


def prepositional(preposition: str, case: Case, filler: Phrase, key: Key) -> Constituent:
    """Returns a phrase behind its preposition, contracted with its article unless a relative clause stresses that."""
    inner = phrase(filler, case)
    if not preposition:
        return inner
    first, *rest = inner.words
    contraction = morphology.CONTRACTIONS.get((preposition, first.text))
    if contraction and not inner.tail:
        return Constituent([Word(contraction, (key, *first.keys)), *rest], inner.tail)
    return Constituent([Word(preposition, (key,)), *inner.words], inner.tail)
