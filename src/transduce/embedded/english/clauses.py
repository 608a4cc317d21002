"""English clauses and sentences: verb phrases, questions, relative clauses."""

from typing import NamedTuple

from transduce.embedded.english import morphology
from transduce.embedded.english.phrases import adjective_phrase, fronted, phrase, place, time
from transduce.embedded.english.tree import Branch, Leaf, Tree, first_leaf, make_leaf
from transduce.embedded.syntax import (
    END,
    AdjectivePhrase,
    Agreement,
    Clause,
    Gap,
    NounPhrase,
    Place,
    Pronoun,
    Sentence,
    SubordinateClause,
    VerbForm,
    agreement_of,
    is_interrogative,
)


def sentence(node: Sentence) -> Branch:
    """Returns the tree of a sentence."""
    if node.mood == "question":
        return question(node.clause)
    end = Leaf(".", ".", (END,))
    first = statement(node.clause)
    if node.conjunction and node.second:
        comma = make_leaf(",", ",", node.clause, "comma")
        conjunction = make_leaf("CC", node.conjunction[0], node, "conjunction")
        return Branch("S", [first, comma, conjunction, statement(node.second), end])
    if not node.subordinate:
        return Branch("S", [*first.children, end])
    below = subordinate(node.subordinate)
    if node.subordinate_first:
        return Branch("S", [below, make_leaf(",", ",", node.subordinate, "comma"), *first.children, end])
    *head, verbs = first.children
    assert isinstance(verbs, Branch)
    return Branch("S", [*head, Branch("VP", [*verbs.children, below]), end])


def statement(clause: Clause) -> Branch:
    """Returns S: the opening adverbial, the subject, the verb phrase."""
    front = fronted(clause.adjuncts)
    opening: list[Tree] = [front, Leaf(",", ",")] if front else []
    agreement = agreement_of(clause.subject)
    return Branch("S", [*opening, phrase(clause.subject, "subject"), verb_phrase(clause, agreement)])


def subordinate(node: SubordinateClause) -> Branch:
    """Returns SBAR: the conjunction and its clause."""
    if node.english == "when":
        opening: Tree = Branch("WHADVP", [make_leaf("WRB", node.english, node, "conjunction")])
    else:
        opening = make_leaf("IN", node.english, node, "conjunction")
    return Branch("SBAR", [opening, statement(node.clause)])


# Questions -----------------------------------------------------------------------------------------------


def question(clause: Clause) -> Branch:
    """Returns SQ, or SBARQ where an interrogative opens the question."""
    end = Leaf(".", "?", (END,))
    agreement = agreement_of(clause.subject)
    if is_interrogative(clause.subject):
        opening = Branch("WHNP", phrase(clause.subject, "subject").children)
        return Branch("SBARQ", [opening, Branch("SQ", [verb_phrase(clause, agreement)]), end])
    if interrogative := interrogative_opening(clause):
        return Branch("SBARQ", [interrogative, inverted(clause, agreement), end])
    return Branch("SQ", [*inverted(clause, agreement).children, end])


def interrogative_opening(clause: Clause) -> Branch | None:
    """Returns the interrogative adverb or object; None in a yes/no question."""
    if adverb := clause.adjuncts.question:
        return Branch("WHADVP", [make_leaf("WRB", adverb.english, clause, "question")])
    for number, filler in enumerate(clause.objects):
        if is_interrogative(filler):
            words = Branch("WHNP", phrase(filler, "object").children)
            return _with_preposition(clause, number, words, "WHPP")
    return None


def _with_preposition(clause: Clause, number: int, words: Branch, label: str) -> Branch:
    """Returns an object with the preposition of its slot, if there is one; a fronted recipient takes "to"."""
    slot = clause.verb.slots[number]
    fronted_recipient = label == "WHPP" and len(clause.verb.slots) > 1 and slot.case == "dative"
    preposition = slot.english or ("to" if fronted_recipient else "")
    if not preposition:
        return words
    keys = ((id(clause), f"preposition{number}"),) if slot.german else first_leaf(words).keys
    return Branch(label, [Leaf("TO" if preposition == "to" else "IN", preposition, keys), words])


