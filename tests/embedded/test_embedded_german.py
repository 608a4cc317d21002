"""German words in their forms, against what a grammar book says."""

import pytest

from transduce.embedded.german import morphology
from transduce.embedded.german.clauses import predicate
from transduce.embedded.german.phrases import phrase, prepositional
from transduce.embedded.lexicon import ADJECTIVES, CASES, DETERMINERS, NOUNS, VERBS, named
from transduce.embedded.lexicon_entries import Verb
from transduce.embedded.syntax import Adjuncts, Clause, Form, Gap, NounPhrase, Quality


def declined(determiner: str, adjective: str, noun: str, case: str, number: str = "singular") -> str:
    """A noun phrase from English words, as German text."""
    said = NounPhrase(
        named(NOUNS, noun),
        named(DETERMINERS, determiner) if determiner else None,
        "plural" if number == "plural" else "singular",
        None,
        Quality(named(ADJECTIVES, adjective), False) if adjective else None,
    )
    return " ".join(word.text for word in phrase(said, CASES[case]).words)


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
    """The verb with these two base forms."""
    return next(entry for entry in VERBS if entry.english == english and entry.german == german)


def conjugated(english: str, german: str, form: Form, person: int = 1) -> str:
    """The verbs of a clause as they stand at its end."""
    found = Clause(verb(english, german), form, Gap(), (), Adjuncts())
    return " ".join(word.text for word in predicate(found, person).joined())


@pytest.mark.parametrize(
    ("english", "german", "form", "person", "expected"),
    [
        ("read", "lesen", Form("present"), 1, "liest"),
        ("read", "lesen", Form("present"), 0, "lese"),
        ("read", "lesen", Form("past"), 2, "lasen"),
        ("work", "arbeiten", Form("present"), 1, "arbeitet"),
        ("work", "arbeiten", Form("past"), 1, "arbeitete"),
        ("draw", "zeichnen", Form("present"), 1, "zeichnet"),
        ("draw", "zeichnen", Form("perfect"), 1, "gezeichnet hat"),
        ("open", "öffnen", Form("past"), 0, "öffnete"),
        ("smile", "lächeln", Form("present"), 0, "lächle"),
        ("smile", "lächeln", Form("present"), 1, "lächelt"),
        ("smile", "lächeln", Form("perfect"), 2, "gelächelt haben"),
        ("know", "wissen", Form("present"), 0, "weiß"),
        ("know", "wissen", Form("past"), 2, "wussten"),
        ("be", "sein", Form("present"), 0, "bin"),
        ("be", "sein", Form("past"), 2, "waren"),
        ("become", "werden", Form("present"), 1, "wird"),
        ("become", "werden", Form("perfect"), 1, "geworden ist"),
        ("arrive", "kommen", Form("perfect"), 1, "angekommen ist"),
        ("arrive", "kommen", Form("past"), 1, "ankam"),
        ("call", "rufen", Form("present"), 1, "anruft"),
        ("repair", "reparieren", Form("perfect"), 1, "repariert hat"),
        ("visit", "besuchen", Form("perfect"), 1, "besucht hat"),
        ("understand", "verstehen", Form("pluperfect"), 1, "verstanden hatte"),
        ("run", "rennen", Form("pluperfect"), 2, "gerannt waren"),
        ("stay", "bleiben", Form("perfect"), 1, "geblieben ist"),
        ("drive", "fahren", Form("future"), 1, "fahren wird"),
        ("write", "schreiben", Form("past", passive=True), 1, "geschrieben wurde"),
        ("write", "schreiben", Form("perfect", passive=True), 1, "geschrieben worden ist"),
        ("invite", "laden", Form("present", passive=True), 2, "eingeladen werden"),
        ("participate", "nehmen", Form("perfect"), 1, "teilgenommen hat"),
    ],
)
def test_verbs(english: str, german: str, form: Form, person: int, expected: str) -> None:
    assert conjugated(english, german, form, person) == expected


def test_infinitives_with_zu() -> None:
    assert morphology.infinitive(verb("call", "rufen"), marked=True) == "anzurufen"
    assert morphology.infinitive(verb("call", "rufen"), marked=False) == "anrufen"
    assert morphology.infinitive(verb("read", "lesen"), marked=False) == "lesen"


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
def test_prepositions_run_together_with_articles(preposition: str, case: str, noun: str, expected: str) -> None:
    said = NounPhrase(named(NOUNS, noun), named(DETERMINERS, "the"), "singular")
    words = prepositional(preposition, CASES[case], said, (0, "preposition")).words
    assert " ".join(word.text for word in words) == expected


def test_names_before_their_nouns() -> None:
    assert morphology.possessive_name("Anna") == "Annas"
    assert morphology.possessive_name("Max") == "Max’"
