"""German inflection, against a grammar book."""

import pytest

from transduce.embedded import german_inflection
from transduce.embedded.german import phrase, predicate, prepositional
from transduce.embedded.lexicon import ADJECTIVES, CASES, DETERMINERS, NOUNS, VERBS, Verb, find_entry
from transduce.embedded.syntax import AdjectivePhrase, Adjuncts, Clause, Gap, NounPhrase, VerbForm


def declined(determiner: str, adjective: str, noun: str, case: str, number: str = "singular") -> str:
    """Returns the German of a noun phrase that is given by English words."""
    node = NounPhrase(
        find_entry(NOUNS, noun),
        find_entry(DETERMINERS, determiner) if determiner else None,
        "plural" if number == "plural" else "singular",
        None,
        AdjectivePhrase(find_entry(ADJECTIVES, adjective), False) if adjective else None,
    )
    return " ".join(word.text for word in phrase(node, CASES[case]).words)


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (("the", "small", "child", "nom"), "das kleine Kind"),
        (("the", "small", "child", "gen"), "des kleinen Kindes"),
        (("the", "small", "child", "dat", "plural"), "den kleinen Kindern"),
        (("the", "old", "teacher", "acc"), "den alten Lehrer"),
        (("the", "old", "friend", "dat", "plural"), "den alten Freunden"),
        (("a", "old", "teacher", "nom"), "ein alter Lehrer"),
        (("a", "small", "child", "acc"), "ein kleines Kind"),
        (("a", "old", "woman", "dat"), "einer alten Frau"),
        (("a", "old", "woman", "gen"), "einer alten Frau"),
        (("my", "new", "car", "nom"), "mein neues Auto"),
        (("my", "new", "car", "nom", "plural"), "meine neuen Autos"),
        (("our", "new", "car", "dat"), "unserem neuen Auto"),
        (("your", "old", "house", "gen"), "Ihres alten Hauses"),
        (("this", "red", "flower", "dat"), "dieser roten Blume"),
        (("every", "young", "student", "acc"), "jeden jungen Studenten"),
        (("all", "old", "woman", "nom", "plural"), "alle alten Frauen"),
        (("some", "old", "woman", "nom", "plural"), "einige alte Frauen"),
        (("many", "old", "man", "dat", "plural"), "vielen alten Männern"),
        (("several", "big", "dog", "acc", "plural"), "mehrere große Hunde"),
        (("no", "wild", "lion", "nom"), "kein wilder Löwe"),
        (("no", "wild", "lion", "acc", "plural"), "keine wilden Löwen"),
        (("", "cold", "water", "nom"), "kaltes Wasser"),
        (("", "warm", "milk", "dat"), "warmer Milch"),
        (("", "fresh", "cheese", "acc"), "frischen Käse"),
        (("", "sweet", "apple", "dat", "plural"), "süßen Äpfeln"),
        (("the", "expensive", "suitcase", "nom"), "der teure Koffer"),
        (("a", "dark", "forest", "dat"), "einem dunklen Wald"),
        (("a", "tall", "tower", "nom"), "ein hoher Turm"),
        (("the", "", "student", "gen"), "des Studenten"),
        (("the", "", "boy", "dat"), "dem Jungen"),
        (("the", "", "neighbour", "acc"), "den Nachbarn"),
        (("the", "", "bus", "gen"), "des Busses"),
        (("the", "", "museum", "dat", "plural"), "den Museen"),
        (("the", "", "photo", "dat", "plural"), "den Fotos"),
        (("the", "", "lake", "gen"), "des Sees"),
        (("the", "", "uncle", "gen"), "des Onkels"),
        (("the", "", "tree", "gen"), "des Baumes"),
        (("which", "big", "garden", "acc"), "welchen großen Garten"),
    ],
)
def test_noun_phrases(english: tuple[str, ...], german: str) -> None:
    assert declined(*english) == german


def verb(english: str, german: str) -> Verb:
    """Returns the verb with these two base forms."""
    return next(entry for entry in VERBS if entry.english == english and entry.german == german)


def conjugated(english: str, german: str, form: VerbForm, person: int = 1) -> str:
    """Returns the verbs of a clause in their order at its end."""
    clause = Clause(verb(english, german), form, Gap(), (), Adjuncts())
    return " ".join(word.text for word in predicate(clause, person).joined())


