"""Inflects German articles, adjectives, nouns and verbs, with endings from `declensions.tsv`."""

from functools import cache

from transduce.embedded.lexicon import Adjective, Case, Determiner, Gender, Noun, Number, Verb, read_rows
from transduce.embedded.syntax import Agreement

Endings = tuple[str, ...]  # in the columns masculine, feminine, neuter and plural


def _endings(name: str) -> dict[Case, Endings]:
    """Returns a declension of `declensions.tsv`, by case; that of the definite article consists of whole words."""
    rows = [row for row in read_rows("declensions") if row["table"] == name]
    return {row["case"]: (row["masculine"], row["feminine"], row["neuter"], row["plural"]) for row in rows}


DEFINITE, RELATIVE = _endings("definite"), _endings("relative")
DETERMINER_ENDINGS = {
    "dies": _endings("like_dieser"),
    "strong": _endings("like_dieser"),
    "ein": _endings("like_ein"),
}
ADJECTIVE_ENDINGS = {
    "definite": _endings("weak"),
    "dies": _endings("weak"),
    "strong": _endings("strong"),
    "ein": _endings("mixed"),
    "": _endings("strong"),
}
CONTRACTIONS = {(row["preposition"], row["article"]): row["contraction"] for row in read_rows("contractions")}

# First person singular, third person singular, plural.
PRESENT = {
    "sein": ("bin", "ist", "sind"),
    "haben": ("habe", "hat", "haben"),
    "werden": ("werde", "wird", "werden"),
    "wissen": ("weiß", "weiß", "wissen"),
}
PAST = {"sein": "war", "haben": "hatte", "werden": "wurde"}
INSEPARABLE = ("be", "emp", "ent", "er", "ge", "miss", "ver", "zer")


def column(gender: Gender, number: Number) -> int:
    """Returns the column for a gender and number in the tables of endings."""
    return 3 if number == "plural" else "mfn".index(gender)


@cache
def determiner(word: Determiner, case: Case, column: int) -> str:
    """Declines an article or another determiner."""
    if word.declension == "definite":
        return DEFINITE[case][column]
    return word.german + DETERMINER_ENDINGS[word.declension][case][column]


@cache
def adjective(word: Adjective, declension: str, case: Case, column: int) -> str:
    """Declines an adjective that precedes a noun.

    `declension` is that of the preceding determiner, or empty if there is none.
    """
    ending = ADJECTIVE_ENDINGS[declension][case][column]
    return word.stem + (ending[1:] if word.stem.endswith("e") else ending)


@cache
def noun(word: Noun, case: Case, number: Number) -> str:
    """Declines a noun."""
    if number == "plural":
        return word.plural + ("n" if case == "dative" and not word.plural.endswith(("n", "s")) else "")
    if word.gender == "f" or case == "nominative":
        return word.german
    weak = word.gender == "m" and word.genitive.endswith("n")
    if weak or case == "genitive":
        return word.genitive or genitive(word.german)
    return word.german


def genitive(german: str) -> str:
    """Returns the regular genitive of a masculine or neuter noun.

    The ending is -es after a sibilant, and for one syllable that ends in a consonant; otherwise it is -s.
    """
    vowels = sum(letter in "aeiouäöüyAEIOUÄÖÜ" for letter in german)
    for pair in ("ai", "au", "äu", "ee", "ei", "eu", "ie", "oo", "aa", "Ei", "Au"):
        vowels -= pair in german
    sibilant = german.endswith(("s", "ß", "x", "z"))
    return german + ("es" if sibilant or (vowels == 1 and german[-1] not in "aeiouäöü") else "s")


def possessive_name(german: str) -> str:
    """Returns the genitive of a name that precedes its noun."""
    return german + ("’" if german.endswith(("s", "ß", "x", "z")) else "s")


@cache
def present(verb: str, third: str, agreement: Agreement) -> str:
    """Returns the present tense of a verb.

    `third` is the third person singular if it is irregular, otherwise empty. `agreement` selects a column of `PRESENT`.
    """
    if verb in PRESENT:
        return PRESENT[verb][agreement]
    if agreement == Agreement.PLURAL:
        return verb
    if agreement == Agreement.SINGULAR:
        return third or stem(verb) + ("et" if needs_e(stem(verb)) else "t")
    return verb[:-3] + "le" if verb.endswith("eln") else stem(verb) + "e"


@cache
def past(verb: str, strong: str, agreement: Agreement) -> str:
    """Returns the simple past of a verb; `strong` is the singular if it is irregular, otherwise empty."""
    singular = PAST.get(verb) or strong or stem(verb) + ("ete" if needs_e(stem(verb)) else "te")
    return singular if agreement != Agreement.PLURAL else singular + ("n" if singular.endswith("e") else "en")


@cache
def participle(verb: Verb) -> str:
    """Returns the past participle of a verb, including its prefix."""
    regular = stem(verb.german) + ("et" if needs_e(stem(verb.german)) else "t")
    unstressed = verb.german.startswith(INSEPARABLE) or verb.german.endswith("ieren")
    base = verb.german_participle or regular if unstressed else verb.german_participle or "ge" + regular
    return verb.prefix + base


@cache
def infinitive(verb: Verb, marked: bool) -> str:
    """Returns the infinitive of a verb, including its prefix.

    If `marked`, "zu" is inserted between a prefix and the verb.
    """
    if marked and verb.prefix:
        return verb.prefix + "zu" + verb.german
    return verb.prefix + verb.german


def stem(verb: str) -> str:
    """Returns the stem of an infinitive, to which endings are added."""
    return verb.removesuffix("n") if verb.endswith(("eln", "ern")) else verb.removesuffix("en")


def needs_e(stem: str) -> bool:
    """Returns True if this stem and the ending -t need an e between them to be pronounceable."""
    after_consonant = stem[-2] not in "aeiouäöürlhmn" or stem.endswith("chn")
    return stem.endswith(("d", "t")) or (stem[-1] in "mn" and after_consonant)
