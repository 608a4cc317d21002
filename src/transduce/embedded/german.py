"""German: an abstract sentence as words that remember what they stand for, ordered by the fields of the clause."""

from typing import NamedTuple, TypeAlias

from transduce.embedded import german_morphology as morphology
from transduce.embedded.lexicon import DETERMINERS, NUMERALS, Case, Slot, named
from transduce.embedded.syntax import (
    Both,
    Clause,
    Clock,
    Description,
    During,
    Gap,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Query,
    Sentence,
    SetTime,
    Subordinate,
    Weather,
    agreement,
    is_asked,
)

Key: TypeAlias = tuple[int, str]  # a node of the abstract sentence and which of its words


class Word(NamedTuple):
    """A word and what it stands for."""

    text: str
    keys: tuple[Key, ...] = ()


Words: TypeAlias = list[Word]

THE = named(DETERMINERS, "the")
A = named(DETERMINERS, "a")
NOMINATIVE = Slot("", "", "nominative", ())  # the subject, seen as a slot
HOURS = {numeral.hour: numeral.german for numeral in NUMERALS if numeral.hour}


class Extended(NamedTuple):
    """A phrase and the relative clause at its end, which may move behind the verb."""

    words: Words
    tail: Words


def sentence(said: Sentence) -> Words:
    """The words of a whole sentence; commas may come in pairs and at the end, and are tidied afterwards."""
    end = Word("?" if said.mood == "question" else ".", ((0, "end"),))
    if said.mood == "question":
        return [*main(said.clause, question_opening(said.clause)), end]
    if said.subordinate and said.before:
        return [*main(said.clause, subordinate(said.subordinate)), end]
    words = main(said.clause, None if said.clause.adjuncts.front is None else fronted(said.clause))
    if said.joint and said.second:
        comma = Word(",", ((id(said.clause), "comma"),))
        second = main(said.second, None if said.second.adjuncts.front is None else fronted(said.second))
        return [*words, comma, Word(said.joint[1], ((id(said), "joint"),)), *second, end]
    if said.subordinate:
        words += subordinate(said.subordinate)
    return [*words, end]


def subordinate(said: Subordinate) -> Words:
    """Comma, conjunction, the clause with its verb at the end, comma."""
    comma = Word(",", ((id(said), "comma"),))
    return [comma, Word(said.german, ((id(said), "conjunction"),)), *final(said.clause), comma]


# Clauses -------------------------------------------------------------------------------------------------


def main(clause: Clause, opening: Words | None) -> Words:
    """Verb second: the opening (the subject where there is none), the finite verb, middle field, the other verbs.

    An empty opening makes the verb first, as in yes/no questions.
    """
    verbs = predicate(clause, agreement(clause.subject))
    subject_first = opening is None or is_asked(clause.subject)
    if subject_first:
        opened = phrase(clause.subject, "nominative")
        opening = [*opened.words, *opened.tail]
    middle, tail = middle_field(clause, with_subject=not subject_first)
    return [*(opening or []), verbs.finite, *middle, *verbs.separated(), *tail, *clause_object(clause)]


def final(clause: Clause, antecedent: NounPhrase | None = None) -> Words:
    """Verb last, as under a conjunction or a relative pronoun."""
    verbs = predicate(
        clause, agreement(antecedent if antecedent and isinstance(clause.subject, Gap) else clause.subject)
    )
    middle, tail = middle_field(clause, with_subject=True)
    return [*middle, *verbs.joined(), *tail, *clause_object(clause)]


def infinitive(clause: Clause) -> Words:
    """An infinitive clause with "zu"."""
    middle, tail = middle_field(clause, with_subject=False)
    verb = clause.verb
    keys = ((id(clause), "finite"), (id(clause), "verb"), (id(clause), "to"))
    if verb.prefix:
        verbs = [Word(morphology.infinitive(verb, True), keys)]
    else:
        verbs = [Word("zu", keys[2:]), Word(verb.german, keys[:2])]
    return [*middle, *verbs, *tail, *clause_object(clause)]


def clause_object(clause: Clause) -> Words:
    """A clause in place of an object, behind the verbs."""
    match clause.complement:
        case Subordinate():
            return subordinate(clause.complement)
        case Clause():
            comma = Word(",")
            return [comma, *infinitive(clause.complement), comma]
    return []


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
    """The verbs that a form needs."""
    form, verb = clause.form, clause.verb
    finite, lexical = (id(clause), "finite"), (id(clause), "verb")
    first = Word(morphology.participle(verb), (lexical,))
    if form.modal:
        text = form.modal.plural if person == 2 else form.modal.singular
        return Verbs(Word(text, (finite,)), "", _infinitives(clause))
    if form.tense == "future":
        return Verbs(Word(morphology.present("werden", "", person), (finite,)), "", _infinitives(clause))
    compound = form.tense in ("perfect", "pluperfect")
    if compound:
        auxiliary = "sein" if form.passive else verb.auxiliary
        inflect = morphology.past if form.tense == "pluperfect" else morphology.present
        been = [Word("worden", ((id(clause), "auxiliary1"),))] if form.passive else []
        return Verbs(Word(inflect(auxiliary, "", person), (finite,)), "", [first, *been])
    inflect = morphology.past if form.tense == "past" else morphology.present
    if form.passive:
        return Verbs(Word(inflect("werden", "", person), (finite,)), "", [first])
    strong = verb.german_past if form.tense == "past" else verb.present
    return Verbs(Word(inflect(verb.german, strong, person), (finite, lexical)), verb.prefix, [])


