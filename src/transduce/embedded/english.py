"""Realises abstract sentences in English, as Penn-style trees.

Each function is named after the constituent that it builds from a node of the abstract sentence.
"""

from typing import NamedTuple, TypeAlias

from transduce.embedded import english_inflection
from transduce.embedded.lexicon import TIMES
from transduce.embedded.syntax import (
    END,
    AdjectivePhrase,
    Agreement,
    Clause,
    ClockTime,
    Coordination,
    EventTime,
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

# Trees ----------------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A word with its part-of-speech tag and its alignment keys."""

    tag: str
    text: str
    keys: tuple[Key, ...] = ()


class Branch(NamedTuple):
    """A constituent, which consists of a label and child trees."""

    label: str
    children: "list[Tree]"


Tree: TypeAlias = Leaf | Branch


def make_leaf(tag: str, text: str, node: object, role: str) -> Leaf:
    """Returns a leaf that is aligned to the German words with the same node and role."""
    return Leaf(tag, text, ((id(node), role),))


def leaves_of(tree: Tree) -> list[Leaf]:
    """Returns the leaves of a tree from left to right."""
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for child in tree.children for leaf in leaves_of(child)]


def first_leaf(tree: Tree) -> Leaf:
    """Returns the leftmost leaf of a tree."""
    while isinstance(tree, Branch):
        tree = tree.children[0]
    return tree


