"""English inflection."""

from functools import cache

IRREGULAR = {
    "be": {"VBZ": "is", "VBP": "are", "VBD": "was", "VBN": "been"},
    "have": {"VBZ": "has", "VBD": "had", "VBN": "had"},
    "do": {"VBZ": "does", "VBD": "did", "VBN": "done"},
}
DOUBLING = ("begin", "cancel", "forget", "travel")
CONSONANTAL_VOWEL = ("uni", "use", "eu")
SILENT_H = ("hour", "honest")


def indefinite_article(following: str) -> str:
    """Returns "a" or "an", by the sound of the next word."""
    vowel = following[0] in "aeiou" and not following.startswith(CONSONANTAL_VOWEL)
    return "an" if vowel or following.startswith(SILENT_H) else "a"


@cache
def verb(word: str, tag: str, past: str = "", participle: str = "") -> str:
    """Inflects a verb to the form of a Penn tag; `past` and `participle` are its irregular forms."""
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
    """Returns "reads", "watches", "cries"."""
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return word + "es"
    return word[:-1] + "ies" if _has_consonant_y(word) else word + "s"


def gerund(word: str) -> str:
    """Returns "reading", "writing", "running"."""
    if word.endswith("e") and word != "be" and not word.endswith("ee"):
        return word[:-1] + "ing"
    return _doubled_stem(word) + "ing"


def regular_past(word: str) -> str:
    """Returns "worked", "danced", "cried", "stopped"."""
    if word.endswith("e"):
        return word + "d"
    return word[:-1] + "ied" if _has_consonant_y(word) else _doubled_stem(word) + "ed"


def _has_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def _doubled_stem(word: str) -> str:
    """Returns the stem before a vowel: a single consonant after a single stressed vowel is doubled."""
    short = word[-1] not in "aeiouwxy" and word[-2] in "aeiou" and word[-3:-2] not in tuple("aeiou")
    return word + word[-1] if short and (sum(c in "aeiou" for c in word) == 1 or word in DOUBLING) else word
