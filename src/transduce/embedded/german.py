"""Realises abstract sentences in German, as sequences of words.

Each function is named after the constituent that it builds from a node of the abstract sentence.
"""

from typing import NamedTuple, TypeAlias

from transduce.embedded import german_inflection
from transduce.embedded.lexicon import DETERMINERS, NUMERALS, Case, Slot, find_entry
from transduce.embedded.syntax import (
    END,
    AdjectivePhrase,
    Agreement,
    Clause,
    ClockTime,
    Coordination,
    EventTime,
    Expletive,
    Gap,
    InterrogativePronoun,
    Key,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Pronoun,
    Sentence,
    SubordinateClause,
    TimeExpression,
    agreement_of,
    is_interrogative,
)


class Word(NamedTuple):
    """A word with its alignment keys."""

    text: str
    keys: tuple[Key, ...] = ()


Words: TypeAlias = list[Word]

THE = find_entry(DETERMINERS, "the")
A = find_entry(DETERMINERS, "a")
HOURS = {numeral.hour: numeral.german for numeral in NUMERALS if numeral.hour}
INTERROGATIVE = {"nominative": "wer", "accusative": "wen", "dative": "wem"}


class Constituent(NamedTuple):
    """The words of a phrase; `tail` is the relative clause at its end, which may move behind the verb."""

    words: Words
    tail: Words


def make_word(text: str, node: object, role: str) -> Word:
    """Returns a word that is aligned to the English words with the same node and role."""
    return Word(text, ((id(node), role),))


def single_word(text: str, node: object, role: str) -> Constituent:
    """Returns a constituent that consists of one word."""
    return Constituent([make_word(text, node, role)], [])


# Noun phrases --------------------------------------------------------------------------------------------


def phrase(node: Phrase, case: Case, negation: Key | None = None) -> Constituent:
    """Builds a phrase in the given case.

    If `negation`, the key of the English "not", is given, a noun phrase takes "kein" instead of its article.
    """
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
    """Builds a phrase from an article, numeral, adjective, noun and modifier.

    A possessive name replaces the article. If the modifier is a relative clause, it becomes the tail.
    """
    column = german_inflection.column(node.noun.gender, node.number)
    key = (id(node), "determiner")
    words, declension = list[Word](), ""  # declension that the article requires of an adjective
    match node.modifier:
        case Possessor(NamePhrase(name) as person, _):
            words.append(make_word(german_inflection.possessive_name(name.german), person, "noun"))
        case Possessor(_, True):
            # "the teacher's car" is "das Auto des Lehrers": German adds an article that English does not have.
            words.append(Word(german_inflection.determiner(THE, case, column), ()))
            declension = THE.declension
        case _ if negation:
            words.append(Word("k" + german_inflection.determiner(A, case, column), (negation, key)))
            declension = A.declension
        case _ if node.determiner:
            words.append(Word(german_inflection.determiner(node.determiner, case, column), (key,)))
            declension = node.determiner.declension
    if node.numeral:
        words.append(make_word(node.numeral.german, node, "numeral"))
    if node.adjective_phrase:
        text = german_inflection.adjective(node.adjective_phrase.adjective, declension, case, column)
        words += adjective_phrase(node.adjective_phrase, text)
    words.append(make_word(german_inflection.noun(node.noun, case, node.number), node, "noun"))
    following = Constituent([], [])
    match node.modifier:
        case Possessor(NounPhrase() as owner, _):
            following = phrase(owner, "genitive")
        case PrepositionalModifier(attribute, filler):
            key = (id(node.modifier), "preposition")
            following = prepositional(attribute.german, attribute.case, filler, key)
        case Clause():
            following = Constituent([], relative(node.modifier, node))
    return Constituent(words + following.words, following.tail)


def adjective_phrase(node: AdjectivePhrase, text: str) -> Words:
    """Returns an adjective, already inflected as `text`, with "sehr" if the phrase has it."""
    very = [make_word("sehr", node, "very")] if node.very else []
    return [*very, make_word(text, node, "adjective")]


# Adverbials ----------------------------------------------------------------------------------------------


def place(node: Place) -> Constituent:
    """Builds a phrase of place or direction."""
    return prepositional(node.german, node.case, node.phrase, (id(node), "preposition"))