# Verb phrases --------------------------------------------------------------------------------------------

MODALS = ("will", "can", "could", "must", "should", "may")
PARTICLES = {"asleep": ("ADJP", "JJ"), "forward": ("ADVP", "RB")}  # any other is PRT
FINITE_BE = {"VBP": ("am", "is", "are"), "VBZ": ("am", "is", "are"), "VBD": ("was", "was", "were")}


class Auxiliary(NamedTuple):
    """An auxiliary, the tag that it requires of the next verb ("TO": "to" and the base form), and its role."""

    word: str
    next_tag: str
    role: str


def auxiliaries(form: VerbForm) -> list[Auxiliary]:
    """Returns the auxiliaries of a form, without "do"."""
    chain: list[Auxiliary] = []
    if form.modal:
        word, _, to = form.modal.english.partition(" ")
        chain.append(Auxiliary(word, "TO" if to else "VB", "finite"))
    if form.tense == "future":
        chain.append(Auxiliary("will", "VB", "finite"))
    if form.tense in ("perfect", "pluperfect"):
        chain.append(Auxiliary("have", "VBN", "finite"))
    if form.progressive:
        chain.append(Auxiliary("be", "VBG", "finite"))
    if form.passive:
        chain.append(Auxiliary("be", "VBN", "passive" if chain else "finite"))
    return chain


class Link(NamedTuple):
    """A verb of a chain, and the tag that it requires of the next one."""

    leaf: Leaf
    next_tag: str


def verb_chain(clause: Clause, agreement: Agreement, inverted: bool = False) -> list[Link]:
    """Returns the verbs from the finite one to the main one, with "do" where a question or "not" needs it."""
    chain = auxiliaries(clause.form)
    lexical = chain[0].next_tag == "TO" if chain else clause.verb.english != "be"
    if lexical and (inverted or clause.form.negated):
        chain.insert(0, Auxiliary("do", "VB", "finite"))
    tag = finite_tag(clause.form, agreement)
    links: list[Link] = []
    for word, following, role in chain:
        leaf = make_leaf("MD" if word in MODALS else tag, verb_form(word, tag, agreement), clause, role)
        links.append(Link(leaf, following))
        tag = "VB" if following == "TO" else following
    verb = clause.verb
    keys = ((id(clause), "verb"),) if links else ((id(clause), "finite"), (id(clause), "verb"))
    text = verb_form(verb.english, tag, agreement, verb.past, verb.participle)
    return [*links, Link(Leaf(tag, text, keys), "")]


def verb_form(word: str, tag: str, agreement: Agreement, past: str = "", participle: str = "") -> str:
    """Returns a verb in the form of a tag; `agreement` is for "be"."""
    if word in MODALS:
        return word
    if word == "be" and tag in FINITE_BE:
        return FINITE_BE[tag][agreement]
    return morphology.verb(word, tag, past, participle)


def finite_tag(form: VerbForm, agreement: Agreement) -> str:
    """Returns the tag of the first verb: infinitive, past, or present in agreement with the subject."""
    if form.tense == "infinitive":
        return "VB"
    past = form.tense in ("past", "pluperfect")
    return "VBD" if past else "VBZ" if agreement == Agreement.SINGULAR else "VBP"


def verb_phrase(clause: Clause, agreement: Agreement) -> Branch:
    """Returns nested VPs, the finite verb outermost."""
    links = verb_chain(clause, agreement)
    middle = _negation_and_frequency(clause)
    if len(links) == 1 and clause.verb.english != "be":
        return Branch("VP", [*middle, links[0].leaf, *completions(clause)])
    return _nested(links, middle, clause)


def _negation_and_frequency(clause: Clause) -> list[Tree]:
    """Returns "not" and the adverb of frequency, which stand beside the finite verb."""
    words: list[Tree] = []
    if clause.form.negated:
        words.append(make_leaf("RB", "not", clause, "not"))
    if frequency := clause.adjuncts.frequency:
        words.append(Branch("ADVP", [make_leaf("RB", frequency.english, clause, "frequency")]))
    return words


