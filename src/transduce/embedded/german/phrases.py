"""German noun phrases and adverbials."""

from typing import NamedTuple, TypeAlias

from transduce.embedded.german import morphology
from transduce.embedded.lexicon import DETERMINERS, NUMERALS, named
from transduce.embedded.lexicon_entries import Case
from transduce.embedded.syntax import (
    Both,
    Clause,
    Clock,
    Description,
    During,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Query,
    SetTime,
)

Key: TypeAlias = tuple[int, str]  # a node of the abstract sentence and which of its words


class Word(NamedTuple):
    """A word and what it stands for."""

    text: str
    keys: tuple[Key, ...] = ()


Words: TypeAlias = list[Word]

THE = named(DETERMINERS, "the")
A = named(DETERMINERS, "a")
HOURS = {numeral.hour: numeral.german for numeral in NUMERALS if numeral.hour}


class Extended(NamedTuple):
    """A phrase and the relative clause at its end, which may move behind the verb."""

    words: Words
    tail: Words


def one(text: str, key: Key) -> Extended:
    """A phrase of one word."""
    return Extended([Word(text, (key,))], [])


# Noun phrases --------------------------------------------------------------------------------------------


def phrase(said: Phrase, case: Case, negated: Key | None = None) -> Extended:
    """Any phrase in a case; `negated` is the "not" that turns its article into "kein"."""
    match said:
        case NounPhrase():
            return noun_phrase(said, case, negated)
        case NamePhrase():
            return one(said.name.german, (id(said), "noun"))
        case Pronoun():
            return one(getattr(said.person, case), (id(said), "noun"))
        case Both():
            first, second = phrase(said.first, case), phrase(said.second, case)
            return Extended([*first.words, Word("und", ((id(said), "and"),)), *second.words], second.tail)
        case Query():
            forms = {"nominative": "wer", "accusative": "wen", "dative": "wem"}
            return one(forms[case] if said.human else "was", (id(said), "noun"))
    return one("es", (id(said), "noun"))


def noun_phrase(said: NounPhrase, case: Case, negated: Key | None) -> Extended:
    """Article, number, adjective, noun, what follows the noun; the relative clause apart."""
    column = morphology.column(said.noun.gender, said.number)
    words, declension = article(said, case, negated)
    if said.numeral:
        words.append(Word(said.numeral.german, ((id(said), "numeral"),)))
    if said.quality:
        words += attributive(said.quality, declension, case, column)
    words.append(Word(morphology.noun(said.noun, case, said.number), ((id(said), "noun"),)))
    following = modifier(said)
    return Extended(words + following.words, following.tail)


def article(said: NounPhrase, case: Case, negated: Key | None) -> tuple[Words, str]:
    """The article, or a name in its place, and the declension that it asks of an adjective."""
    column = morphology.column(said.noun.gender, said.number)
    key = (id(said), "determiner")
    match said.modifier:
        case Possessor(NamePhrase(name) as owner, _):
            return [Word(morphology.possessive_name(name.german), ((id(owner), "noun"),))], ""
        case Possessor(owner, True):
            # English says "the teacher's" before the noun, German "des Lehrers" behind it, and its own article.
            return [Word(morphology.determiner(THE, case, column), ())], THE.declension
    if negated:
        return [Word("k" + morphology.determiner(A, case, column), (negated, key))], A.declension
    if not said.determiner:
        return [], ""
    return [Word(morphology.determiner(said.determiner, case, column), (key,))], said.determiner.declension


def modifier(said: NounPhrase) -> Extended:
    """What follows the noun."""
    match said.modifier:
        case Possessor(owner, _) if isinstance(owner, NounPhrase):
            return phrase(owner, "genitive")
        case Description(attribute, filler):
            return prepositional(attribute.german, attribute.case, filler, (id(said.modifier), "preposition"))
        case Clause():
            # Noun phrases and clauses contain each other, so one of the two modules must wait for the other.
            from transduce.embedded.german.clauses import relative

            return Extended([], relative(said.modifier, said))
    return Extended([], [])


def attributive(said: Quality, declension: str, case: Case, column: int) -> Words:
    """An adjective before its noun."""
    text = morphology.adjective(said.adjective, declension, case, column)
    very = [Word("sehr", ((id(said), "very"),))] if said.very else []
    return [*very, Word(text, ((id(said), "adjective"),))]


def quality(said: Quality) -> Words:
    """An adjective that is said of the subject."""
    very = [Word("sehr", ((id(said), "very"),))] if said.very else []
    return [*very, Word(said.adjective.german, ((id(said), "adjective"),))]


# Adverbials ----------------------------------------------------------------------------------------------


def place(where: Place) -> Extended:
    """A phrase of place or direction."""
    return prepositional(where.german, where.case, where.phrase, (id(where), "preposition"))


def time(when: SetTime | Clock | During) -> Words:
    """A phrase of time."""
    match when:
        case SetTime():
            texts = when.time.german.split()
            places = [min(len(texts) - number, when.time.shared) for number in range(len(texts))]
            return [Word(text, ((id(when), str(place)),)) for text, place in zip(texts, places, strict=True)]
        case During():
            return prepositional(when.german, when.case, when.phrase, (id(when), "preposition")).words
    return clock(when)


def clock(when: Clock) -> Words:
    """ "um halb acht": German counts towards the coming hour."""
    hour, relation, fraction = ((id(when), key) for key in ("hour", "relation", "fraction"))
    um = Word("um", ((id(when), "at"),))
    match when.relation:
        case "full":
            name = "ein" if when.hour.hour == 1 else when.hour.german
            return [um, Word(name, (hour,)), Word("Uhr", (relation,))]
        case "half":
            return [um, Word("halb", (fraction, relation)), Word(coming_hour(when), (hour,))]
        case _:
            word = "vor" if when.relation == "to" else "nach"
            return [um, Word("Viertel", (fraction,)), Word(word, (relation,)), Word(when.hour.german, (hour,))]


def coming_hour(when: Clock) -> str:
    """The hour after the one that English names."""
    return HOURS[when.hour.hour % 12 + 1]


def prepositional(preposition: str, case: Case, filler: Phrase, key: Key) -> Extended:
    """A phrase behind its preposition, run together with its article, unless a relative clause stresses that."""
    inner = phrase(filler, case)
    if not preposition:
        return inner
    first, *rest = inner.words
    group = morphology.CONTRACTIONS.get((preposition, first.text))
    if group and not inner.tail:
        return Extended([Word(group, (key, *first.keys)), *rest], inner.tail)
    return Extended([Word(preposition, (key,)), *inner.words], inner.tail)