def time(node: TimeExpression | ClockTime | EventTime) -> Words:
    """Returns the words of an adverbial of time."""
    match node:
        case TimeExpression():
            texts = node.time.german.split()
            numbers = [min(len(texts) - position, node.time.aligned) for position in range(len(texts))]
            return [make_word(text, node, str(number)) for text, number in zip(texts, numbers, strict=True)]
        case EventTime():
            return prepositional(node.german, node.case, node.phrase, (id(node), "preposition")).words
    # "um fünf Uhr", "um halb acht", "um Viertel vor drei"; "halb" counts towards the next hour.
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
    """Builds a prepositional phrase, and contracts the preposition with the article if German has a contraction.

    The two words remain separate if the phrase ends with a relative clause, because the article is then stressed. If
    `preposition` is empty, the phrase is returned without one.
    """
    inner = phrase(filler, case)
    if not preposition:
        return inner
    first, *rest = inner.words
    contraction = german_inflection.CONTRACTIONS.get((preposition, first.text))
    if contraction and not inner.tail:
        return Constituent([Word(contraction, (key, *first.keys)), *rest], inner.tail)
    return Constituent([Word(preposition, (key,)), *inner.words], inner.tail)


# The middle field: the constituents between the two brackets of verbs -------------------------------------


def middle_field(clause: Clause, with_subject: bool) -> tuple[Words, Words]:
    """Returns the words between the two verbal brackets, and the relative clause that moves behind the second bracket.

    The words are in this order: pronouns, subject, time, frequency, definite objects, manner, indefinite objects,
    "nicht", agent, place, prepositional objects, complement.
    """
    adjuncts, frequency = clause.adjuncts, list[Constituent]()
    if adjuncts.frequency:
        frequency.append(single_word(adjuncts.frequency.german, clause, "frequency"))
    # "nie" and "schon" follow definite objects, where "nicht" stands.
    is_late = adjuncts.frequency is not None and adjuncts.frequency.kind == "late"
    parts = opening_part(clause, with_subject)
    if adjuncts.time and adjuncts.front != "time":
        parts.append(Constituent(time(adjuncts.time), []))
    parts += bare_objects(clause, frequency) if is_late else [*frequency, *bare_objects(clause, [])]
    if clause.agent:
        parts.append(prepositional("von", "dative", clause.agent, (id(clause), "by")))
    if adjuncts.place and adjuncts.front != "place":
        parts.append(place(adjuncts.place))
    parts += [object_phrase(clause, number) for number, slot, _ in _objects_in_place(clause) if slot.german]
    match clause.complement:
        case AdjectivePhrase(adjective):
            parts.append(Constituent(adjective_phrase(clause.complement, adjective.german), []))
        case Place():
            parts.append(place(clause.complement))
    words: Words = []
    for part in parts[:-1]:
        words += part.words + part.tail
    return (words + parts[-1].words, parts[-1].tail) if parts else ([], [])


def opening_part(clause: Clause, with_subject: bool) -> list[Constituent]:
    """Returns the subject, the pronoun of a reflexive verb, and the objects that are pronouns, in order.

    A pronoun precedes a subject that is a noun, except "sie", which could be mistaken for the subject. An accusative
    pronoun precedes a dative pronoun.
    """
    node, pronouns = clause.subject, list[Constituent]()
    if clause.verb.reflexive:
        text = node.pronoun.reflexive if isinstance(node, Pronoun) else "sich"
        pronouns.append(single_word(text, clause, "verb"))
    for number, _, _ in sorted(_objects_in_place(clause), key=lambda each: each[1].case):
        if isinstance(clause.objects[number], Pronoun) and not clause.verb.slots[number].german:
            pronouns.append(object_phrase(clause, number))
    if not with_subject or isinstance(node, Gap):
        return pronouns
    words, tail = phrase(node, "nominative")
    subject = Constituent(words + tail, [])
    if isinstance(node, Pronoun | Expletive):
        return [subject, *pronouns]
    first = [part for part in pronouns if part.words[0].text.lower() != "sie"]
    return [*first, subject, *(part for part in pronouns if part not in first)]


def _objects_in_place(clause: Clause) -> list[tuple[int, Slot, Phrase]]:
    """Returns the number, slot and phrase of each object that has not been moved out of the middle field."""
    return [
        (number, clause.verb.slots[number], filler)
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_interrogative(filler)
    ]


