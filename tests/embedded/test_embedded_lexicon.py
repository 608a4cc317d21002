"""The lexicon: what the tables say is read as meant, and no English word could be two nouns."""

from collections import Counter

from transduce.embedded.lexicon import ADJECTIVES, NOUNS, VERBS, named, selected


def english(selector: str) -> set[str]:
    return {noun.english for noun in selected(selector)}


def test_selectors_add_classes_and_nouns_and_take_classes_away() -> None:
    assert {"book", "letter"} <= english("text")
    assert "letter" in english("text-work")
    assert "book" not in english("text-work")
    assert english("tower,tree") == {"tower", "tree"}
    assert english("text-work-writing,novel") == {"newspaper", "magazine", "novel"}


def test_principal_parts_prefixes_and_slots_are_read() -> None:
    prepare = next(verb for verb in VERBS if verb.english == "prepare" and verb.reflexive)
    assert (prepare.prefix, prepare.german, prepare.auxiliary) == ("vor", "bereiten", "haben")
    assert [(slot.english, slot.german, slot.case) for slot in prepare.slots] == [("for", "auf", "accusative")]
    explain = named(VERBS, "explain")
    assert [(slot.english, slot.german, slot.case) for slot in explain.slots] == [
        ("to", "", "dative"),
        ("", "", "accusative"),
    ]
    assert named(VERBS, "go").auxiliary == "sein"
    assert named(NOUNS, "station").at == ("at", "an", "dative")
    assert named(NOUNS, "station").to == ("zu", "dative")


def test_every_english_form_is_of_one_noun() -> None:
    forms = Counter(form for noun in NOUNS for form in {noun.english, noun.english_plural} - {""})
    assert max(forms.values()) == 1
    assert named(NOUNS, "dress").english_plural == "dresses"
    assert named(NOUNS, "milk").english_plural == ""


def test_everything_selects_something() -> None:
    assert all(adjective.nouns for adjective in ADJECTIVES)
    assert all(slot.nouns for verb in VERBS for slot in verb.slots)
    assert all(verb.subjects for verb in VERBS if verb.english not in ("rain", "snow"))
