"""Inflects English verbs and chooses between the indefinite articles."""

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
    """Returns "a" or "an", depending on the sound with which the following word begins."""
    vowel = following[0] in "aeiou" and not following.startswith(CONSONANTAL_VOWEL)
    return "an" if vowel or following.startswith(SILENT_H) else "a"


@cache
def verb(word: str, tag: str, past: str = "", participle: str = "") -> str:
    """Inflects a verb for a Penn tag; `past` and `participle` are its irregular forms, or empty if it is regular."""
    if tag in IRREGULAR.get(word, {}):
        return IRREGULAR[word][tag]
    consonant_y = word.endswith("y") and word[-2] not in "aeiou"
    # Before a vowel, a single consonant after a single stressed vowel is doubled.
    short = word[-1] not in "aeiouwxy" and word[-2] in "aeiou" and word[-3:-2] not in tuple("aeiou")
    is_doubled = short and (sum(letter in "aeiou" for letter in word) == 1 or word in DOUBLING)
    before_vowel = word + word[-1] if is_doubled else word
    match tag:
        case "VBZ":  # reads, watches, cries
            if word.endswith(("s", "x", "z", "ch", "sh", "o")):
                return word + "es"
            return word[:-1] + "ies" if consonant_y else word + "s"
        case "VBG":  # reading, writing, running
            loses_e = word.endswith("e") and word != "be" and not word.endswith("ee")
            return (word[:-1] if loses_e else before_vowel) + "ing"
        case "VBD" | "VBN":  # worked, danced, cried, stopped
            if irregular := past if tag == "VBD" else participle:
                return irregular
            if word.endswith("e"):
                return word + "d"
            return word[:-1] + "ied" if consonant_y else before_vowel + "ed"
    return word