def bare_objects(clause: Clause, frequency: list[Constituent]) -> list[Constituent]:
    """Returns the objects without a preposition, and the adverbs between definite and indefinite objects.

    "nicht" comes last, unless it is expressed by the "kein" of an object. If the last object ends with a relative
    clause, the clause moves behind the adverbs that follow this object.
    """
    manner, adverbs = clause.adjuncts.manner, list(frequency)
    if manner:
        adverbs.append(single_word(manner.german, clause, "manner"))
    negation = [single_word("nicht", clause, "not")] if clause.form.negated else []
    parts: list[Constituent] = []
    for number, slot, filler in _objects_in_place(clause):
        if slot.german or isinstance(filler, Pronoun):
            continue
        is_indefinite = (
            isinstance(filler, NounPhrase)
            and not isinstance(filler.modifier, Possessor)
            and (filler.determiner is None or filler.determiner.english == "a")
        )
        if is_indefinite and negation:
            parts.append(object_phrase(clause, number, (id(clause), "not")))
            negation = []
        elif is_indefinite:
            parts += [*adverbs, object_phrase(clause, number)]
            adverbs = []
        else:
            parts.append(object_phrase(clause, number))
    parts += [*adverbs, *negation]
    tails = [part.tail for part in parts if part.tail]
    if not tails:
        return parts
    *before, last = [part._replace(tail=[]) for part in parts]
    return [*before, last._replace(tail=tails[-1])]


def object_phrase(clause: Clause, number: int, negation: Key | None = None) -> Constituent:
    """Builds an object in the case of its slot, after the slot's preposition if it has one."""
    slot, filler = clause.verb.slots[number], clause.objects[number]
    if not slot.german:
        return phrase(filler, slot.case, negation)
    return prepositional(slot.german, slot.case, filler, preposition_key(clause, number))


def preposition_key(clause: Clause, number: int) -> Key:
    """Returns the alignment key of a German preposition.

    The preposition is aligned to the English preposition or, if English has none, to the verb.
    """
    return (id(clause), f"preposition{number}" if clause.verb.slots[number].english else "verb")


# Clauses and sentences: the two brackets of verbs, and the fields around them -----------------------------


def sentence(node: Sentence) -> Words:
    """Returns the words of a sentence.

    The caller removes commas that are doubled, or that precede the punctuation mark at the end.
    """
    end = Word("?" if node.mood == "question" else ".", (END,))
    if node.mood == "question":
        clause, opening = node.clause, list[Word]()
        if adverb := clause.adjuncts.question:
            opening.append(make_word(adverb.german, clause, "question"))
        for number, filler in enumerate(clause.objects):
            if is_interrogative(filler):
                opening = object_phrase(clause, number).words
        return [*main(clause, None if is_interrogative(clause.subject) else opening), end]
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
    """Returns a verb-second clause: opening, finite verb, middle field, other verbs, postponed clauses.

    If `opening` is None, the subject opens the clause. If it is empty, the finite verb comes first, as in yes/no
    questions.
    """
    verbs = predicate(clause, agreement_of(clause.subject))
    middle, tail = middle_field(clause, with_subject=opening is not None)
    if opening is None:
        subject = phrase(clause.subject, "nominative")
        opening = subject.words + subject.tail
    return [*opening, verbs.finite, *middle, *verbs.separated(), *tail, *clausal_object(clause)]


def verb_last(clause: Clause, agreement: Agreement) -> Words:
    """Returns a clause with its verbs at the end, as it follows a conjunction or a relative pronoun."""
    verbs = predicate(clause, agreement)
    middle, tail = middle_field(clause, with_subject=True)
    return [*middle, *verbs.joined(), *tail, *clausal_object(clause)]


def subordinate(node: SubordinateClause) -> Words:
    """Returns a clause that begins with its conjunction, has its verbs at the end, and is enclosed in commas."""
    comma = make_word(",", node, "comma")
    conjunction = make_word(node.german, node, "conjunction")
    return [comma, conjunction, *verb_last(node.clause, agreement_of(node.clause.subject)), comma]


