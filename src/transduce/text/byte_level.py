"""The byte alphabet of subwords: symbols, letters for bytes, and how text is split into words of bytes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from transduce.text.normalisation import Side, normalizer_rules

PAD, BEGIN, END = 0, 1, 2
"""Ids of the three symbols."""

# The brackets are not letters of the byte alphabet, so no text is ever encoded as a symbol.
SYMBOLS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
SHOWN_SYMBOLS = ("<pad>", "<s>", "</s>")  # as `readable_subwords` writes them

# The prefix of WordPiece's subwords that continue a word; it is not a letter of the byte alphabet either.
CONTINUES = "‿"

# A word is a run of letters with their marks, across one apostrophe, or of digits, punctuation or white space. The
# first three kinds may begin with a space. The length limit bounds the cost of a word if a line has no spaces.
LONGEST_WORD = 64
WORD = "|".join(
    expression.replace("+", f"{{1,{LONGEST_WORD}}}")
    for expression in (
        r" ?[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)?",
        r" ?\p{N}+",
        r" ?[^\s\p{L}\p{M}\p{N}]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
LONGEST_WORD_IN_BYTES = 4 * (2 * LONGEST_WORD + 2)


def byte_letters() -> list[str]:
    """The letter that represents each byte in a `tokenizer.json`: GPT-2's alphabet of visible letters."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(code if code in visible else next(substitutes)) for code in range(0x100)]


def wordpiece_model(vocabulary: Sequence[str]) -> models.WordPiece:
    """Builds the model that splits a word by WordPiece into these subwords, given by id."""
    return models.WordPiece(
        vocab={subword: token for token, subword in enumerate(vocabulary)},
        unk_token=SYMBOLS[PAD],  # the format requires a name for unknown words, though no word is unknown
        max_input_chars_per_word=LONGEST_WORD_IN_BYTES,
        continuing_subword_prefix=CONTINUES,
    )


def build_tokenizer(model: Any, side: Side | None = None) -> tokenizers.Tokenizer:
    """Builds a tokenizer around `model` that splits text into words of bytes and joins them again.

    It normalises text by the rules of `side`, or not at all if `side` is None.
    """
    tokenizer = tokenizers.Tokenizer(model)
    prepend = normalizers.Prepend(" ")
    tokenizer.normalizer = prepend if side is None else normalizers.Sequence([*normalizer_rules(side), prepend])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(CONTINUES, ""), decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@lru_cache(maxsize=8)
def parse_tokenizer(content: str) -> tokenizers.Tokenizer:
    """Parses a `tokenizer.json`; raises Exception if it does not describe a tokenizer.

    Equal contents share one tokenizer, which must not be changed: `tokenizers` 0.23 does not free about 1 MiB of each
    tokenizer that has encoded text, so a process that loads a model again and again would grow.
    """
    return tokenizers.Tokenizer.from_str(content)