def _nested(links: list[Link], middle: list[Tree], clause: Clause) -> Branch:
    """Returns the VP of a chain of verbs; `middle` follows the first one."""
    (leaf, following), *rest = links
    if not rest:
        return Branch("VP", [leaf, *middle, *completions(clause)])
    inner = _nested(rest, [], clause)
    if following == "TO":
        inner = Branch("S", [Branch("VP", [Leaf("TO", "to", leaf.keys), inner])])
    return Branch("VP", [leaf, *middle, inner])


def inverted(clause: Clause, agreement: Agreement) -> Branch:
    """Returns SQ: the finite verb before its subject."""
    (leaf, _), *rest = verb_chain(clause, agreement, inverted=True)
    head: list[Tree] = [leaf, phrase(clause.subject, "subject"), *_negation_and_frequency(clause)]
    return Branch("SQ", [*head, *([_nested(rest, [], clause)] if rest else completions(clause))])


def completions(clause: Clause) -> list[Tree]:
    """Returns what follows the main verb: particle, objects, agent, manner, place, time, clause."""
    trees = objects(clause)
    adjuncts, complement = clause.adjuncts, clause.complement
    if isinstance(complement, AdjectivePhrase):
        trees.append(adjective_phrase(complement))
    if isinstance(complement, Place):
        trees.append(place(complement))
    if clause.agent:
        trees.append(Branch("PP", [make_leaf("IN", "by", clause, "by"), phrase(clause.agent, "object")]))
    if adjuncts.manner:
        trees.append(Branch("ADVP", [make_leaf("RB", adjuncts.manner.english, clause, "manner")]))
    if adjuncts.place and adjuncts.front != "place":
        trees.append(place(adjuncts.place))
    if adjuncts.time and adjuncts.front != "time":
        trees.append(time(adjuncts.time))
    if isinstance(complement, SubordinateClause):
        trees.append(subordinate(complement))
    if isinstance(complement, Clause):
        to = make_leaf("TO", "to", complement, "to")
        trees.append(Branch("S", [Branch("VP", [to, verb_phrase(complement, Agreement.SINGULAR)])]))
    return trees


def objects(clause: Clause) -> list[Tree]:
    """Returns particle and objects; a recipient with "to" comes last, the particle follows a pronoun."""
    verb = clause.verb
    trees: list[Tree] = [
        _with_preposition(clause, number, phrase(filler, "object"), "PP")
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_interrogative(filler)
    ]
    if len(trees) == 2 and verb.slots[0].english == "to":
        trees.reverse()
    if not verb.particle:
        return trees
    label, tag = PARTICLES.get(verb.particle, ("PRT", "RP"))
    particle: Tree = Branch(label, [make_leaf(tag, verb.particle, clause, "verb")])
    pronoun = bool(clause.objects) and isinstance(clause.objects[0], Pronoun) and not verb.slots[0].english
    return [*trees, particle] if pronoun else [particle, *trees]


# Relative clauses ----------------------------------------------------------------------------------------


def relative(clause: Clause, antecedent: NounPhrase) -> Branch:
    """Returns SBAR: the relative pronoun and the clause with the gap."""
    human = "person" in antecedent.noun.classes
    if isinstance(clause.subject, Gap):
        body = Branch("S", [verb_phrase(clause, agreement_of(antecedent))])
        return Branch("SBAR", [_relative_pronoun(clause, "who" if human else "that"), body])
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    thing = "which" if clause.verb.slots[number].english else "that"
    head = _with_preposition(clause, number, _relative_pronoun(clause, "whom" if human else thing), "WHPP")
    return Branch("SBAR", [head, statement(clause)])


def _relative_pronoun(clause: Clause, word: str) -> Branch:
    return Branch("WHNP", [make_leaf("WDT" if word in ("that", "which") else "WP", word, clause, "gap")])
