"""Builds byte-level tokenizers for `Subwords`.

This module defines the special symbols, the alphabet of letters that represent bytes, and the rule by which text is
split into words.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from transduce.text.normalisation import Side, normalizer_rules

PAD, BEGIN, END = 0, 1, 2
"""The ids of the special symbols: padding, BOS and EOS."""

# The brackets are not letters of the byte alphabet, so text is never encoded as a special symbol.
SYMBOLS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
SHOWN_SYMBOLS = ("<pad>", "<s>", "</s>")  # as `readable_subwords` shows them

# The prefix of WordPiece subwords that continue a word. It is not a letter of the byte alphabet either.
CONTINUES = "‿"

# A word is a sequence of letters, of digits, of punctuation or of white space. Letters include combining marks and may
# contain one apostrophe. All kinds except white space may begin with a space. The length of a word is limited so that
# the cost of encoding it is bounded even if a line has no spaces.
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
    """Returns the visible letter that represents each byte in a `tokenizer.json`; the alphabet is that of GPT-2."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(code if code in visible else next(substitutes)) for code in range(0x100)]


def wordpiece_model(vocabulary: Sequence[str]) -> models.WordPiece:
    """Builds a WordPiece model; `vocabulary` contains the subwords in the order of their ids."""
    return models.WordPiece(
        vocab={subword: token for token, subword in enumerate(vocabulary)},
        unk_token=SYMBOLS[PAD],  # the format requires a name for unknown words, though no word is unknown
        max_input_chars_per_word=LONGEST_WORD_IN_BYTES,
        continuing_subword_prefix=CONTINUES,
    )


def build_tokenizer(model: Any, side: Side | None = None) -> tokenizers.Tokenizer:
    """Builds a tokenizer that splits text into words of bytes for `model`, and joins them again when it decodes.

    The tokenizer normalises text by the rules of `side`, or not at all if `side` is None.
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
    """Parses the content of a `tokenizer.json`; raises Exception if it does not describe a tokenizer.

    Calls with the same content return the same tokenizer, which therefore must not be modified. The tokenizer is cached
    because `tokenizers` 0.23 leaks about 1 MiB for each tokenizer that has encoded text, so the memory of a process
    that loads a model repeatedly would grow.
    """
    return tokenizers.Tokenizer.from_str(content)