def relative(clause: Clause, antecedent: NounPhrase) -> Words:
    """Returns a relative clause that is enclosed in commas; its pronoun is in the case of the gap."""
    column = german_inflection.column(antecedent.noun.gender, antecedent.number)
    comma = Word(",")
    if isinstance(clause.subject, Gap):
        pronoun = make_word(german_inflection.RELATIVE["nominative"][column], clause, "gap")
        return [comma, pronoun, *verb_last(clause, agreement_of(antecedent)), comma]
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    slot = clause.verb.slots[number]
    pronoun = make_word(german_inflection.RELATIVE[slot.case][column], clause, "gap")
    preposition = [Word(slot.german, (preposition_key(clause, number),))] if slot.german else []
    return [comma, *preposition, pronoun, *verb_last(clause, agreement_of(clause.subject)), comma]


def clausal_object(clause: Clause) -> Words:
    """Returns the clause that replaces an object and follows the verbs, or an empty list if there is none.

    An infinitive takes "zu" and is enclosed in commas.
    """
    below = clause.complement
    if isinstance(below, SubordinateClause):
        return subordinate(below)
    if not isinstance(below, Clause):
        return []
    middle, tail = middle_field(below, with_subject=False)
    verb, to, lexical = below.verb, (id(below), "to"), ((id(below), "finite"), (id(below), "verb"))
    if verb.prefix:
        verbs = [Word(german_inflection.infinitive(verb, marked=True), (to, *lexical))]
    else:
        verbs = [Word("zu", (to,)), Word(verb.german, lexical)]
    return [Word(","), *middle, *verbs, *tail, Word(",")]


# Openings ------------------------------------------------------------------------------------------------


def fronted(clause: Clause) -> Words | None:
    """Returns the adverbial that opens a clause, or None if the subject opens it."""
    adjuncts = clause.adjuncts
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place).words
        case "remark" if adjuncts.remark:
            return [make_word(adjuncts.remark.german, adjuncts, "remark")]
    return None


# Verbs ---------------------------------------------------------------------------------------------------


class Verbs(NamedTuple):
    """The verbs of a clause: the finite verb, its separable prefix, and the non-finite verbs in clause-final order."""

    finite: Word
    prefix: str
    nonfinite: Words

    def separated(self) -> Words:
        """Returns what ends a main clause: the separable prefix or the non-finite verbs."""
        return [Word(self.prefix, self.finite.keys)] if self.prefix else self.nonfinite

    def joined(self) -> Words:
        """Returns all verbs in the order in which they end a subordinate clause."""
        return [*self.nonfinite, self.finite._replace(text=self.prefix + self.finite.text)]


def predicate(clause: Clause, agreement: Agreement) -> Verbs:
    """Returns the verbs of a clause, inflected for tense, modality, voice and agreement."""
    form, verb = clause.form, clause.verb
    if form.modal:
        text = form.modal.plural if agreement == Agreement.PLURAL else form.modal.singular
        return Verbs(make_word(text, clause, "finite"), "", infinitives(clause))
    if form.tense == "future":
        finite = make_word(german_inflection.present("werden", "", agreement), clause, "finite")
        return Verbs(finite, "", infinitives(clause))
    participle = make_word(german_inflection.participle(verb), clause, "verb")
    if form.tense in ("perfect", "pluperfect"):
        auxiliary = "sein" if form.passive else verb.auxiliary
        inflect = german_inflection.past if form.tense == "pluperfect" else german_inflection.present
        been = [make_word("worden", clause, "passive")] if form.passive else []
        return Verbs(make_word(inflect(auxiliary, "", agreement), clause, "finite"), "", [participle, *been])
    if form.tense == "past":
        inflect, irregular = german_inflection.past, verb.german_past
    else:
        inflect, irregular = german_inflection.present, verb.present
    if form.passive:
        return Verbs(make_word(inflect("werden", "", agreement), clause, "finite"), "", [participle])
    keys = ((id(clause), "finite"), (id(clause), "verb"))
    return Verbs(Word(inflect(verb.german, irregular, agreement), keys), verb.prefix, [])


def infinitives(clause: Clause) -> Words:
    """Returns the infinitive after a modal or "werden" or, in the passive, the participle followed by "werden"."""
    if clause.form.passive:
        participle = make_word(german_inflection.participle(clause.verb), clause, "verb")
        return [participle, make_word("werden", clause, "passive")]
    return [make_word(german_inflection.infinitive(clause.verb, marked=False), clause, "verb")]
