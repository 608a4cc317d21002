"""Names: learned from pairs, missed in outputs, and not found where a language capitalises other words."""

import pytest

from transduce.text import copied_names as names_module
from transduce.text.copied_names import Names

TRAINING = [
    ("yesterday Anna met Tom in the park", "gestern traf Anna Tom im Park"),
    ("we saw Anna with Tom", "wir sahen Anna mit Tom"),
    ("they like Germany and Monday", "sie mögen Deutschland und den Montag"),
    ("in Germany every Monday is short", "in Deutschland ist jeder Montag kurz"),
    ("the young will of Will is a park", "der junge Wille von Will ist ein Park"),
    ("a will for Will", "ein Wille für Will"),
]
HELD_OUT = [("we like Anna", "wir mögen Anna"), ("the park of Germany", "der Park von Deutschland")]


@pytest.fixture(scope="module")
def names():
    return Names.learn(TRAINING, HELD_OUT)


def test_known_names_are_copied_and_never_in_lower_case(names):
    assert names.known == ("Anna", "Tom")
    assert {"germany", "monday", "will", "park"} <= set(names.ordinary)


@pytest.mark.parametrize(
    ("source", "output", "missing"),
    [
        ("we like Anna", "wir mögen", ["Anna"]),
        ("Anna likes the park", "der Park", ["Anna"]),  # a known name counts at the beginning too
        ("we like Anna", "wir mögen Annas Park", []),
        ("we like Tom's park", "wir mögen Toms Park", []),
        ("we saw Tom-Anna", "wir sahen sie", ["Tom-Anna"]),
        ("in Germany on Monday", "am Montag in Deutschland", []),
        ("Zanzibar is far", "es ist weit", []),  # an unknown word at the beginning may be any word
        ("we saw Zanzibar", "wir sahen es", ["Zanzibar"]),
        ("we saw Zanzibar", "wir sahen Sansibar", ["Zanzibar"]),
        ("he said: “Zanzibar is far”", "er sagte es", []),
        ("it is 5. Zanzibar", "es ist so", []),
        ("we saw Li and IT", "wir sahen es", []),  # too short to tell
        ("", "", []),
    ],
)
def test_names_that_an_output_lacks(names, source, output, missing):
    assert names.missing(source, output) == missing


def test_a_word_with_a_sharp_s_that_also_stands_in_lower_case_is_no_name():
    pairs = [("Hier steht Weiß.", "Here is Weiß."), ("Das ist weiß.", "That is white.")] * 20
    assert "Weiß" not in Names.learn(pairs, [("Hier ist Rot.", "Here is red.")]).known


def test_unknown_words_are_no_names_where_nouns_are_capitalised():
    training = [(target, source) for source, target in TRAINING]
    held_out = [("wir mögen Anna", "we like Anna"), ("der Hund und das Haus", "the dog and the house")]
    names = Names.learn(training, held_out)
    assert names.ordinary is None
    assert {"Anna", "Tom"} <= set(names.known)
    assert names.missing("wir sahen den Turm mit Anna", "we saw the tower") == ["Anna"]


def test_names_with_more_evidence_are_left_where_others_give_false_alarms():
    """Ida is copied nine times of ten, and Uma each time; the held-out translation of Ida is right."""
    training = [("we saw Ida", "wir sahen Ida" if number else "wir sahen sie") for number in range(10)]
    training += [("we saw Uma", "wir sahen Uma")] * 2
    assert Names.learn(training, []).known == ("Ida", "Uma")
    assert Names.learn(training, [("we saw Ida", "wir sahen sie")]).known == ("Uma",)


def test_no_rule_is_left_where_all_give_false_alarms():
    names = Names.learn(TRAINING * 3, [("we like Anna", "wir mögen sie"), ("we saw Oslo", "wir sahen es")])
    assert (names.known, names.ordinary) == ((), None)
    assert names.missing("we like Anna", "") == []


def test_false_alarms_are_a_share_of_pairs(names, monkeypatch):
    pairs = [("we like Anna", "wir mögen sie"), ("we like Tom", "wir mögen Tom"), ("a", "b"), ("c", "d")]
    assert names.false_alarms(pairs) == 0.25
    assert names.false_alarms([]) == 0
    monkeypatch.setattr(names_module, "MAX_FALSE_ALARMS", 0.25)
    assert Names.learn(TRAINING, pairs).known == ("Anna", "Tom")
