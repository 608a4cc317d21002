"""English: an abstract sentence as a Penn-style tree whose leaves remember what they stand for."""

from typing import NamedTuple, TypeAlias

from transduce.embedded import english_morphology as morphology
from transduce.embedded.lexicon import TIMES
from transduce.embedded.syntax import (
    Adjuncts,
    Both,
    Clause,
    Clock,
    Description,
    During,
    Form,
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
    agreement,
    is_asked,
)

Key: TypeAlias = tuple[int, str]  # a node of the abstract sentence and which of its words


class Leaf(NamedTuple):
    """A word, its tag, and what it stands for."""

    tag: str
    text: str
    keys: tuple[Key, ...] = ()


class Branch(NamedTuple):
    """A constituent."""

    label: str
    children: "list[Tree]"


Tree: TypeAlias = Leaf | Branch


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
    """A phrase behind the preposition of its slot, if the slot has one."""
    preposition = clause.verb.slots[number].english
    if not preposition:
        return words
    tag = "TO" if preposition == "to" else "IN"
    return Branch(label, [Leaf(tag, preposition, ((id(clause), f"preposition{number}"),)), words])


# Verb phrases --------------------------------------------------------------------------------------------

MODALS = ("will", "can", "could", "must", "should", "may")
FINITE_BE = {"VBP": ("am", "is", "are"), "VBZ": ("am", "is", "are"), "VBD": ("was", "was", "were")}


def auxiliaries(form: Form) -> list[tuple[str, str]]:
    """The auxiliaries of a form, each with the form it asks of the next verb; "TO" is "to" and the base."""
    wanted: list[tuple[str, str]] = []
    if form.modal:
        word, _, to = form.modal.english.partition(" ")
        wanted.append((word, "TO" if to else "VB"))
    if form.tense == "future":
        wanted.append(("will", "VB"))
    if form.tense in ("perfect", "pluperfect"):
        wanted.append(("have", "VBN"))
    if form.progressive:
        wanted.append(("be", "VBG"))
    if form.passive:
        wanted.append(("be", "VBN"))
    return wanted


class Link(NamedTuple):
    """One verb of a chain, and the form that it asks of the next."""

    leaf: Leaf
    next: str


def chain(clause: Clause, person: int, inverted: bool = False) -> list[Link]:
    """The verbs from the finite one to the main one, with "do" where a question or "not" needs it."""
    wanted = auxiliaries(clause.form)
    lexical = wanted[0][1] == "TO" if wanted else clause.verb.english != "be"
    if lexical and (inverted or clause.form.negated):
        wanted.insert(0, ("do", "VB"))
    tag = finite_tag(clause.form, person)
    links: list[Link] = []
    for place, (word, following) in enumerate(wanted):
        key = (id(clause), f"auxiliary{place}" if place else "finite")
        links.append(Link(Leaf("MD" if word in MODALS else tag, verb_form(word, tag, person), (key,)), following))
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
    particle: Tree = Branch("PRT", [Leaf("RP", verb.particle, ((id(clause), "verb"),))])
    pronoun = bool(clause.objects) and isinstance(clause.objects[0], Pronoun) and not verb.slots[0].english
    return [*found, particle] if pronoun else [particle, *found]


# Adverbials ----------------------------------------------------------------------------------------------


def fronted(adjuncts: Adjuncts) -> Tree | None:
    """What stands before the subject."""
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place)
        case "remark" if adjuncts.remark:
            return Branch("ADVP", [Leaf("RB", adjuncts.remark.english, ((id(adjuncts), "remark"),))])
    return None


def place(where: Place) -> Branch:
    """PP of place or direction."""
    tag = "TO" if where.english == "to" else "IN"
    word = Leaf(tag, where.english, ((id(where), "preposition"),))
    return Branch("PP", [word, phrase(where.phrase, "object")])


def time(when: SetTime | Clock | During) -> Branch:
    """A phrase of time."""
    match when:
        case SetTime():
            return _numbered(TIME_TREES[when.time.english], id(when), when.time.german.count(" ") + 1)[0]
        case During():
            word = Leaf("IN", when.english, ((id(when), "preposition"),))
            return Branch("PP", [word, phrase(when.phrase, "object")])
    return clock(when)


def clock(when: Clock) -> Branch:
    """ "at half past seven", "at quarter to three", "at five o'clock"."""
    at = Leaf("IN", "at", ((id(when), "at"),))
    hour = Leaf("CD", when.hour.english, ((id(when), "hour"),))
    relation = ((id(when), "relation"),)
    if when.relation == "full":
        return Branch("PP", [at, Branch("NP", [hour, Leaf("RB", "o'clock", relation)])])
    fraction = Leaf("NN", "half" if when.relation == "half" else "quarter", ((id(when), "fraction"),))
    tail = Branch("PP", [Leaf("IN", "to" if when.relation == "to" else "past", relation), Branch("NP", [hour])])
    return Branch("PP", [at, Branch("NP", [Branch("NP", [fraction]), tail])])


