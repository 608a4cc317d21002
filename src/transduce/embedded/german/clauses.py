"""German clauses and sentences: two brackets of verbs, and the fields before, between and after them."""

from typing import NamedTuple

from transduce.embedded.german import morphology
from transduce.embedded.german.phrases import (
    Extended,
    Key,
    Word,
    Words,
    one,
    phrase,
    place,
    prepositional,
    quality,
    time,
)
from transduce.embedded.lexicon import Slot
from transduce.embedded.syntax import (
    Clause,
    Gap,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Sentence,
    Subordinate,
    Weather,
    agreement,
    is_asked,
)


def sentence(said: Sentence) -> Words:
    """The words of a whole sentence; commas may stand in pairs or before the end, and are tidied afterwards."""
    end = Word("?" if said.mood == "question" else ".", ((0, "end"),))
    if said.mood == "question":
        return [*main(said.clause, question_opening(said.clause)), end]
    if said.subordinate and said.before:
        return [*main(said.clause, subordinate(said.subordinate)), end]
    words = main(said.clause, fronted(said.clause))
    if said.joint and said.second:
        comma = Word(",", ((id(said.clause), "comma"),))
        joint = Word(said.joint[1], ((id(said), "joint"),))
        return [*words, comma, joint, *main(said.second, fronted(said.second)), end]
    if said.subordinate:
        words += subordinate(said.subordinate)
    return [*words, end]


def main(clause: Clause, opening: Words | None) -> Words:
    """Verb second: the opening, the finite verb, the middle field, the other verbs, what comes after.

    Without an opening the subject opens the clause; an empty one leaves the verb first, as in yes/no questions.
    """
    verbs = predicate(clause, agreement(clause.subject))
    middle, tail = middle_field(clause, with_subject=opening is not None)
    if opening is None:
        subject = phrase(clause.subject, "nominative")
        opening = subject.words + subject.tail
    return [*opening, verbs.finite, *middle, *verbs.separated(), *tail, *clausal_object(clause)]


def final(clause: Clause, person: int) -> Words:
    """Verb last, as under a conjunction or a relative pronoun."""
    verbs = predicate(clause, person)
    middle, tail = middle_field(clause, with_subject=True)
    return [*middle, *verbs.joined(), *tail, *clausal_object(clause)]


def subordinate(said: Subordinate) -> Words:
    """Comma, conjunction, the clause with its verb at the end, comma."""
    comma = Word(",", ((id(said), "comma"),))
    conjunction = Word(said.german, ((id(said), "conjunction"),))
    return [comma, conjunction, *final(said.clause, agreement(said.clause.subject)), comma]


def relative(clause: Clause, antecedent: NounPhrase) -> Words:
    """Comma, the pronoun in the case of the gap, the clause with its verb at the end, comma."""
    column = morphology.column(antecedent.noun.gender, antecedent.number)
    key = (id(clause), "gap")
    comma = Word(",")
    if isinstance(clause.subject, Gap):
        pronoun = Word(morphology.RELATIVE["nominative"][column], (key,))
        return [comma, pronoun, *final(clause, agreement(antecedent)), comma]
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    slot = clause.verb.slots[number]
    pronoun = Word(morphology.RELATIVE[slot.case][column], (key,))
    preposition = [Word(slot.german, (preposition_key(clause, number),))] if slot.german else []
    return [comma, *preposition, pronoun, *final(clause, agreement(clause.subject)), comma]


def infinitive(clause: Clause) -> Words:
    """An infinitive clause with "zu", between commas."""
    middle, tail = middle_field(clause, with_subject=False)
    verb = clause.verb
    to, lexical = (id(clause), "to"), ((id(clause), "finite"), (id(clause), "verb"))
    if verb.prefix:
        verbs = [Word(morphology.infinitive(verb, marked=True), (to, *lexical))]
    else:
        verbs = [Word("zu", (to,)), Word(verb.german, lexical)]
    return [Word(","), *middle, *verbs, *tail, Word(",")]


