"""Two trivial translators, to compare with a model's score on the embedded corpus."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from transduce.embedded.realise import Example, detokenise


def translation_memory(training: Sequence[Example], sources: Sequence[str]) -> list[str]:
    """Translates each source by the target of the most similar training source.

    The similarity is Dice's coefficient over words and word bigrams, computed with an inverted index.
    """
    postings: defaultdict[str, list[int]] = defaultdict(list)
    sizes = np.zeros(len(training))
    for number, example in enumerate(training):
        features = _features(example.source)
        sizes[number] = len(features)
        for feature in features:
            postings[feature].append(number)
    index = {feature: np.array(numbers) for feature, numbers in postings.items()}
    translations = []
    for source in sources:
        features = _features(source)
        shared = np.zeros(len(training))
        for feature in sorted(features & index.keys()):
            shared[index[feature]] += 1
        translations.append(training[int(np.argmax(shared / (sizes + len(features))))].target)
    return translations


def word_by_word(training: Sequence[Example], sources: Sequence[str]) -> list[str]:
    """Replaces each English word by the German word most often aligned to it; unknown words stay."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in training:
        for source, target in example.alignment:
            counts[example.source_tokens[source].lower()][example.target_tokens[target]] += 1
    dictionary = {word: max(sorted(targets), key=targets.__getitem__) for word, targets in counts.items()}
    lines = [detokenise([dictionary.get(word, word) for word in _words(source)]) for source in sources]
    return [line[:1].upper() + line[1:] for line in lines]


def _words(line: str) -> list[str]:
    """Lower-case words of a line; punctuation and the possessive mark are separate words."""
    for mark in (",", ".", "?", "'s", "' "):
        line = line.replace(mark, f" {mark}")
    return line.lower().replace("cannot", "can not").split()


def _features(line: str) -> set[str]:
    """Words and word bigrams of a line."""
    words = ["", *_words(line)]
    return {*words[1:], *(f"{first} {second}" for first, second in pairwise(words))}
