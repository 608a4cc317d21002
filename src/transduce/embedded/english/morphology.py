"""English words in their forms."""

from functools import cache

from transduce.embedded.lexicon_entries import Noun, Number

IRREGULAR = {
    "be": {"VBZ": "is", "VBP": "are", "VBD": "was", "VBN": "been"},
    "have": {"VBZ": "has", "VBD": "had", "VBN": "had"},
    "do": {"VBZ": "does", "VBD": "did", "VBN": "done"},
}
DOUBLING = ("begin", "cancel", "forget", "travel")
CONSONANTAL_VOWEL = ("uni", "use", "eu")
VOWEL_IN_SOUND = ("hour", "honest")


def noun(word: Noun, number: Number) -> str:
    """Singular or plural."""
    return word.english_plural if number == "plural" else word.english


def indefinite(following: str) -> str:
    """ "a" or "an", by the sound of the next word."""
    vowel = following[0] in "aeiou" and not following.startswith(CONSONANTAL_VOWEL)
    return "an" if vowel or following.startswith(VOWEL_IN_SOUND) else "a"


@cache
def verb(word: str, tag: str, past: str = "", participle: str = "") -> str:
    """A verb in the form that a Penn tag names; `past` and `participle` where they are not regular."""
    if tag in IRREGULAR.get(word, {}):
        return IRREGULAR[word][tag]
    if tag == "VBZ":
        return third_person(word)
    if tag == "VBG":
        return gerund(word)
    if tag in ("VBD", "VBN"):
        return (past if tag == "VBD" else participle) or regular_past(word)
    return word


def third_person(word: str) -> str:
    """ "reads", "watches", "cries"."""
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return word + "es"
    return word[:-1] + "ies" if _consonant_y(word) else word + "s"


def gerund(word: str) -> str:
    """ "reading", "writing", "running"."""
    if word.endswith("e") and word != "be" and not word.endswith("ee"):
        return word[:-1] + "ing"
    return _doubled(word) + "ing"


def regular_past(word: str) -> str:
    """ "worked", "danced", "cried", "stopped"."""
    if word.endswith("e"):
        return word + "d"
    return word[:-1] + "ied" if _consonant_y(word) else _doubled(word) + "ed"


def _consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def _doubled(word: str) -> str:
    """The stem before a vowel: one consonant after one stressed vowel is doubled."""
    short = word[-1] not in "aeiouwxy" and word[-2] in "aeiou" and word[-3:-2] not in tuple("aeiou")
    return word + word[-1] if short and (sum(c in "aeiou" for c in word) == 1 or word in DOUBLING) else word
