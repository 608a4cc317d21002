"""Links of words: their counts are right, terms are linked one to one, and spans are translations of each other."""

import random
import re

import pytest

from transduce.text import word_links
from transduce.text.word_links import WordLinks

FILLERS = [f"w{number}" for number in range(40)]
NOUNS = {"dog": "Hund", "cat": "Katze", "return": "Rück", "ticket": "Fahrkarte", "ice-cream": "Eis"}


def corpus(seed: int, count: int = 400) -> list[tuple[str, str]]:
    """Pairs that share fillers in capitals, an article in each line, and now and then a noun."""
    drawn = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = drawn.sample(FILLERS, 3)
        if drawn.random() < 0.2:
            words.insert(drawn.randint(0, 3), drawn.choice(sorted(NOUNS)))
        pairs.append(
            ("the " + " ".join(words) + ".", "das " + " ".join(NOUNS.get(word, word.upper()) for word in words))
        )
    return pairs


def counted(pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Dice coefficients by counting each pair of words."""
    sides = [[set(re.findall(r"[\w-]+", line)) for line in side] for side in zip(*pairs, strict=True)]
    result = {}
    for one in {word for words in sides[0] for word in words}:
        for other in {word for words in sides[1] for word in words}:
            both = sum(one in left and other in right for left, right in zip(*sides, strict=True))
            alone = [sum(word in words for words in side) for word, side in zip((one, other), sides, strict=True)]
            if both >= 3 and 2 * both / sum(alone) >= 0.2 and max(alone) <= 0.05 * len(pairs) and min(alone) >= 3:
                result[one, other] = 2 * both / sum(alone)
    return result


@pytest.mark.parametrize("seed", [1, 2])
def test_coefficients_are_those_of_counting(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = corpus(seed, 300)
    for word in range(30):  # fillers that become rare enough to be terms
        pairs += [(f"rare{word}", f"SELTEN{word}")] * (word % 5)
    expected = counted(pairs)
    links = WordLinks.learn(pairs)
    assert len(expected) > 10
    assert links.dice.keys() == expected.keys()
    assert all(links.dice[key] == pytest.approx(expected[key]) for key in expected)
    assert not any("the" in key or "das" in key for key in links.dice)


def test_words_are_linked_one_to_one_and_the_surest_first() -> None:
    links = WordLinks({("dog", "Hund"): 0.9, ("dog", "Katze"): 0.5, ("cat", "Katze"): 0.4, ("cat", "Hund"): 0.3})
    found = links.link("A cat, a dog, a cat", "Ein Hund, eine Katze")
    assert [(one.group(), other.group()) for one, other in found] == [("dog", "Hund"), ("cat", "Katze")]
    assert found[1].source.start() == 16  # the closer of two cats


def test_spans_are_translations_and_do_not_overlap() -> None:
    links, drawn, seen = WordLinks(dict.fromkeys(NOUNS.items(), 1.0)), random.Random(1), set()
    source, target = "the cat, return ticket dog - ice-cream", "das Rück Fahrkarte Hund und Eis, Katze"
    words = {
        **NOUNS,
        "return ticket": "Rück Fahrkarte",
        "return ticket dog": "Rück Fahrkarte Hund",
        "ticket dog": "Fahrkarte Hund",
    }
    for _ in range(300):
        spans = links.draw_spans(source, target, 3, drawn)
        assert 1 <= len(spans) <= 3
        ends = [end for span in spans for end in (span.source.start, span.source.stop)]
        assert ends == sorted(ends)
        seen |= {(source[span.source], target[span.target]) for span in spans}
    assert seen == set(words.items())


def test_lines_without_a_link_have_no_span() -> None:
    links = WordLinks({("dog", "Hund"): 1.0})
    assert links.draw_spans("a cat", "eine Katze", 3, random.Random(1)) == []
    assert links.draw_spans("", "", 3, random.Random(1)) == []
    assert WordLinks.learn([]).dice == {}
    assert WordLinks.learn([("a", "b"), (".", "")]).dice == {}


def test_only_the_first_words_of_a_long_side_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_links, "MAX_LENGTH", 2)
    assert set(WordLinks.learn([("a b c", "A B C")] * 3).dice) == {(one, other) for one in "ab" for other in "AB"}