def _infinitives(clause: Clause) -> Words:
    """What follows a modal: the infinitive, or the participle and "werden"."""
    lexical = ((id(clause), "verb"),)
    if clause.form.passive:
        be = Word("werden", ((id(clause), "auxiliary1"),))
        return [Word(morphology.participle(clause.verb), lexical), be]
    return [Word(morphology.infinitive(clause.verb, False), lexical)]


def middle_field(clause: Clause, with_subject: bool) -> tuple[Words, Words]:
    """What stands between the two brackets, and the relative clause that moves behind the second."""
    adjuncts = clause.adjuncts
    subject = clause.subject
    parts: list[Extended] = []
    reflexive = _reflexive(clause)
    light = isinstance(subject, Pronoun | Weather)
    if reflexive and not light:
        parts.append(reflexive)
    if with_subject and not isinstance(subject, Gap | Query):
        parts.append(_closed(phrase(subject, "nominative")))
    if reflexive and light:
        parts.append(reflexive)
    fillers = [
        (slot, filler)
        for slot, filler in zip(clause.verb.slots, clause.objects, strict=False)
        if not isinstance(filler, Gap) and not is_asked(filler)
    ]
    bare = [(slot, filler) for slot, filler in fillers if not slot.german]
    light_objects = [pair for pair in bare if isinstance(pair[1], Pronoun)]
    parts += [phrase(filler, slot.case) for slot, filler in sorted(light_objects, key=lambda pair: pair[0].case)]
    if adjuncts.time and adjuncts.front != "time":
        parts.append(Extended(time(adjuncts.time), []))
    if adjuncts.frequency:
        parts.append(_one(adjuncts.frequency.german, (id(clause), "frequency")))
    absorbed = clause.form.negated and any(_indefinite(filler) for _, filler in bare)
    for slot, filler in bare:
        if isinstance(filler, Pronoun):
            continue
        negated = (id(clause), "not") if clause.form.negated and _indefinite(filler) else None
        parts.append(phrase(filler, slot.case, negated))
    if clause.form.negated and not absorbed:
        parts.append(_one("nicht", (id(clause), "not")))
    if adjuncts.manner:
        parts.append(_one(adjuncts.manner.german, (id(clause), "manner")))
    if clause.agent:
        parts.append(prepositional("von", "dative", clause.agent, (id(clause), "by")))
    if adjuncts.place and adjuncts.front != "place":
        parts.append(place(adjuncts.place))
    for slot, filler in fillers:
        if slot.german:
            parts.append(prepositional(slot.german, slot.case, filler, (id(clause), f"preposition{slot.english}")))
    match clause.complement:
        case Quality():
            parts.append(Extended(quality(clause.complement), []))
        case Place():
            parts.append(place(clause.complement))
    return _field(parts)


def _field(parts: list[Extended]) -> tuple[Words, Words]:
    """The parts in a row; only the last one's relative clause is left for later."""
    words: Words = []
    for part in parts[:-1]:
        words += part.words + part.tail
    if not parts:
        return [], []
    return words + parts[-1].words, parts[-1].tail


def _closed(part: Extended) -> Extended:
    return Extended(part.words + part.tail, [])


def _one(text: str, key: Key) -> Extended:
    return Extended([Word(text, (key,))], [])


def _reflexive(clause: Clause) -> Extended | None:
    if not clause.verb.reflexive:
        return None
    subject = clause.subject
    text = subject.person.reflexive if isinstance(subject, Pronoun) else "sich"
    return _one(text, (id(clause), "verb"))


def _indefinite(filler: Phrase) -> bool:
    """Whether "not" becomes "kein" before this phrase."""
    if not isinstance(filler, NounPhrase) or filler.numeral or isinstance(filler.modifier, Possessor):
        return False
    return filler.determiner is None or filler.determiner.english == "a"


# Openings and adverbials ---------------------------------------------------------------------------------


def question_opening(clause: Clause) -> Words:
    """What is asked for; nothing in a yes/no question."""
    if ask := clause.adjuncts.ask:
        return [Word(ask.german, ((id(clause), "ask"),))]
    for slot, filler in zip(clause.verb.slots, clause.objects):
        if is_asked(filler):
            key = (id(clause), f"preposition{slot.english}")
            asked = prepositional(slot.german, slot.case, filler, key)
            return [*asked.words, *asked.tail]
    return []