def clausal_object(clause: Clause) -> Words:
    """A clause in place of an object, behind the verbs."""
    match clause.complement:
        case Subordinate():
            return subordinate(clause.complement)
        case Clause():
            return infinitive(clause.complement)
    return []


# Openings ------------------------------------------------------------------------------------------------


def fronted(clause: Clause) -> Words | None:
    """The adverbial that opens a clause; none where the subject does."""
    adjuncts = clause.adjuncts
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place).words
        case "remark" if adjuncts.remark:
            return [Word(adjuncts.remark.german, ((id(adjuncts), "remark"),))]
    return None


def question_opening(clause: Clause) -> Words | None:
    """What is asked for, unless it is the subject; nothing in a yes/no question."""
    if is_asked(clause.subject):
        return None
    if ask := clause.adjuncts.ask:
        return [Word(ask.german, ((id(clause), "ask"),))]
    for number, filler in enumerate(clause.objects):
        if is_asked(filler):
            return object_phrase(clause, number).words
    return []


# Verbs ---------------------------------------------------------------------------------------------------


class Verbs(NamedTuple):
    """The verbs of a clause: the finite one, its prefix, the others in the order they have at the end."""

    finite: Word
    prefix: str
    others: Words

    def separated(self) -> Words:
        """The right bracket of a main clause."""
        return [Word(self.prefix, self.finite.keys)] if self.prefix else self.others

    def joined(self) -> Words:
        """All verbs at the end of a clause."""
        return [*self.others, self.finite._replace(text=self.prefix + self.finite.text)]


def predicate(clause: Clause, person: int) -> Verbs:
    """The verbs that a form needs; `person` as `agreement` gives it."""
    form, verb = clause.form, clause.verb
    keys = ((id(clause), "finite"),)
    if form.modal:
        text = form.modal.plural if person == 2 else form.modal.singular
        return Verbs(Word(text, keys), "", infinitives(clause))
    if form.tense == "future":
        return Verbs(Word(morphology.present("werden", "", person), keys), "", infinitives(clause))
    participle = Word(morphology.participle(verb), ((id(clause), "verb"),))
    if form.tense in ("perfect", "pluperfect"):
        auxiliary = "sein" if form.passive else verb.auxiliary
        inflect = morphology.past if form.tense == "pluperfect" else morphology.present
        been = [Word("worden", ((id(clause), "passive"),))] if form.passive else []
        return Verbs(Word(inflect(auxiliary, "", person), keys), "", [participle, *been])
    inflect, irregular = (
        (morphology.past, verb.german_past) if form.tense == "past" else (morphology.present, verb.present)
    )
    if form.passive:
        return Verbs(Word(inflect("werden", "", person), keys), "", [participle])
    return Verbs(Word(inflect(verb.german, irregular, person), (*keys, (id(clause), "verb"))), verb.prefix, [])


def infinitives(clause: Clause) -> Words:
    """What follows a modal: the infinitive, or the participle and "werden"."""
    lexical = ((id(clause), "verb"),)
    if clause.form.passive:
        be = Word("werden", ((id(clause), "passive"),))
        return [Word(morphology.participle(clause.verb), lexical), be]
    return [Word(morphology.infinitive(clause.verb, marked=False), lexical)]


# The middle field ----------------------------------------------------------------------------------------


def middle_field(clause: Clause, with_subject: bool) -> tuple[Words, Words]:
    """What stands between the two brackets, and the relative clause that moves behind the second.

    The order: subject, pronouns, time, how often, definite objects, manner, indefinite objects, "nicht", doer, place,
    objects with prepositions, what the verb needs besides.
    """
    parts = [
        *(subject_part(clause) if with_subject else reflexive(clause)),
        *light_objects(clause),
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


def subject_part(clause: Clause) -> list[Extended]:
    """The subject and "sich": before a noun, after a pronoun."""
    subject = clause.subject
    if isinstance(subject, Gap):
        return reflexive(clause)
    said = phrase(subject, "nominative")
    closed = [Extended(said.words + said.tail, [])]
    if isinstance(subject, Pronoun | Weather):
        return closed + reflexive(clause)
    return reflexive(clause) + closed


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
    return parts + late + negation


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