def bracketed(tree: Tree) -> str:
    """Returns the bracketed notation of a tree, on one line."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.text})"
    return f"({tree.label} {' '.join([bracketed(child) for child in tree.children])})"


def parse_brackets(line: str) -> Tree:
    """Parses a tree in bracketed notation; its leaves have no alignment keys."""
    stack: list[list[str | Tree]] = [[]]
    for part in line.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            stack.append([])
        elif part == ")":
            label, *parts = stack.pop()
            assert isinstance(label, str)
            children = [child for child in parts if not isinstance(child, str)]
            stack[-1].append(Branch(label, children) if children else Leaf(label, str(parts[0])))
        else:
            stack[-1].append(part)
    (tree,) = stack[0]
    assert not isinstance(tree, str)
    return tree


TIME_TREES = {time.english: parse_brackets(time.english) for time in TIMES}

# Noun phrases --------------------------------------------------------------------------------------------


def phrase(node: Phrase, role: str) -> Branch:
    """Builds the NP of a phrase, or the WHNP of an interrogative pronoun.

    `role` is "subject" or "object" and determines the form of a pronoun.
    """
    match node:
        case NounPhrase():
            return noun_phrase(node)
        case NamePhrase():
            return Branch("NP", [make_leaf("NNP", node.name.english, node, "noun")])
        case Pronoun():
            text = node.pronoun.english if role == "subject" else node.pronoun.english_object
            return Branch("NP", [make_leaf("PRP", text, node, "noun")])
        case Coordination():
            conjunction = make_leaf("CC", "and", node, "and")
            return Branch("NP", [phrase(node.first, role), conjunction, phrase(node.second, role)])
        case InterrogativePronoun():
            text = "what" if not node.human else "who" if role == "subject" else "whom"
            return Branch("WHNP", [make_leaf("WP", text, node, "noun")])
    return Branch("NP", [make_leaf("PRP", "it", node, "noun")])


def noun_phrase(node: NounPhrase) -> Branch:
    """Builds the NP of a noun with its determiner, numeral, adjective and modifier.

    A possessor such as "the teacher's" replaces the determiner.
    """
    words: list[Tree] = []
    if node.numeral:
        words.append(make_leaf("CD", node.numeral.english, node, "numeral"))
    if node.adjective_phrase:
        branch = adjective_phrase(node.adjective_phrase)
        words += [branch] if node.adjective_phrase.very else branch.children
    plural = node.number == "plural"
    text = node.noun.english_plural if plural else node.noun.english
    words.append(make_leaf("NNS" if plural else "NN", text, node, "noun"))
    modifier = node.modifier
    if isinstance(modifier, Possessor) and modifier.before:
        names = phrase(modifier.owner, "object").children
        last = names[-1]
        assert isinstance(last, Leaf)
        mark = "'" if last.tag == "NNS" and last.text.endswith("s") else "'s"
        words.insert(0, Branch("NP", [*names, Leaf("POS", mark, last.keys)]))
    elif node.determiner:
        text = node.determiner.english
        if text == "a":
            text = english_inflection.indefinite_article(first_leaf(words[0]).text)
        words.insert(0, make_leaf(node.determiner.tag, text, node, "determiner"))
    core = Branch("NP", words)
    match modifier:
        case Possessor(owner, False):
            of = make_leaf("IN", "of", owner, "determiner")
            return Branch("NP", [core, Branch("PP", [of, phrase(owner, "object")])])
        case PrepositionalModifier():
            preposition = make_leaf("IN", modifier.attribute.english, modifier, "preposition")
            return Branch("NP", [core, Branch("PP", [preposition, phrase(modifier.phrase, "object")])])
        case Clause():
            return Branch("NP", [core, relative(modifier, node)])
    return core


def adjective_phrase(node: AdjectivePhrase) -> Branch:
    """Builds the ADJP of an adjective, with "very" if the phrase has it."""
    very: list[Tree] = [make_leaf("RB", "very", node, "very")] if node.very else []
    return Branch("ADJP", [*very, make_leaf("JJ", node.adjective.english, node, "adjective")])


# Adverbials ----------------------------------------------------------------------------------------------


def place(node: Place) -> Branch:
    """Builds the PP of a place or a direction."""
    preposition = make_leaf("TO" if node.english == "to" else "IN", node.english, node, "preposition")
    return Branch("PP", [preposition, phrase(node.phrase, "object")])


def time(node: TimeExpression | ClockTime | EventTime) -> Tree:
    """Builds an adverbial of time."""
    match node:
        case TimeExpression():
            tree, _ = _with_keys(TIME_TREES[node.time.english], node, node.time.aligned)
            return tree
        case EventTime():
            preposition = make_leaf("IN", node.english, node, "preposition")
            return Branch("PP", [preposition, phrase(node.phrase, "object")])
    # "at half past seven", "at quarter to three", "at five o'clock"
    at = make_leaf("IN", "at", node, "at")
    hour = make_leaf("CD", node.hour.english, node, "hour")
    if node.relation == "full":
        return Branch("PP", [at, Branch("NP", [hour, make_leaf("RB", "o'clock", node, "relation")])])
    fraction = make_leaf("NN", "half" if node.relation == "half" else "quarter", node, "fraction")
    relation = make_leaf("IN", "to" if node.relation == "to" else "past", node, "relation")
    return Branch("PP", [at, Branch("NP", [Branch("NP", [fraction]), Branch("PP", [relation, Branch("NP", [hour])])])])


def _with_keys(tree: Tree, node: TimeExpression, aligned: int, right: int = 0) -> tuple[Tree, int]:
    """Copies a tree and numbers its leaves from the right, as the German words are numbered.

    The first `aligned` leaves from the right have numbers of their own, and all others share the last number. `right`
    is the number of leaves that have been counted so far. Returns the copy and the new number of leaves.
    """
    if isinstance(tree, Leaf):
        return make_leaf(tree.tag, tree.text, node, str(min(right + 1, aligned))), right + 1
    children: list[Tree] = []
    for child in reversed(tree.children):
        numbered, right = _with_keys(child, node, aligned, right)
        children.append(numbered)
    return Branch(tree.label, children[::-1]), right


# Sentences ------------------------------------------------------------------------------------------------


def sentence(node: Sentence) -> Branch:
    """Builds the tree of a sentence, including the punctuation mark at its end."""
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
    """Builds the S of a clause, which consists of an optional fronted adverbial, the subject and the verb phrase."""
    adjuncts, opening = clause.adjuncts, list[Tree]()
    match adjuncts.front:
        case "time" if adjuncts.time:
            opening.append(time(adjuncts.time))
        case "place" if adjuncts.place:
            opening.append(place(adjuncts.place))
        case "remark" if adjuncts.remark:
            opening.append(Branch("ADVP", [make_leaf("RB", adjuncts.remark.english, adjuncts, "remark")]))
    if opening:
        opening.append(Leaf(",", ","))
    agreement = agreement_of(clause.subject)
    return Branch("S", [*opening, phrase(clause.subject, "subject"), verb_phrase(clause, agreement)])


def subordinate(node: SubordinateClause) -> Branch:
    """Builds the SBAR of a clause with its conjunction."""
    if node.english == "when":
        opening: Tree = Branch("WHADVP", [make_leaf("WRB", node.english, node, "conjunction")])
    else:
        opening = make_leaf("IN", node.english, node, "conjunction")
    return Branch("SBAR", [opening, statement(node.clause)])


# Questions -----------------------------------------------------------------------------------------------


def question(clause: Clause) -> Branch:
    """Builds an SBARQ if the question begins with an interrogative, or an SQ otherwise."""
    end = Leaf(".", "?", (END,))
    agreement = agreement_of(clause.subject)
    if is_interrogative(clause.subject):
        opening = Branch("WHNP", phrase(clause.subject, "subject").children)
        return Branch("SBARQ", [opening, Branch("SQ", [verb_phrase(clause, agreement)]), end])
    if adverb := clause.adjuncts.question:
        opening = Branch("WHADVP", [make_leaf("WRB", adverb.english, clause, "question")])
        return Branch("SBARQ", [opening, inverted(clause, agreement), end])
    for number, filler in enumerate(clause.objects):
        if is_interrogative(filler):
            words = Branch("WHNP", phrase(filler, "object").children)
            opening = _with_preposition(clause, number, words, "WHPP")
            return Branch("SBARQ", [opening, inverted(clause, agreement), end])
    return Branch("SQ", [*inverted(clause, agreement).children, end])


def _with_preposition(clause: Clause, number: int, words: Branch, label: str) -> Branch:
    """Returns an object in a PP with the preposition of its slot, or the object alone if the slot has no preposition.

    A recipient that is fronted (`label` is "WHPP") takes "to" even if its slot has no preposition.
    """
    slot = clause.verb.slots[number]
    fronted_recipient = label == "WHPP" and len(clause.verb.slots) > 1 and slot.case == "dative"
    preposition = slot.english or ("to" if fronted_recipient else "")
    if not preposition:
        return words
    keys = ((id(clause), f"preposition{number}"),) if slot.german else first_leaf(words).keys
    return Branch(label, [Leaf("TO" if preposition == "to" else "IN", preposition, keys), words])


# Verb phrases --------------------------------------------------------------------------------------------

MODALS = ("will", "can", "could", "must", "should", "may")
PARTICLES = {"asleep": ("ADJP", "JJ"), "forward": ("ADVP", "RB")}  # any other particle is a PRT
FINITE_BE = {"VBP": ("am", "is", "are"), "VBZ": ("am", "is", "are"), "VBD": ("was", "was", "were")}


class Link(NamedTuple):
    """A verb in a chain of verbs, and the tag that it requires of the next verb.

    The tag "TO" stands for "to" followed by the base form.
    """

    leaf: Leaf
    next_tag: str


def verb_chain(clause: Clause, agreement: Agreement, inverted: bool = False) -> list[Link]:
    """Returns the verbs of a clause from the finite verb to the main verb.

    The chain begins with "do" if a question or "not" requires an auxiliary and there is no other.
    """
    form, verb = clause.form, clause.verb
    auxiliaries: list[tuple[str, str, str]] = []  # word, tag of the next verb, role
    if form.modal:
        word, _, to = form.modal.english.partition(" ")
        auxiliaries.append((word, "TO" if to else "VB", "finite"))
    if form.tense == "future":
        auxiliaries.append(("will", "VB", "finite"))
    if form.tense in ("perfect", "pluperfect"):
        auxiliaries.append(("have", "VBN", "finite"))
    if form.progressive:
        auxiliaries.append(("be", "VBG", "finite"))
    if form.passive:
        auxiliaries.append(("be", "VBN", "passive" if auxiliaries else "finite"))
    lexical = auxiliaries[0][1] == "TO" if auxiliaries else verb.english != "be"
    if lexical and (inverted or form.negated):
        auxiliaries.insert(0, ("do", "VB", "finite"))
    if form.tense == "infinitive":
        tag = "VB"
    elif form.tense in ("past", "pluperfect"):
        tag = "VBD"
    else:
        tag = "VBZ" if agreement == Agreement.SINGULAR else "VBP"
    links: list[Link] = []
    for word, following, role in auxiliaries:
        leaf = make_leaf("MD" if word in MODALS else tag, verb_form(word, tag, agreement), clause, role)
        links.append(Link(leaf, following))
        tag = "VB" if following == "TO" else following
    keys = ((id(clause), "verb"),) if links else ((id(clause), "finite"), (id(clause), "verb"))
    text = verb_form(verb.english, tag, agreement, verb.past, verb.participle)
    return [*links, Link(Leaf(tag, text, keys), "")]


def verb_form(word: str, tag: str, agreement: Agreement, past: str = "", participle: str = "") -> str:
    """Returns the form of a verb for a tag; `agreement` only affects "be"."""
    if word in MODALS:
        return word
    if word == "be" and tag in FINITE_BE:
        return FINITE_BE[tag][agreement]
    return english_inflection.verb(word, tag, past, participle)


def verb_phrase(clause: Clause, agreement: Agreement) -> Branch:
    """Builds nested VPs, of which the outermost contains the finite verb."""
    links = verb_chain(clause, agreement)
    middle = _negation_and_frequency(clause)
    if len(links) == 1 and clause.verb.english != "be":
        return Branch("VP", [*middle, links[0].leaf, *completions(clause)])
    return _nested(links, middle, clause)


def _negation_and_frequency(clause: Clause) -> list[Tree]:
    """Returns "not" and the adverb of frequency, both of which stand next to the finite verb."""
    words: list[Tree] = []
    if clause.form.negated:
        words.append(make_leaf("RB", "not", clause, "not"))
    if frequency := clause.adjuncts.frequency:
        words.append(Branch("ADVP", [make_leaf("RB", frequency.english, clause, "frequency")]))
    return words


def _nested(links: list[Link], middle: list[Tree], clause: Clause) -> Branch:
    """Builds the nested VPs of a chain of verbs; `middle` follows the first verb."""
    (leaf, following), *rest = links
    if not rest:
        return Branch("VP", [leaf, *middle, *completions(clause)])
    inner = _nested(rest, [], clause)
    if following == "TO":
        inner = Branch("S", [Branch("VP", [Leaf("TO", "to", leaf.keys), inner])])
    return Branch("VP", [leaf, *middle, inner])


def inverted(clause: Clause, agreement: Agreement) -> Branch:
    """Builds an SQ in which the finite verb precedes the subject."""
    (leaf, _), *rest = verb_chain(clause, agreement, inverted=True)
    head: list[Tree] = [leaf, phrase(clause.subject, "subject"), *_negation_and_frequency(clause)]
    return Branch("SQ", [*head, *([_nested(rest, [], clause)] if rest else completions(clause))])


def completions(clause: Clause) -> list[Tree]:
    """Returns the constituents that follow the main verb.

    They are in this order: particle, objects, predicative adjective or required place, agent, manner, place, time,
    clause. The particle follows the objects if the first of them is a pronoun without a preposition.
    """
    verb, adjuncts, complement = clause.verb, clause.adjuncts, clause.complement
    trees: list[Tree] = [
        _with_preposition(clause, number, phrase(filler, "object"), "PP")
        for number, filler in enumerate(clause.objects)
        if not isinstance(filler, Gap) and not is_interrogative(filler)
    ]
    if len(trees) == 2 and verb.slots[0].english == "to":  # a recipient with "to" comes last
        trees.reverse()
    if verb.particle:
        label, tag = PARTICLES.get(verb.particle, ("PRT", "RP"))
        particle: Tree = Branch(label, [make_leaf(tag, verb.particle, clause, "verb")])
        follows = bool(clause.objects) and isinstance(clause.objects[0], Pronoun) and not verb.slots[0].english
        trees.insert(len(trees) if follows else 0, particle)
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


# Relative clauses ----------------------------------------------------------------------------------------


def relative(clause: Clause, antecedent: NounPhrase) -> Branch:
    """Builds the SBAR of a relative clause from the relative pronoun and the clause with the gap."""
    human = "person" in antecedent.noun.classes

    def pronoun(word: str) -> Branch:
        return Branch("WHNP", [make_leaf("WDT" if word in ("that", "which") else "WP", word, clause, "gap")])

    if isinstance(clause.subject, Gap):
        body = Branch("S", [verb_phrase(clause, agreement_of(antecedent))])
        return Branch("SBAR", [pronoun("who" if human else "that"), body])
    number = next(number for number, filler in enumerate(clause.objects) if isinstance(filler, Gap))
    thing = "which" if clause.verb.slots[number].english else "that"
    head = _with_preposition(clause, number, pronoun("whom" if human else thing), "WHPP")
    return Branch("SBAR", [head, statement(clause)])
