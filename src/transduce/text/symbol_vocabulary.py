"""A vocabulary of symbols that are separated by white space.

The symbols are those of linearised trees, or the tokens of pretokenised text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, pre_tokenizers

from transduce.storage.atomic import atomic_write_text
from transduce.text.byte_level import END, SHOWN_SYMBOLS, SYMBOLS

UNKNOWN = len(SYMBOLS)
"""The id of all symbols that did not occur in the training text."""

UNKNOWN_SYMBOL = "⟨unknown⟩"


class SymbolVocabulary:
    """Encodes lines of symbols as token ids, one for each symbol, and decodes them.

    It has the same methods as `Subwords`.
    """

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = (*SYMBOLS, UNKNOWN_SYMBOL, *symbols)
        """The symbol for each id."""
        self._ids = {symbol: token for token, symbol in enumerate(self.symbols)}
        if len(self._ids) < len(self.symbols):
            raise ValueError("a symbol has two ids")
        self._ids_in_text = {symbol: token for symbol, token in self._ids.items() if token > END}

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], size: int | None = None) -> "SymbolVocabulary":
        """Creates a vocabulary of the symbols in `counts`.

        If `size` is given, only the most frequent symbols are kept, so that there are at most `size` ids.
        """
        symbols = counts.keys() - {*SYMBOLS, UNKNOWN_SYMBOL}
        frequent = sorted(symbols, key=lambda symbol: (-counts[symbol], symbol))
        return cls(sorted(frequent if size is None else frequent[: size - UNKNOWN - 1]))

    def grown(self, lines: Iterable[str]) -> "SymbolVocabulary":
        """Returns a vocabulary that also contains the new symbols in `lines`, appended to the existing ones."""
        new = {symbol for line in lines for symbol in line.split()} - self._ids.keys()
        return SymbolVocabulary([*self.symbols[UNKNOWN + 1 :], *sorted(new)])

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> "SymbolVocabulary":
        """Parses the content of a file that was written by `save`.

        Raises ValueError if the file is damaged or was not written by `save`; the message refers to it as `place`.
        """
        try:
            vocabulary = json.loads(content)["model"]["vocab"]
            symbols = sorted(vocabulary, key=vocabulary.__getitem__)
            loaded = cls(symbols[UNKNOWN + 1 :])
            if loaded.as_json() != content.decode():
                raise ValueError("it splits text by other rules, or has other ids")
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{place} holds no symbols between white space, or is damaged ({error}); take the file from a "
                "backup, or prepare and train again"
            ) from None
        return loaded

    def save(self, path: Path) -> None:
        """Writes the vocabulary to a JSON file with which Hugging Face's `tokenizers` returns the same ids."""
        atomic_write_text(path, self.as_json())

    def as_json(self) -> str:
        """Returns the content that `save` writes."""
        tokenizer = tokenizers.Tokenizer(models.WordLevel(self._ids, unk_token=UNKNOWN_SYMBOL))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return str(tokenizer.to_str(pretty=True))

    @property
    def vocabulary(self) -> list[str]:
        """The symbols in the order of their ids."""
        return list(self.symbols)

    @property
    def size(self) -> int:
        """The number of ids, including those of padding, BOS, EOS and the unknown token."""
        return len(self.symbols)

    @cached_property
    def max_subword_bytes(self) -> int:
        """The number of bytes in the longest symbol, including the space that follows it."""
        return max(len(symbol.encode()) for symbol in self.symbols) + 1

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line; symbols that did not occur in the training text become `UNKNOWN`."""
        return [[self._ids_in_text.get(symbol, UNKNOWN) for symbol in line.split()] for line in lines]

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """Encodes each line in the same way as `encode`, because symbols have no merges to drop."""
        return [np.array(ids, np.int64) for ids in self.encode(lines)]

    def check_can_drop_merges(self, name: str) -> None:
        """Does nothing, because a parser may use subword dropout, which then affects only its source sentences."""

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Joins the symbols of each sequence with spaces, ignoring padding, BOS and EOS."""
        return [" ".join(self.symbols[token] for token in sequence if token > END) for sequence in ids]

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Returns a readable form of each id.

        Each symbol is preceded by "▁", like a subword at the beginning of a word.
        """
        return [f"▁{self.symbols[token]}" if token > END else SHOWN_SYMBOLS[token] for token in ids]