@pytest.mark.parametrize(
    ("english", "german", "form", "person", "expected"),
    [
        ("read", "lesen", VerbForm("present"), 1, "liest"),
        ("read", "lesen", VerbForm("present"), 0, "lese"),
        ("read", "lesen", VerbForm("past"), 2, "lasen"),
        ("work", "arbeiten", VerbForm("present"), 1, "arbeitet"),
        ("work", "arbeiten", VerbForm("past"), 1, "arbeitete"),
        ("draw", "zeichnen", VerbForm("present"), 1, "zeichnet"),
        ("draw", "zeichnen", VerbForm("perfect"), 1, "gezeichnet hat"),
        ("open", "öffnen", VerbForm("past"), 0, "öffnete"),
        ("smile", "lächeln", VerbForm("present"), 0, "lächle"),
        ("smile", "lächeln", VerbForm("present"), 1, "lächelt"),
        ("smile", "lächeln", VerbForm("perfect"), 2, "gelächelt haben"),
        ("know", "wissen", VerbForm("present"), 0, "weiß"),
        ("know", "wissen", VerbForm("past"), 2, "wussten"),
        ("be", "sein", VerbForm("present"), 0, "bin"),
        ("be", "sein", VerbForm("past"), 2, "waren"),
        ("become", "werden", VerbForm("present"), 1, "wird"),
        ("become", "werden", VerbForm("perfect"), 1, "geworden ist"),
        ("arrive", "kommen", VerbForm("perfect"), 1, "angekommen ist"),
        ("arrive", "kommen", VerbForm("past"), 1, "ankam"),
        ("call", "rufen", VerbForm("present"), 1, "anruft"),
        ("repair", "reparieren", VerbForm("perfect"), 1, "repariert hat"),
        ("visit", "besuchen", VerbForm("perfect"), 1, "besucht hat"),
        ("understand", "verstehen", VerbForm("pluperfect"), 1, "verstanden hatte"),
        ("run", "rennen", VerbForm("pluperfect"), 2, "gerannt waren"),
        ("stay", "bleiben", VerbForm("perfect"), 1, "geblieben ist"),
        ("drive", "fahren", VerbForm("future"), 1, "fahren wird"),
        ("write", "schreiben", VerbForm("past", passive=True), 1, "geschrieben wurde"),
        ("write", "schreiben", VerbForm("perfect", passive=True), 1, "geschrieben worden ist"),
        ("invite", "laden", VerbForm("present", passive=True), 2, "eingeladen werden"),
        ("participate", "nehmen", VerbForm("perfect"), 1, "teilgenommen hat"),
    ],
)
def test_verbs(english: str, german: str, form: VerbForm, person: int, expected: str) -> None:
    assert conjugated(english, german, form, person) == expected


def test_infinitives_with_zu() -> None:
    assert german_inflection.infinitive(verb("call", "rufen"), marked=True) == "anzurufen"
    assert german_inflection.infinitive(verb("call", "rufen"), marked=False) == "anrufen"
    assert german_inflection.infinitive(verb("read", "lesen"), marked=False) == "lesen"


@pytest.mark.parametrize(
    ("preposition", "case", "noun", "expected"),
    [
        ("in", "dat", "garden", "im Garten"),
        ("in", "acc", "theatre", "ins Theater"),
        ("in", "dat", "kitchen", "in der Küche"),
        ("an", "dat", "station", "am Bahnhof"),
        ("an", "acc", "lake", "an den See"),
        ("zu", "dat", "airport", "zum Flughafen"),
        ("zu", "dat", "bridge", "zur Brücke"),
        ("von", "dat", "boss", "vom Chef"),
        ("auf", "acc", "market", "auf den Markt"),
        ("während", "gen", "concert", "während des Konzerts"),
    ],
)
def test_prepositions_contract_with_articles(preposition: str, case: str, noun: str, expected: str) -> None:
    node = NounPhrase(find_entry(NOUNS, noun), find_entry(DETERMINERS, "the"), "singular")
    words = prepositional(preposition, CASES[case], node, (0, "preposition")).words
    assert " ".join(word.text for word in words) == expected


def test_genitive_of_names() -> None:
    assert german_inflection.possessive_name("Anna") == "Annas"
    assert german_inflection.possessive_name("Max") == "Max’"
