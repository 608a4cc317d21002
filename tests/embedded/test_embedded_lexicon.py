"""The lexicon: how tables are parsed, and that no English form belongs to two nouns."""

from collections import Counter

from transduce.embedded.lexicon import ADJECTIVES, NOUNS, VERBS, find_entry, select_nouns


def english(selector: str) -> set[str]:
    return {noun.english for noun in select_nouns(selector)}


def test_selectors_add_and_subtract_classes() -> None:
    assert {"book", "letter"} <= english("text")
    assert "letter" in english("text-work")
    assert "book" not in english("text-work")
    assert english("tower,tree") == {"tower", "tree"}
    assert english("text-work-writing,novel") == {"newspaper", "magazine", "novel"}


def test_principal_parts_prefixes_and_slots_are_parsed() -> None:
    prepare = next(verb for verb in VERBS if verb.english == "prepare" and verb.reflexive)
    assert (prepare.prefix, prepare.german, prepare.auxiliary) == ("vor", "bereiten", "haben")
    assert [(slot.english, slot.german, slot.case) for slot in prepare.slots] == [("for", "auf", "accusative")]
    explain = find_entry(VERBS, "explain")
    assert [(slot.english, slot.german, slot.case) for slot in explain.slots] == [
        ("to", "", "dative"),
        ("", "", "accusative"),
    ]
    assert find_entry(VERBS, "go").auxiliary == "sein"
    assert find_entry(NOUNS, "station").at == ("at", "an", "dative")
    assert find_entry(NOUNS, "station").to == ("zu", "dative")


def test_no_english_form_belongs_to_two_nouns() -> None:
    forms = Counter(form for noun in NOUNS for form in {noun.english, noun.english_plural} - {""})
    assert max(forms.values()) == 1
    assert find_entry(NOUNS, "dress").english_plural == "dresses"
    assert find_entry(NOUNS, "milk").english_plural == ""


def test_every_selector_selects_a_noun() -> None:
    assert all(adjective.nouns for adjective in ADJECTIVES)
    assert all(slot.nouns for verb in VERBS for slot in verb.slots)
    assert all(verb.subjects for verb in VERBS if verb.english not in ("rain", "snow"))
