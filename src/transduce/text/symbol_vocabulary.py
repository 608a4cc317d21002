"""A vocabulary of symbols between white space: symbols of linearised trees, or tokens of pretokenised text."""

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
"""The id of symbols that were not in the training text."""

UNKNOWN_SYMBOL = "⟨unknown⟩"


class SymbolVocabulary:
    """Encodes lines of symbols as token ids and decodes them, one token per symbol; has the methods of `Subwords`."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = (*SYMBOLS, UNKNOWN_SYMBOL, *symbols)
        """The symbol of each id."""
        self._ids = {symbol: token for token, symbol in enumerate(self.symbols)}
        if len(self._ids) < len(self.symbols):
            raise ValueError("a symbol has two ids")
        self._ids_in_text = {symbol: token for symbol, token in self._ids.items() if token > END}

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], size: int | None = None) -> "SymbolVocabulary":
        """Builds the vocabulary of all symbols that were counted, or of the most frequent ones up to `size` ids."""
        symbols = counts.keys() - {*SYMBOLS, UNKNOWN_SYMBOL}
        frequent = sorted(symbols, key=lambda symbol: (-counts[symbol], symbol))
        return cls(sorted(frequent if size is None else frequent[: size - UNKNOWN - 1]))

    def grown(self, lines: Iterable[str]) -> "SymbolVocabulary":
        """Appends the symbols of `lines` that are new."""
        new = {symbol for line in lines for symbol in line.split()} - self._ids.keys()
        return SymbolVocabulary([*self.symbols[UNKNOWN + 1 :], *sorted(new)])

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> "SymbolVocabulary":
        """Parses the content of a file that `save` wrote; raises ValueError, which calls the file `place`."""
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
        """Writes one JSON file, from which Hugging Face's `tokenizers` gives the same ids."""
        atomic_write_text(path, self.as_json())

    def as_json(self) -> str:
        """The content that `save` writes."""
        tokenizer = tokenizers.Tokenizer(models.WordLevel(self._ids, unk_token=UNKNOWN_SYMBOL))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return str(tokenizer.to_str(pretty=True))

    @property
    def vocabulary(self) -> list[str]:
        """The symbols, by id."""
        return list(self.symbols)

    @property
    def size(self) -> int:
        """Number of ids, including the begin and end symbols."""
        return len(self.symbols)

    @cached_property
    def max_subword_bytes(self) -> int:
        """Number of bytes of the longest symbol and the space after it."""
        return max(len(symbol.encode()) for symbol in self.symbols) + 1

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line; symbols that were not in the training text become `UNKNOWN`."""
        return [[self._ids_in_text.get(symbol, UNKNOWN) for symbol in line.split()] for line in lines]

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """Encodes each line without dropout, because symbols have no merges to drop."""
        return [np.array(ids, np.int64) for ids in self.encode(lines)]

    def check_can_drop_merges(self, name: str) -> None:
        """Accepts subword dropout, which then only changes the words."""

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Joins the symbols of each sequence with spaces, leaving out the padding, begin and end symbols."""
        return [" ".join(self.symbols[token] for token in sequence if token > END) for sequence in ids]

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Readable text for each id; "▁" precedes each symbol, as it precedes subwords that begin a word."""
        return [f"▁{self.symbols[token]}" if token > END else SHOWN_SYMBOLS[token] for token in ids]
