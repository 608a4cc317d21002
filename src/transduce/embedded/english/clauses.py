"""English clauses and sentences: verb phrases, questions, relative clauses."""

from typing import NamedTuple

from transduce.embedded.english import morphology
from transduce.embedded.english.phrases import fronted, phrase, place, quality, time
from transduce.embedded.english.tree import Branch, Leaf, Tree, first_leaf
from transduce.embedded.syntax import (
    Clause,
    Form,
    Gap,
    NounPhrase,
    Place,
    Pronoun,
    Quality,
    Sentence,
    Subordinate,
    agreement,
    is_asked,
)


def sentence(said: Sentence) -> Branch:
    """The tree of a whole sentence."""
    if said.mood == "question":
        return question(said.clause)
    end = Leaf(".", ".", ((0, "end"),))
    first = statement(said.clause)
    if said.joint and said.second:
        conjunction = Leaf("CC", said.joint[0], ((id(said), "joint"),))
        comma = Leaf(",", ",", ((id(said.clause), "comma"),))
        return Branch("S", [first, comma, conjunction, statement(said.second), end])
    if not said.subordinate:
        return Branch("S", [*first.children, end])
    below = subordinate(said.subordinate)
    if said.before:
        comma = Leaf(",", ",", ((id(said.subordinate), "comma"),))
        return Branch("S", [below, comma, *first.children, end])
    *head, verbs = first.children
    assert isinstance(verbs, Branch)
    return Branch("S", [*head, Branch("VP", [*verbs.children, below]), end])


def statement(clause: Clause) -> Branch:
    """S: what opens the clause, subject, verb phrase."""
    front = fronted(clause.adjuncts)
    opening: list[Tree] = [front, Leaf(",", ",")] if front else []
    person = agreement(clause.subject)
    return Branch("S", [*opening, phrase(clause.subject, "subject"), verb_phrase(clause, person)])


def subordinate(said: Subordinate) -> Branch:
    """SBAR: conjunction and clause."""
    key = ((id(said), "conjunction"),)
    word: Tree = Leaf("IN", said.english, key)
    if said.english == "when":
        word = Branch("WHADVP", [Leaf("WRB", said.english, key)])
    return Branch("SBAR", [word, statement(said.clause)])


# Questions -----------------------------------------------------------------------------------------------


def question(clause: Clause) -> Branch:
    """SQ, or SBARQ where something opens the question."""
    end = Leaf(".", "?", ((0, "end"),))
    person = agreement(clause.subject)
    if is_asked(clause.subject):
        opening = Branch("WHNP", phrase(clause.subject, "subject").children)
        return Branch("SBARQ", [opening, Branch("SQ", [verb_phrase(clause, person)]), end])
    opened = opening_of_question(clause)
    if opened:
        return Branch("SBARQ", [opened, inverted(clause, person), end])
    return Branch("SQ", [*inverted(clause, person).children, end])


def opening_of_question(clause: Clause) -> Branch | None:
    """What is asked for, where it is not the subject."""
    if ask := clause.adjuncts.ask:
        return Branch("WHADVP", [Leaf("WRB", ask.english, ((id(clause), "ask"),))])
    for number, filler in enumerate(clause.objects):
        if is_asked(filler):
            asking = Branch("WHNP", phrase(filler, "object").children)
            return _behind(clause, number, asking, "WHPP")
    return None


def _behind(clause: Clause, number: int, words: Branch, label: str) -> Branch:
    """A phrase behind the preposition of its slot, if the slot has one; a receiver who is moved takes "to"."""
    slot = clause.verb.slots[number]
    receiver = label == "WHPP" and len(clause.verb.slots) > 1 and slot.case == "dative"
    preposition = slot.english or ("to" if receiver else "")
    if not preposition:
        return words
    keys = ((id(clause), f"preposition{number}"),) if slot.german else first_leaf(words).keys
    return Branch(label, [Leaf("TO" if preposition == "to" else "IN", preposition, keys), words])


# Verb phrases --------------------------------------------------------------------------------------------

MODALS = ("will", "can", "could", "must", "should", "may")
PARTICLES = {"asleep": ("ADJP", "JJ"), "forward": ("ADVP", "RB")}  # any other is PRT
FINITE_BE = {"VBP": ("am", "is", "are"), "VBZ": ("am", "is", "are"), "VBD": ("was", "was", "were")}


class Auxiliary(NamedTuple):
    """An auxiliary, the form it asks of the next verb ("TO" is "to" and the base), and what it stands for."""

    word: str
    next: str
    role: str


def auxiliaries(form: Form) -> list[Auxiliary]:
    """The auxiliaries of a form, without "do"."""
    wanted: list[Auxiliary] = []
    if form.modal:
        word, _, to = form.modal.english.partition(" ")
        wanted.append(Auxiliary(word, "TO" if to else "VB", "finite"))
    if form.tense == "future":
        wanted.append(Auxiliary("will", "VB", "finite"))
    if form.tense in ("perfect", "pluperfect"):
        wanted.append(Auxiliary("have", "VBN", "finite"))
    if form.progressive:
        wanted.append(Auxiliary("be", "VBG", "finite"))
    if form.passive:
        wanted.append(Auxiliary("be", "VBN", "passive" if wanted else "finite"))
    return wanted


class Link(NamedTuple):
    """One verb of a chain, and the form that it asks of the next."""

    leaf: Leaf
    next: str