def fronted(clause: Clause) -> Words:
    """The adverbial that opens a clause."""
    adjuncts = clause.adjuncts
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place).words
        case "remark" if adjuncts.remark:
            return [Word(adjuncts.remark.german, ((id(adjuncts), "remark"),))]
    return []


def place(where: Place) -> Extended:
    """A phrase of place or direction."""
    return prepositional(where.german, where.case, where.phrase, (id(where), "preposition"))


def time(when: SetTime | Clock | During) -> Words:
    """A phrase of time."""
    match when:
        case SetTime():
            texts = when.time.german.split()
            return [Word(text, ((id(when), str(len(texts) - n)),)) for n, text in enumerate(texts)]
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
    """A phrase behind its preposition, run together with the article where German does so."""
    inner = phrase(filler, case)
    if not preposition:
        return inner
    first, *rest = inner.words
    article = any(role == "determiner" for _, role in first.keys)
    together = morphology.CONTRACTIONS.get((preposition, first.text)) if article else None
    if together:
        return Extended([Word(together, (key, *first.keys)), *rest], inner.tail)
    return Extended([Word(preposition, (key,)), *inner.words], inner.tail)


# Noun phrases --------------------------------------------------------------------------------------------


def phrase(said: Phrase, case: Case, negated: Key | None = None) -> Extended:
    """Any phrase in a case; `negated` is the "not" that turns its article into "kein"."""
    match said:
        case NounPhrase():
            return noun_phrase(said, case, negated)
        case NamePhrase():
            return _one(said.name.german, (id(said), "noun"))
        case Pronoun():
            return _one(getattr(said.person, case), (id(said), "noun"))
        case Both():
            first, second = phrase(said.first, case), phrase(said.second, case)
            return Extended([*first.words, Word("und", ((id(said), "and"),)), *second.words], second.tail)
        case Query():
            forms = {"nominative": "wer", "accusative": "wen", "dative": "wem"}
            return _one(forms[case] if said.human else "was", (id(said), "noun"))
    return _one("es", (id(said), "noun"))


def noun_phrase(said: NounPhrase, case: Case, negated: Key | None) -> Extended:
    """Article, number, adjective, noun, what follows the noun; the relative clause apart."""
    owner = said.modifier if isinstance(said.modifier, Possessor) else None
    by_name = owner is not None and isinstance(owner.owner, NamePhrase)
    column = morphology.column(said.noun.gender, said.number)
    words: Words = []
    declension = ""
    if by_name and owner:
        words.append(Word(morphology.possessive_name(owner.owner.name.german), ((id(owner.owner), "noun"),)))
    elif negated:
        declension = "ein"
        keys = (negated, (id(said), "determiner"))
        words.append(Word("k" + morphology.determiner(A, case, column), keys))
    elif said.determiner or owner:
        determiner = said.determiner or THE
        declension = determiner.declension
        words.append(Word(morphology.determiner(determiner, case, column), ((id(said), "determiner"),)))
    if said.numeral:
        words.append(Word(said.numeral.german, ((id(said), "numeral"),)))
    if said.quality:
        words += attributive(said.quality, declension, case, column)
    words.append(Word(morphology.noun(said.noun, case, said.number), ((id(said), "noun"),)))
    following = modifier(said)
    return Extended(words + following.words, following.tail)


def modifier(said: NounPhrase) -> Extended:
    """What follows the noun."""
    match said.modifier:
        case Possessor(owner, _) if isinstance(owner, NounPhrase):
            return phrase(owner, "genitive")
        case Description(attribute, filler):
            return prepositional(attribute.german, attribute.case, filler, (id(said.modifier), "preposition"))
        case Clause():
            return Extended([], relative(said.modifier, said))
    return Extended([], [])


def relative(clause: Clause, antecedent: NounPhrase) -> Words:
    """Comma, the pronoun in the case of the gap, the clause with its verb at the end, comma."""
    column = morphology.column(antecedent.noun.gender, antecedent.number)
    slot = NOMINATIVE
    for candidate, filler in zip(clause.verb.slots, clause.objects):
        if isinstance(filler, Gap):
            slot = candidate
    pronoun = Word(morphology.RELATIVE[slot.case][column], ((id(clause), "gap"),))
    preposition = [Word(slot.german, ((id(clause), f"preposition{slot.english}"),))] if slot.german else []
    return [Word(","), *preposition, pronoun, *final(clause, antecedent), Word(",")]


def attributive(said: Quality, declension: str, case: Case, column: int) -> Words:
    """An adjective before its noun."""
    text = morphology.adjective(said.adjective, declension, case, column)
    very = [Word("sehr", ((id(said), "very"),))] if said.very else []
    return [*very, Word(text, ((id(said), "adjective"),))]


def quality(said: Quality) -> Words:
    """An adjective that is said of the subject."""
    very = [Word("sehr", ((id(said), "very"),))] if said.very else []
    return [*very, Word(said.adjective.german, ((id(said), "adjective"),))]
