"""The German middle field: the constituents between the two brackets of verbs, and their order."""

from transduce.embedded.german.phrases import (
    Constituent,
    Words,
    adjective_phrase,
    phrase,
    place,
    prepositional,
    single_word,
    time,
)
from transduce.embedded.lexicon_entries import Adverb, Slot
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Clause,
    Expletive,
    Gap,
    Key,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    is_interrogative,
)


def middle_field(clause: Clause, with_subject: bool) -> tuple[Words, Words]:
    """Returns the words between the two brackets, and the relative clause that moves behind the second one.

    The order: pronouns, subject, time, frequency, definite objects, manner, indefinite objects, "nicht", agent, place,
    prepositional objects, complement.
    """
    parts = [
        *opening_part(clause, with_subject),
        *_times(clause),
        *bare_objects(clause),
        *_agent_and_place(clause),
        *_prepositional_objects(clause),
        *_complement(clause),
    ]
    words: Words = []
    for part in parts[:-1]:
        words += part.words + part.tail
    return (words + parts[-1].words, parts[-1].tail) if parts else ([], [])


def opening_part(clause: Clause, with_subject: bool) -> list[Constituent]:
    """Returns the subject and the pronouns.

    A pronoun precedes a subject that is a noun, except "sie", which could be taken for the subject.
    """
    node = clause.subject
    pronouns = _reflexive(clause) + _pronoun_objects(clause)
    if not with_subject or isinstance(node, Gap):
        return pronouns
    words, tail = phrase(node, "nominative")
    subject = Constituent(words + tail, [])
    if isinstance(node, Pronoun | Expletive):
        return [subject, *pronouns]
    first = [part for part in pronouns if part.words[0].text.lower() != "sie"]
    return [*first, subject, *(part for part in pronouns if part not in first)]


def _reflexive(clause: Clause) -> list[Constituent]:
    """Returns the pronoun of a reflexive verb."""
    if not clause.verb.reflexive:
        return []
    subject = clause.subject
    text = subject.pronoun.reflexive if isinstance(subject, Pronoun) else "sich"
    return [single_word(text, clause, "verb")]


def _times(clause: Clause) -> list[Constituent]:
    """Returns the adverbials of time and frequency; "nie" and "schon" follow later, where "nicht" stands."""
    adjuncts = clause.adjuncts
    parts = [Constituent(time(adjuncts.time), [])] if adjuncts.time and adjuncts.front != "time" else []
    return parts if _has_late_frequency(clause) else parts + _adverb(clause, adjuncts.frequency, "frequency")


def _adverb(clause: Clause, adverb: Adverb | None, role: str) -> list[Constituent]:
    return [single_word(adverb.german, clause, role)] if adverb else []


def _has_late_frequency(clause: Clause) -> bool:
    """Whether the adverb of frequency follows definite objects."""
    return clause.adjuncts.frequency is not None and clause.adjuncts.frequency.kind == "late"


def _objects_in_place(clause: Clause) -> list[tuple[int, Slot, Phrase]]:
    """Returns number, slot and phrase of the objects that have not moved out of the middle field."""
    return [
        (number, clause.verb.slots[number], filler)
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_interrogative(filler)
    ]


def _pronoun_objects(clause: Clause) -> list[Constituent]:
    """Returns the objects that are pronouns, the accusative before the dative."""
    pronouns = [
        (slot.case, object_phrase(clause, number))
        for number, slot, filler in _objects_in_place(clause)
        if isinstance(filler, Pronoun) and not slot.german
    ]
    return [part for _, part in sorted(pronouns, key=lambda pair: pair[0])]


def bare_objects(clause: Clause) -> list[Constituent]:
    """Returns the objects without a preposition, and the adverbs between definite and indefinite objects.

    "nicht" comes last, unless it has become the "kein" of an object.
    """
    adjuncts = clause.adjuncts
    adverbs = _adverb(clause, adjuncts.frequency, "frequency") if _has_late_frequency(clause) else []
    adverbs += _adverb(clause, adjuncts.manner, "manner")
    negation = [single_word("nicht", clause, "not")] if clause.form.negated else []
    parts: list[Constituent] = []
    for number, slot, filler in _objects_in_place(clause):
        if slot.german or isinstance(filler, Pronoun):
            continue
        if _is_indefinite(filler) and negation:
            parts.append(object_phrase(clause, number, (id(clause), "not")))
            negation = []
        elif _is_indefinite(filler):
            parts += [*adverbs, object_phrase(clause, number)]
            adverbs = []
        else:
            parts.append(object_phrase(clause, number))
    return _with_tail_last([*parts, *adverbs, *negation])


def _with_tail_last(parts: list[Constituent]) -> list[Constituent]:
    """Moves the relative clause of the last object behind the adverbs that follow that object."""
    tails = [part.tail for part in parts if part.tail]
    if not tails:
        return parts
    *before, last = [part._replace(tail=[]) for part in parts]
    return [*before, last._replace(tail=tails[-1])]


def _is_indefinite(filler: Phrase) -> bool:
    """Whether "not" becomes "kein" before the phrase."""
    if not isinstance(filler, NounPhrase) or isinstance(filler.modifier, Possessor):
        return False
    return filler.determiner is None or filler.determiner.english == "a"


def _agent_and_place(clause: Clause) -> list[Constituent]:
    """Returns the agent of a passive and the place."""
    adjuncts = clause.adjuncts
    parts: list[Constituent] = []
    if clause.agent:
        parts.append(prepositional("von", "dative", clause.agent, (id(clause), "by")))
    if adjuncts.place and adjuncts.front != "place":
        parts.append(place(adjuncts.place))
    return parts


def _prepositional_objects(clause: Clause) -> list[Constituent]:
    return [object_phrase(clause, number) for number, slot, _ in _objects_in_place(clause) if slot.german]


def object_phrase(clause: Clause, number: int, negation: Key | None = None) -> Constituent:
    """Returns an object in the case of its slot, behind the preposition of its slot."""
    slot, filler = clause.verb.slots[number], clause.objects[number]
    if not slot.german:
        return phrase(filler, slot.case, negation)
    return prepositional(slot.german, slot.case, filler, preposition_key(clause, number))


def preposition_key(clause: Clause, number: int) -> Key:
    """Returns the key of a German preposition: that of the English preposition, or of the verb where there is none."""
    return (id(clause), f"preposition{number}" if clause.verb.slots[number].english else "verb")


def _complement(clause: Clause) -> list[Constituent]:
    """Returns the predicative adjective or the place that the verb requires."""
    match clause.complement:
        case AdjectivePhrase(adjective):
            return [Constituent(adjective_phrase(clause.complement, adjective.german), [])]
        case Place():
            return [place(clause.complement)]
    return []
