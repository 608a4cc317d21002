"""English noun phrases and adverbials."""

from transduce.embedded.english import morphology
from transduce.embedded.english.tree import Branch, Leaf, Tree, first_leaf, make_leaf, parse_brackets
from transduce.embedded.lexicon import TIMES
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Adjuncts,
    Clause,
    ClockTime,
    Coordination,
    EventTime,
    InterrogativePronoun,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Pronoun,
    TimeExpression,
)

TIME_TREES = {time.english: parse_brackets(time.english) for time in TIMES}

# Noun phrases --------------------------------------------------------------------------------------------


def phrase(node: Phrase, role: str) -> Branch:
    """Returns an NP, or the WHNP of a question, in the role of subject or object."""
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
    """Returns an NP with the modifier of the noun."""
    modifier = node.modifier
    core = Branch("NP", [*determiners(node), *core_words(node)])
    match modifier:
        case Possessor(owner, False):
            of = make_leaf("IN", "of", owner, "determiner")
            return Branch("NP", [core, Branch("PP", [of, phrase(owner, "object")])])
        case PrepositionalModifier():
            preposition = make_leaf("IN", modifier.attribute.english, modifier, "preposition")
            return Branch("NP", [core, Branch("PP", [preposition, phrase(modifier.phrase, "object")])])
        case Clause():
            # Imported here because noun phrases and clauses contain each other.
            from transduce.embedded.english.clauses import relative

            return Branch("NP", [core, relative(modifier, node)])
    return core


def determiners(node: NounPhrase) -> list[Tree]:
    """Returns the determiner, or a possessor such as "the teacher's" in its place."""
    if isinstance(node.modifier, Possessor) and node.modifier.before:
        owner = phrase(node.modifier.owner, "object")
        last = owner.children[-1]
        assert isinstance(last, Leaf)
        mark = "'" if last.tag == "NNS" and last.text.endswith("s") else "'s"
        return [Branch("NP", [*owner.children, Leaf("POS", mark, last.keys)])]
    if not node.determiner:
        return []
    text = node.determiner.english
    if text == "a":
        text = morphology.indefinite_article(first_leaf(core_words(node)[0]).text)
    return [make_leaf(node.determiner.tag, text, node, "determiner")]


def core_words(node: NounPhrase) -> list[Tree]:
    """Returns numeral, adjective and noun."""
    words: list[Tree] = []
    if node.numeral:
        words.append(make_leaf("CD", node.numeral.english, node, "numeral"))
    if node.adjective_phrase:
        branch = adjective_phrase(node.adjective_phrase)
        words += [branch] if node.adjective_phrase.very else branch.children
    plural = node.number == "plural"
    text = node.noun.english_plural if plural else node.noun.english
    words.append(make_leaf("NNS" if plural else "NN", text, node, "noun"))
    return words


def adjective_phrase(node: AdjectivePhrase) -> Branch:
    """Returns the ADJP of an adjective, with or without "very"."""
    very: list[Tree] = [make_leaf("RB", "very", node, "very")] if node.very else []
    return Branch("ADJP", [*very, make_leaf("JJ", node.adjective.english, node, "adjective")])


# Adverbials ----------------------------------------------------------------------------------------------


def fronted(adjuncts: Adjuncts) -> Tree | None:
    """Returns the adverbial before the subject."""
    match adjuncts.front:
        case "time" if adjuncts.time:
            return time(adjuncts.time)
        case "place" if adjuncts.place:
            return place(adjuncts.place)
        case "remark" if adjuncts.remark:
            return Branch("ADVP", [make_leaf("RB", adjuncts.remark.english, adjuncts, "remark")])
    return None


def place(node: Place) -> Branch:
    """Returns the PP of a place or a direction."""
    preposition = make_leaf("TO" if node.english == "to" else "IN", node.english, node, "preposition")
    return Branch("PP", [preposition, phrase(node.phrase, "object")])


def time(node: TimeExpression | ClockTime | EventTime) -> Tree:
    """Returns an adverbial of time."""
    match node:
        case TimeExpression():
            tree, _ = _with_keys(TIME_TREES[node.time.english], node, node.time.aligned)
            return tree
        case EventTime():
            preposition = make_leaf("IN", node.english, node, "preposition")
            return Branch("PP", [preposition, phrase(node.phrase, "object")])
    return clock(node)


def clock(node: ClockTime) -> Branch:
    """Returns "at half past seven", "at quarter to three", "at five o'clock"."""
    at = make_leaf("IN", "at", node, "at")
    hour = make_leaf("CD", node.hour.english, node, "hour")
    if node.relation == "full":
        return Branch("PP", [at, Branch("NP", [hour, make_leaf("RB", "o'clock", node, "relation")])])
    fraction = make_leaf("NN", "half" if node.relation == "half" else "quarter", node, "fraction")
    relation = make_leaf("IN", "to" if node.relation == "to" else "past", node, "relation")
    return Branch("PP", [at, Branch("NP", [Branch("NP", [fraction]), Branch("PP", [relation, Branch("NP", [hour])])])])


def _with_keys(tree: Tree, node: TimeExpression, aligned: int, right: int = 0) -> tuple[Tree, int]:
    """Returns a copy whose leaves are numbered from the right, as in German, and the number of leaves so far.

    Leaves beyond `aligned` share the last number.
    """
    if isinstance(tree, Leaf):
        return make_leaf(tree.tag, tree.text, node, str(min(right + 1, aligned))), right + 1
    children: list[Tree] = []
    for child in reversed(tree.children):
        numbered, right = _with_keys(child, node, aligned, right)
        children.append(numbered)
    return Branch(tree.label, children[::-1]), right