def _numbered(branch: Branch, node: int, most: int, right: int = 0) -> tuple[Branch, int]:
    """A copy whose leaves are numbered from the last, as German's are; what is left over shares the first."""
    children: list[Tree] = []
    for child in reversed(branch.children):
        if isinstance(child, Leaf):
            right += 1
            children.append(child._replace(keys=((node, str(min(right, most))),)))
        else:
            inner, right = _numbered(child, node, most, right)
            children.append(inner)
    return Branch(branch.label, children[::-1]), right


def parsed(line: str) -> Branch:
    """The tree that a bracketed line says."""
    stack = [Branch("", [])]
    for part in line.replace(")", " )").split():
        if part.startswith("("):
            stack.append(Branch(part[1:], []))
        elif part != ")":
            stack.append(Branch(part, []))
        else:
            done = stack.pop()
            if not stack[-1].children and not done.children and len(stack) > 1:
                done, word = stack.pop(), done.label
                stack[-1].children.append(Leaf(done.label, word))
            else:
                stack[-1].children.append(done)
    tree = stack[0].children[0]
    assert isinstance(tree, Branch)
    return tree


TIME_TREES = {time.english: parsed(time.english) for time in TIMES}


# Noun phrases --------------------------------------------------------------------------------------------


def phrase(said: Phrase, role: str) -> Branch:
    """NP (or WHNP of a question), in the role of subject or object."""
    match said:
        case NounPhrase():
            return noun_phrase(said)
        case NamePhrase():
            return Branch("NP", [Leaf("NNP", said.name.english, ((id(said), "noun"),))])
        case Pronoun():
            text = said.person.english if role == "subject" else said.person.english_object
            return Branch("NP", [Leaf("PRP", text, ((id(said), "noun"),))])
        case Both():
            word = Leaf("CC", "and", ((id(said), "and"),))
            return Branch("NP", [phrase(said.first, role), word, phrase(said.second, role)])
        case Query():
            text = "what" if not said.human else "who" if role == "subject" else "whom"
            return Branch("WHNP", [Leaf("WP", text, ((id(said), "noun"),))])
    return Branch("NP", [Leaf("PRP", "it", ((id(said), "noun"),))])


def noun_phrase(said: NounPhrase) -> Branch:
    """A noun with what comes before it and after it."""
    modifier = said.modifier
    core = Branch("NP", [*determiners(said), *inner_words(said)])
    match modifier:
        case Possessor(owner, False):
            of = Leaf("IN", "of", ((id(owner), "determiner"),))
            return Branch("NP", [core, Branch("PP", [of, phrase(owner, "object")])])
        case Description():
            word = Leaf("IN", modifier.attribute.english, ((id(modifier), "preposition"),))
            return Branch("NP", [core, Branch("PP", [word, phrase(modifier.phrase, "object")])])
        case Clause():
            return Branch("NP", [core, relative(modifier, said)])
    return core


def determiners(said: NounPhrase) -> list[Tree]:
    """The article or the like, or "the teacher's" in its place."""
    if isinstance(said.modifier, Possessor) and said.modifier.before:
        owner = phrase(said.modifier.owner, "object")
        last = owner.children[-1]
        assert isinstance(last, Leaf)
        mark = "'" if last.tag == "NNS" and last.text.endswith("s") else "'s"
        return [Branch("NP", [*owner.children, Leaf("POS", mark, last.keys)])]
    if not said.determiner:
        return []
    text = said.determiner.english
    if text == "a":
        text = morphology.indefinite(first_word(inner_words(said)[0]))
    return [Leaf(said.determiner.tag, text, ((id(said), "determiner"),))]


def inner_words(said: NounPhrase) -> list[Tree]:
    """Number, adjective, noun."""
    words: list[Tree] = []
    if said.numeral:
        words.append(Leaf("CD", said.numeral.english, ((id(said), "numeral"),)))
    if said.quality:
        described = quality(said.quality)
        words += [described] if said.quality.very else described.children
    tag = "NNS" if said.number == "plural" else "NN"
    words.append(Leaf(tag, morphology.noun(said.noun, said.number), ((id(said), "noun"),)))
    return words


def first_word(tree: Tree) -> str:
    """The leftmost word of a tree."""
    while isinstance(tree, Branch):
        tree = tree.children[0]
    return tree.text


def quality(said: Quality) -> Branch:
    """ADJP: an adjective, with "very" or without."""
    very: list[Tree] = [Leaf("RB", "very", ((id(said), "very"),))] if said.very else []
    return Branch("ADJP", [*very, Leaf("JJ", said.adjective.english, ((id(said), "adjective"),))])


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
