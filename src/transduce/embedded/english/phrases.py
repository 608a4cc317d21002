"""English noun phrases and adverbials."""

from transduce.embedded.english import morphology
from transduce.embedded.english.tree import Branch, Leaf, Tree, first_leaf, parsed
from transduce.embedded.lexicon import TIMES
from transduce.embedded.syntax import (
    Adjuncts,
    Both,
    Clause,
    Clock,
    Description,
    During,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Query,
    SetTime,
)

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
            # Noun phrases and clauses contain each other, so one of the two modules must wait for the other.
            from transduce.embedded.english.clauses import relative

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
        text = morphology.indefinite(first_leaf(inner_words(said)[0]).text)
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


def quality(said: Quality) -> Branch:
    """ADJP: an adjective, with "very" or without."""
    very: list[Tree] = [Leaf("RB", "very", ((id(said), "very"),))] if said.very else []
    return Branch("ADJP", [*very, Leaf("JJ", said.adjective.english, ((id(said), "adjective"),))])


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


def time(when: SetTime | Clock | During) -> Tree:
    """A phrase of time."""
    match when:
        case SetTime():
            tree, _ = _numbered(TIME_TREES[when.time.english], id(when), when.time.shared)
            return tree
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


def _numbered(tree: Tree, node: int, most: int, right: int = 0) -> tuple[Tree, int]:
    """A copy whose leaves are numbered from the last, as German's are; what is left over shares the first."""
    if isinstance(tree, Leaf):
        return tree._replace(keys=((node, str(min(right + 1, most))),)), right + 1
    children: list[Tree] = []
    for child in reversed(tree.children):
        numbered, right = _numbered(child, node, most, right)
        children.append(numbered)
    return Branch(tree.label, children[::-1]), right


TIME_TREES = {time.english: parsed(time.english) for time in TIMES}
