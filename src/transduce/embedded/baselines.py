"""Two simple translation baselines, with which a model's score on the embedded corpus can be compared."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from transduce.embedded.realise import Example, detokenise


def translation_memory(training: Sequence[Example], sources: Sequence[str]) -> list[str]:
    """Translates each source by copying the translation of the most similar source in the training set.

    Similarity is Dice's coefficient over words and word bigrams, and is computed with an inverted index.
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
    """Replaces each English word with the German word that is most often aligned to it in the training set.

    The word order is left unchanged. Unknown words are lower-cased and copied.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in training:
        for source, target in example.alignment:
            counts[example.source_tokens[source].lower()][example.target_tokens[target]] += 1
    dictionary = {word: max(sorted(targets), key=targets.__getitem__) for word, targets in counts.items()}
    lines = [detokenise([dictionary.get(word, word) for word in _words(source)]) for source in sources]
    return [line[:1].upper() + line[1:] for line in lines]


def _words(line: str) -> list[str]:
    """Returns the lower-cased words of a line; punctuation marks and possessive endings are separate words."""
    for mark in (",", ".", "?", "'s", "' "):
        line = line.replace(mark, f" {mark}")
    return line.lower().replace("cannot", "can not").split()


def _features(line: str) -> set[str]:
    """Returns the set of words and word bigrams of a line."""
    words = ["", *_words(line)]
    return {*words[1:], *(f"{first} {second}" for first, second in pairwise(words))}
