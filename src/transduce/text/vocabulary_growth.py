"""Extends a BPE vocabulary with merges that are learned from other text.

Merges are applied in order, so a word is first split into the old subwords, which the new merges then join. Text to
which no new merge applies is encoded as before, and the old tokens keep their ids.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from transduce.text.byte_level import parse_tokenizer
from transduce.text.subwords import Subwords

LINES = 2_000
"""The number of lines that are encoded at a time."""

FIRST_LETTER = 0x10000
"""The code point that stands for token 0 while merges are learned; the next one stands for token 1, and so on.

None of these code points is white space.
"""


def check_can_grow(subwords: object, side: str) -> None:
    """Raises ValueError unless the subwords of `side` are transduce's own BPE, the only kind that can be extended."""
    if not isinstance(subwords, Subwords) or not subwords.has_merges:
        raise ValueError(f"--grow-vocabulary: the {side} subwords of --from are no BPE over bytes, and cannot grow")


def grow_subwords(subwords: Subwords, lines: Iterable[str], count: int) -> Subwords:
    """Returns `subwords` extended by at most `count` subwords that are learned from `lines`.

    The lines must already be normalised by the rules of their sides. The library learns the new merges from text in
    which every old subword is replaced with a single letter. Raises ValueError for WordPiece.
    """
    check_can_grow(subwords, "old")
    description = json.loads(subwords.as_json())
    texts = {token: subword for subword, token in description["model"]["vocab"].items()}
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    alphabet = [chr(FIRST_LETTER + token) for token in texts]
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + count, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(_words_as_letters(description, lines), trainer)
    merges = json.loads(learner.to_str())["model"]["merges"]
    pairs = [["".join(texts[ord(letter) - FIRST_LETTER] for letter in side) for side in pair] for pair in merges]
    _add_merges(description["model"], pairs)
    return Subwords.parse(json.dumps(description, ensure_ascii=False).encode(), place="the grown vocabulary")


def _words_as_letters(description: dict[str, Any], lines: Iterable[str]) -> Iterator[str]:
    """Yields each line as words separated by spaces, in which every token is represented by one letter."""
    as_it_is = {**description, "normalizer": {"type": "Prepend", "prepend": " "}}
    tokenizer, rest = parse_tokenizer(json.dumps(as_it_is, ensure_ascii=False)), iter(lines)
    while portion := list(islice(rest, LINES)):
        for encoding in tokenizer.encode_batch(portion):
            words: dict[int | None, str] = {}
            for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
                words[word] = words.get(word, "") + chr(FIRST_LETTER + token)
            yield " ".join(words.values())


def _add_merges(model: dict[str, Any], pairs: Iterable[list[str]]) -> None:
    """Appends merges, and the subwords that result from them, to the description of a BPE model.

    If two merges result in the same subword, it gets only one id.
    """
    size, merges = 1 + max(model["vocab"].values()), {tuple(pair) for pair in model["merges"]}
    for left, right in pairs:
        if (left, right) not in merges:
            merges.add((left, right))
            model["merges"].append([left, right])
            if left + right not in model["vocab"]:
                model["vocab"][left + right] = size
                size += 1


def spellings(subwords: Subwords, size: int) -> list[list[int]]:
    """Returns, for each token whose id is at least `size`, the tokens with smaller ids from which it is merged.

    A tag is not merged from other tokens, so the result for a tag contains all ids below `size`.
    """
    model = json.loads(subwords.as_json())["model"]
    parts: dict[str, list[str]] = {}
    for left, right in model["merges"]:
        parts.setdefault(left + right, [left, right])

    def spelling(subword: str) -> list[int]:
        token: int = model["vocab"][subword]
        return [token] if token < size else [old for part in parts[subword] for old in spelling(part)]

    new = {token: subword for subword, token in model["vocab"].items() if token >= size}
    tags = set(subwords.tags.values())
    return [list(range(size)) if token in tags else spelling(new[token]) for token in sorted(new)]
