"""German clauses and sentences: the two brackets of verbs, and the fields before, between and behind them."""

from typing import NamedTuple

from transduce.embedded.german import morphology
from transduce.embedded.german.middle import middle_field, object_phrase, preposition_key
from transduce.embedded.german.phrases import Word, Words, make_word, phrase, place, time
from transduce.embedded.syntax import (
    END,
    Agreement,
    Clause,
    Gap,
    NounPhrase,
    Sentence,
    SubordinateClause,
    agreement_of,
    is_interrogative,
)


def sentence(node: Sentence) -> Words:
    """Returns the words of a sentence; the caller merges commas that are doubled or precede the end."""
    end = Word("?" if node.mood == "question" else ".", (END,))
    if node.mood == "question":
        return [*main(node.clause, question_opening(node.clause)), end]
    if node.subordinate and node.subordinate_first:
        return [*main(node.clause, subordinate(node.subordinate)), end]
    words = main(node.clause, fronted(node.clause))
    if node.conjunction and node.second:
        comma = make_word(",", node.clause, "comma")
        conjunction = make_word(node.conjunction[1], node, "conjunction")
        return [*words, comma, conjunction, *main(node.second, fronted(node.second)), end]
    if node.subordinate:
        words += subordinate(node.subordinate)
    return [*words, end]


def main(clause: Clause, opening: Words | None) -> Words:
    """Returns a clause with the verb second: opening, finite verb, middle field, other verbs, postponed clauses.

    Without an opening (None) the subject opens the clause; an empty opening leaves the verb first, as in yes/no
    questions.
    """
    verbs = predicate(clause, agreement_of(clause.subject))
    middle, tail = middle_field(clause, with_subject=opening is not None)
    if opening is None:
        subject = phrase(clause.subject, "nominative")
        opening = subject.words + subject.tail
    return [*opening, verbs.finite, *middle, *verbs.separated(), *tail, *clausal_object(clause)]


def verb_last(clause: Clause, agreement: Agreement) -> Words:
    """Returns a clause with the verb at its end, as behind a conjunction or a relative pronoun."""
    verbs = predicate(clause, agreement)
    middle, tail = middle_field(clause, with_subject=True)
    return [*middle, *verbs.joined(), *tail, *clausal_object(clause)]


def subordinate(node: SubordinateClause) -> Words:
    """Returns comma, conjunction, the clause with its verb at the end, comma."""
    comma = make_word(",", node, "comma")
    conjunction = make_word(node.german, node, "conjunction")
    return [comma, conjunction, *verb_last(node.clause, agreement_of(node.clause.subject)), comma]


def relative(clause: Clause, antecedent: NounPhrase) -> Words:
    """Returns comma, the pronoun in the case of the gap, the clause with its verb at the end, comma."""
    column = morphology.column(antecedent.noun.gender, antecedent.number)
    comma = Word(",")
    if isinstance(clause.subject, Gap):
        pronoun = make_word(morphology.RELATIVE["nominative"][column], clause, "gap")
        return [comma, pronoun, *verb_last(clause, agreement_of(antecedent)), comma]
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    slot = clause.verb.slots[number]
    pronoun = make_word(morphology.RELATIVE[slot.case][column], clause, "gap")
    preposition = [Word(slot.german, (preposition_key(clause, number),))] if slot.german else []
    return [comma, *preposition, pronoun, *verb_last(clause, agreement_of(clause.subject)), comma]


def infinitive(clause: Clause) -> Words:
    """Returns an infinitive clause with "zu", between commas."""
    middle, tail = middle_field(clause, with_subject=False)
    verb = clause.verb
    to, lexical = (id(clause), "to"), ((id(clause), "finite"), (id(clause), "verb"))
    if verb.prefix:
        verbs = [Word(morphology.infinitive(verb, marked=True), (to, *lexical))]
    else:
        verbs = [Word("zu", (to,)), Word(verb.german, lexical)]
    return [Word(","), *middle, *verbs, *tail, Word(",")]


def clausal_object(clause: Clause) -> Words:
    """Returns a clause in place of an object, behind the verbs."""
    match clause.complement:
        case SubordinateClause():
            return subordinate(clause.complement)
        case Clause():
            return infinitive(clause.complement)
    return []


# Openings ------------------------------------------------------------------------------------------------


def fronted(clause: Clause) -> Words | None:
    """Returns the adverbial that opens a clause; None where the subject opens it."""
    adjuncts = clause.adjuncts
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place).words
        case "remark" if adjuncts.remark:
            return [make_word(adjuncts.remark.german, adjuncts, "remark")]
    return None


def question_opening(clause: Clause) -> Words | None:
    """Returns the interrogative adverb or object; None where it is the subject, nothing in a yes/no question."""
    if is_interrogative(clause.subject):
        return None
    if adverb := clause.adjuncts.question:
        return [make_word(adverb.german, clause, "question")]
    for number, filler in enumerate(clause.objects):
        if is_interrogative(filler):
            return object_phrase(clause, number).words
    return []


# Verbs ---------------------------------------------------------------------------------------------------


class Verbs(NamedTuple):
    """The verbs of a clause: the finite one, its separable prefix, the non-finite ones in their order at the end."""

    finite: Word
    prefix: str
    nonfinite: Words

    def separated(self) -> Words:
        """Returns the right bracket of a main clause."""
        return [Word(self.prefix, self.finite.keys)] if self.prefix else self.nonfinite

    def joined(self) -> Words:
        """Returns all verbs at the end of a clause."""
        return [*self.nonfinite, self.finite._replace(text=self.prefix + self.finite.text)]


def predicate(clause: Clause, agreement: Agreement) -> Verbs:
    """Returns the verbs of a clause in its form."""
    form, verb = clause.form, clause.verb
    if form.modal:
        text = form.modal.plural if agreement == Agreement.PLURAL else form.modal.singular
        return Verbs(make_word(text, clause, "finite"), "", infinitives(clause))
    if form.tense == "future":
        return Verbs(make_word(morphology.present("werden", "", agreement), clause, "finite"), "", infinitives(clause))
    participle = make_word(morphology.participle(verb), clause, "verb")
    if form.tense in ("perfect", "pluperfect"):
        auxiliary = "sein" if form.passive else verb.auxiliary
        inflect = morphology.past if form.tense == "pluperfect" else morphology.present
        been = [make_word("worden", clause, "passive")] if form.passive else []
        return Verbs(make_word(inflect(auxiliary, "", agreement), clause, "finite"), "", [participle, *been])
    inflect, irregular = (
        (morphology.past, verb.german_past) if form.tense == "past" else (morphology.present, verb.present)
    )
    if form.passive:
        return Verbs(make_word(inflect("werden", "", agreement), clause, "finite"), "", [participle])
    keys = ((id(clause), "finite"), (id(clause), "verb"))
    return Verbs(Word(inflect(verb.german, irregular, agreement), keys), verb.prefix, [])


def infinitives(clause: Clause) -> Words:
    """Returns what follows a modal: the infinitive, or the participle and "werden"."""
    if clause.form.passive:
        participle = make_word(morphology.participle(clause.verb), clause, "verb")
        return [participle, make_word("werden", clause, "passive")]
    return [make_word(morphology.infinitive(clause.verb, marked=False), clause, "verb")]
