"""German clauses and sentences: two brackets of verbs, and what stands before and after them."""

from typing import NamedTuple

from transduce.embedded.german import morphology
from transduce.embedded.german.middle import middle_field, object_phrase, preposition_key
from transduce.embedded.german.phrases import Word, Words, phrase, place, time
from transduce.embedded.syntax import (
    Clause,
    Gap,
    NounPhrase,
    Sentence,
    Subordinate,
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
