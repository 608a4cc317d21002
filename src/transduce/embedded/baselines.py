"""Two translators that learn nothing, so that a score on the embedded corpus can be judged."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from transduce.embedded.realise import Example, detokenised


def translation_memory(training: Sequence[Example], sources: Sequence[str]) -> list[str]:
    """For each source the translation of the training source most like it.

    Likeness is Dice's coefficient over words and pairs of neighbouring words, through an inverted index.
    """
    postings: defaultdict[str, list[int]] = defaultdict(list)
    sizes = np.zeros(len(training))
    for number, example in enumerate(training):
        features = _features(example.source)
        sizes[number] = len(features)
        for feature in features:
            postings[feature].append(number)
    index = {feature: np.array(found) for feature, found in postings.items()}
    found = []
    for source in sources:
        features = _features(source)
        shared = np.zeros(len(training))
        for feature in sorted(features & index.keys()):
            shared[index[feature]] += 1
        found.append(training[int(np.argmax(shared / (sizes + len(features))))].target)
    return found


def word_by_word(training: Sequence[Example], sources: Sequence[str]) -> list[str]:
    """Each English word by the German word most often aligned to it, in the English order; unknown words stay."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in training:
        for source, target in example.alignment:
            counts[example.source_tokens[source].lower()][example.target_tokens[target]] += 1
    dictionary = {word: max(sorted(seen), key=seen.__getitem__) for word, seen in counts.items()}
    return [_looked_up(dictionary, source) for source in sources]


def _looked_up(dictionary: dict[str, str], source: str) -> str:
    """A sentence, word by word."""
    words = [dictionary.get(word, word) for word in _words(source)]
    line = detokenised(words)
    return line[:1].upper() + line[1:]


def _words(line: str) -> list[str]:
    """A line's tokens in small letters: punctuation and the possessive mark stand apart."""
    for mark in (",", ".", "?", "'s", "' "):
        line = line.replace(mark, f" {mark}")
    return line.lower().replace("cannot", "can not").split()


def _features(line: str) -> set[str]:
    """The words of a line and its pairs of neighbouring words."""
    words = ["", *_words(line)]
    return {*words[1:], *(f"{first} {second}" for first, second in pairwise(words))}
