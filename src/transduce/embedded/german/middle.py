"""The German middle field: what stands between the two brackets of verbs, and in which order."""

from transduce.embedded.german.phrases import (
    Extended,
    Key,
    Words,
    one,
    phrase,
    place,
    prepositional,
    quality,
    time,
)
from transduce.embedded.lexicon_entries import Slot
from transduce.embedded.syntax import (
    Clause,
    Gap,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Weather,
    is_asked,
)


def middle_field(clause: Clause, with_subject: bool) -> tuple[Words, Words]:
    """What stands between the two brackets, and the relative clause that moves behind the second.

    The order: pronouns, subject, time, how often, definite objects, manner, indefinite objects, "nicht", doer, place,
    objects with prepositions, what the verb needs besides.
    """
    parts = [
        *opening_part(clause, with_subject),
        *_times(clause),
        *bare_objects(clause),
        *circumstances(clause),
        *prepositional_objects(clause),
        *_complement(clause),
    ]
    words: Words = []
    for part in parts[:-1]:
        words += part.words + part.tail
    return (words + parts[-1].words, parts[-1].tail) if parts else ([], [])


def opening_part(clause: Clause, with_subject: bool) -> list[Extended]:
    """The subject and the light pronouns, which precede it if it is a noun, unless they too could be the subject."""
    subject = clause.subject
    pronouns = reflexive(clause) + light_objects(clause)
    if not with_subject or isinstance(subject, Gap):
        return pronouns
    said = phrase(subject, "nominative")
    closed = Extended(said.words + said.tail, [])
    if isinstance(subject, Pronoun | Weather):
        return [closed, *pronouns]
    first = [part for part in pronouns if part.words[0].text.lower() != "sie"]
    return [*first, closed, *(part for part in pronouns if part not in first)]


def reflexive(clause: Clause) -> list[Extended]:
    """The pronoun of a reflexive verb."""
    if not clause.verb.reflexive:
        return []
    subject = clause.subject
    text = subject.person.reflexive if isinstance(subject, Pronoun) else "sich"
    return [one(text, (id(clause), "verb"))]


def _times(clause: Clause) -> list[Extended]:
    """When, and how often; "nie" and "schon" keep to the place of "nicht"."""
    adjuncts = clause.adjuncts
    parts = [Extended(time(adjuncts.time), [])] if adjuncts.time and adjuncts.front != "time" else []
    return parts if _late(clause) else parts + _frequency(clause)


def _frequency(clause: Clause) -> list[Extended]:
    word = clause.adjuncts.frequency
    return [one(word.german, (id(clause), "frequency"))] if word else []


def _manner(clause: Clause) -> list[Extended]:
    word = clause.adjuncts.manner
    return [one(word.german, (id(clause), "manner"))] if word else []


def _late(clause: Clause) -> bool:
    """Whether the adverb of frequency follows definite objects."""
    return clause.adjuncts.frequency is not None and clause.adjuncts.frequency.kind == "late"


def _in_middle(clause: Clause) -> list[tuple[int, Slot, Phrase]]:
    """The objects that have not moved out."""
    return [
        (number, clause.verb.slots[number], filler)
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_asked(filler)
    ]


def light_objects(clause: Clause) -> list[Extended]:
    """Pronouns, the accusative before the dative."""
    found = [
        (slot.case, object_phrase(clause, number))
        for number, slot, filler in _in_middle(clause)
        if isinstance(filler, Pronoun) and not slot.german
    ]
    return [part for _, part in sorted(found, key=lambda pair: pair[0])]


def bare_objects(clause: Clause) -> list[Extended]:
    """Objects without preposition, and what stands behind definite ones but before indefinite ones.

    "nicht" comes last, unless it has become the "kein" of an object.
    """
    late = (_frequency(clause) if _late(clause) else []) + _manner(clause)
    parts: list[Extended] = []
    negation = [one("nicht", (id(clause), "not"))] if clause.form.negated else []
    for number, slot, filler in _in_middle(clause):
        if slot.german or isinstance(filler, Pronoun):
            continue
        if indefinite(filler) and negation:
            parts.append(object_phrase(clause, number, (id(clause), "not")))
            negation = []
        elif indefinite(filler):
            parts += [*late, object_phrase(clause, number)]
            late = []
        else:
            parts.append(object_phrase(clause, number))
    return _with_tail_last([*parts, *late, *negation])


def _with_tail_last(parts: list[Extended]) -> list[Extended]:
    """The relative clause of the last object waits for the adverbs behind that object."""
    tails = [part.tail for part in parts if part.tail]
    if not tails:
        return parts
    *before, last = [part._replace(tail=[]) for part in parts]
    return [*before, last._replace(tail=tails[-1])]


def indefinite(filler: Phrase) -> bool:
    """Whether "not" becomes "kein" before this phrase."""
    if not isinstance(filler, NounPhrase) or isinstance(filler.modifier, Possessor):
        return False
    return filler.determiner is None or filler.determiner.english == "a"


def circumstances(clause: Clause) -> list[Extended]:
    """By whom, where."""
    adjuncts = clause.adjuncts
    parts: list[Extended] = []
    if clause.agent:
        parts.append(prepositional("von", "dative", clause.agent, (id(clause), "by")))
    if adjuncts.place and adjuncts.front != "place":
        parts.append(place(adjuncts.place))
    return parts


def prepositional_objects(clause: Clause) -> list[Extended]:
    """Objects that a preposition leads."""
    return [object_phrase(clause, number) for number, slot, _ in _in_middle(clause) if slot.german]


def object_phrase(clause: Clause, number: int, negated: Key | None = None) -> Extended:
    """An object in the case of its slot, behind the preposition of its slot."""
    slot, filler = clause.verb.slots[number], clause.objects[number]
    if not slot.german:
        return phrase(filler, slot.case, negated)
    return prepositional(slot.german, slot.case, filler, preposition_key(clause, number))


def preposition_key(clause: Clause, number: int) -> Key:
    """What a German preposition stands for: an English one, or else it belongs to the verb."""
    return (id(clause), f"preposition{number}" if clause.verb.slots[number].english else "verb")


def _complement(clause: Clause) -> list[Extended]:
    """What else the verb needs: an adjective, a place."""
    match clause.complement:
        case Quality():
            return [Extended(quality(clause.complement), [])]
        case Place():
            return [place(clause.complement)]
    return []