def chain(clause: Clause, person: int, inverted: bool = False) -> list[Link]:
    """The verbs from the finite one to the main one, with "do" where a question or "not" needs it."""
    wanted = auxiliaries(clause.form)
    lexical = wanted[0].next == "TO" if wanted else clause.verb.english != "be"
    if lexical and (inverted or clause.form.negated):
        wanted.insert(0, Auxiliary("do", "VB", "finite"))
    tag = finite_tag(clause.form, person)
    links: list[Link] = []
    for word, following, role in wanted:
        leaf = Leaf("MD" if word in MODALS else tag, verb_form(word, tag, person), ((id(clause), role),))
        links.append(Link(leaf, following))
        tag = "VB" if following == "TO" else following
    verb = clause.verb
    keys = ((id(clause), "verb"),) if links else ((id(clause), "finite"), (id(clause), "verb"))
    text = verb_form(verb.english, tag, person, verb.past, verb.participle)
    return [*links, Link(Leaf(tag, text, keys), "")]


def verb_form(word: str, tag: str, person: int, past: str = "", participle: str = "") -> str:
    """A verb in the form its tag names; "be" agrees in more ways than any other."""
    if word in MODALS:
        return word
    if word == "be" and tag in FINITE_BE:
        return FINITE_BE[tag][person]
    return morphology.verb(word, tag, past, participle)


def finite_tag(form: Form, person: int) -> str:
    """The tag of the first verb: infinitive, past, or present in agreement with the subject."""
    if form.tense == "infinitive":
        return "VB"
    past = form.tense in ("past", "pluperfect")
    return "VBD" if past else "VBZ" if person == 1 else "VBP"


def verb_phrase(clause: Clause, person: int) -> Branch:
    """VP, one inside the other, the finite verb outermost."""
    links = chain(clause, person)
    middle = _middle(clause)
    if len(links) == 1 and clause.verb.english != "be":
        return Branch("VP", [*middle, links[0].leaf, *completions(clause)])
    return _nested(links, middle, clause)


def _middle(clause: Clause) -> list[Tree]:
    """What stands beside the finite verb: "not" and how often."""
    found: list[Tree] = []
    if clause.form.negated:
        found.append(Leaf("RB", "not", ((id(clause), "not"),)))
    if frequency := clause.adjuncts.frequency:
        found.append(Branch("ADVP", [Leaf("RB", frequency.english, ((id(clause), "frequency"),))]))
    return found


def _nested(links: list[Link], middle: list[Tree], clause: Clause) -> Branch:
    """The verb phrase of a chain; `middle` follows its first verb."""
    (leaf, following), *rest = links
    if not rest:
        return Branch("VP", [leaf, *middle, *completions(clause)])
    inner = _nested(rest, [], clause)
    if following == "TO":
        inner = Branch("S", [Branch("VP", [Leaf("TO", "to", leaf.keys), inner])])
    return Branch("VP", [leaf, *middle, inner])


def inverted(clause: Clause, person: int) -> Branch:
    """SQ: the finite verb before its subject."""
    (leaf, _), *rest = chain(clause, person, inverted=True)
    head: list[Tree] = [leaf, phrase(clause.subject, "subject"), *_middle(clause)]
    return Branch("SQ", [*head, *([_nested(rest, [], clause)] if rest else completions(clause))])


def completions(clause: Clause) -> list[Tree]:
    """What follows the main verb: particle, objects, doer, manner, place, time, clause."""
    found = objects(clause)
    adjuncts, complement = clause.adjuncts, clause.complement
    if isinstance(complement, Quality):
        found.append(quality(complement))
    if isinstance(complement, Place):
        found.append(place(complement))
    if clause.agent:
        found.append(Branch("PP", [Leaf("IN", "by", ((id(clause), "by"),)), phrase(clause.agent, "object")]))
    if adjuncts.manner:
        found.append(Branch("ADVP", [Leaf("RB", adjuncts.manner.english, ((id(clause), "manner"),))]))
    if adjuncts.place and adjuncts.front != "place":
        found.append(place(adjuncts.place))
    if adjuncts.time and adjuncts.front != "time":
        found.append(time(adjuncts.time))
    if isinstance(complement, Subordinate):
        found.append(subordinate(complement))
    if isinstance(complement, Clause):
        to = Leaf("TO", "to", ((id(complement), "to"),))
        found.append(Branch("S", [Branch("VP", [to, verb_phrase(complement, 1)])]))
    return found


def objects(clause: Clause) -> list[Tree]:
    """Particle and objects; "to" somebody comes last, the particle after a pronoun."""
    verb = clause.verb
    found: list[Tree] = [
        _behind(clause, number, phrase(filler, "object"), "PP")
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_asked(filler)
    ]
    if len(found) == 2 and verb.slots[0].english == "to":
        found.reverse()
    if not verb.particle:
        return found
    label, tag = PARTICLES.get(verb.particle, ("PRT", "RP"))
    particle: Tree = Branch(label, [Leaf(tag, verb.particle, ((id(clause), "verb"),))])
    pronoun = bool(clause.objects) and isinstance(clause.objects[0], Pronoun) and not verb.slots[0].english
    return [*found, particle] if pronoun else [particle, *found]


# Relative clauses ----------------------------------------------------------------------------------------


def relative(clause: Clause, antecedent: NounPhrase) -> Branch:
    """SBAR: the relative pronoun and the clause that lacks what it stands for."""
    human = "person" in antecedent.noun.classes
    if isinstance(clause.subject, Gap):
        body = Branch("S", [verb_phrase(clause, agreement(antecedent))])
        return Branch("SBAR", [_pronoun(clause, "who" if human else "that"), body])
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    thing = "which" if clause.verb.slots[number].english else "that"
    head = _behind(clause, number, _pronoun(clause, "whom" if human else thing), "WHPP")
    return Branch("SBAR", [head, statement(clause)])


def _pronoun(clause: Clause, word: str) -> Branch:
    return Branch("WHNP", [Leaf("WDT" if word in ("that", "which") else "WP", word, ((id(clause), "gap"),))])
