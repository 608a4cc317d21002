"""The vocabularies of imported models in the order of this program's ids, and the subwords of their sides."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from pydantic import ValidationError
from torch import Tensor

from transduce.text.byte_level import BEGIN, END, PAD
from transduce.text.imported_subwords import SubwordsContent
from transduce.text.moses_bpe import MosesBpe, MosesBpeContent
from transduce.text.sentence_pieces import SentencePieceContent, SentencePieces

__all__ = ["ForeignVocabulary", "TokenRows"]

BELOW = 100.0
"""Nats by which a symbol that the foreign model lacks is less probable than the token whose row it copies.

float32 rounds its probability to 0, and 16-bit numbers can represent the bias.
"""


class TokenRows(NamedTuple):
    """The rows of a foreign vocabulary in the order of this program's ids: pad, begin, end, then all others.

    `copies` are the ids whose row also is another id's. Two of the three symbols may be one token of the foreign
    model, and the first of them may be missing.
    """

    rows: tuple[int, ...]
    copies: tuple[int, ...]

    @classmethod
    def of(cls, size: int, *, pad: int | None, begin: int, end: int, place: str) -> "TokenRows":
        """Orders `size` rows; without `pad`, the row of `end` is copied."""
        symbols = (end if pad is None else pad, begin, end)
        if not all(0 <= symbol < size for symbol in symbols):
            raise ValueError(f"{place}: the ids of pad, begin and end are {symbols}, and there are {size:,} ids")
        owned = {symbols[END]: END}
        for symbol in (PAD, BEGIN):
            owned.setdefault(symbols[symbol], symbol)
        copies = tuple(symbol for symbol in (PAD, BEGIN) if owned[symbols[symbol]] != symbol)
        return cls((*symbols, *(row for row in range(size) if row not in owned)), copies)

    @property
    def size(self) -> int:
        """The number of rows of the foreign vocabulary."""
        return max(self.rows) + 1

    def matrix(self, foreign: Tensor) -> Tensor:
        """Returns the rows of a matrix in this program's order."""
        return foreign[list(self.rows)]

    def bias(self, foreign: Tensor | None) -> Tensor:
        """Returns the readout's bias in this program's order, low for copies; zeros where there is none."""
        bias = torch.zeros(len(self.rows)) if foreign is None else foreign[list(self.rows)]
        bias[list(self.copies)] -= BELOW
        return bias

    def subwords(self, names: Mapping[int, str]) -> tuple[str, ...]:
        """Returns the subword of each id after the symbols; a row without a name gets one that no text has."""
        return tuple(names.get(row, f"⟨unused {row}⟩") for row in self.rows[END + 1 :])


Content = TypeVar("Content", bound=SubwordsContent)


class ForeignVocabulary(NamedTuple):
    """The tokens of one side by row, in the order of `rows`; errors call it `place`."""

    rows: TokenRows
    names: Mapping[int, str]
    unknown: str
    place: str

    @classmethod
    def of(cls, rows: TokenRows, ids: Mapping[str, Any], unknown: str, place: str) -> "ForeignVocabulary":
        """Takes the row of each token; raises ValueError for rows that there are not, or twice."""
        names: dict[int, str] = {}
        size = rows.size
        for token, row in ids.items():
            if type(row) is not int or not 0 <= row < size or row in names:
                raise ValueError(
                    f"{place}: the token {token!a} has the id {row!r}; ids are different numbers, and the model has "
                    f"rows for those below {size:,}"
                )
            names[row] = token
        if unknown not in ids:
            raise ValueError(f"{place} lacks the token {unknown}")
        return cls(rows, names, unknown, place)

    def sentence_pieces(self, model: bytes) -> SentencePieces:
        """Returns the subwords of a side with a SentencePiece model."""
        encoded = b64encode(model).decode()
        try:
            return SentencePieces(self._content(SentencePieceContent, model=encoded))
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None

    def moses_bpe(self, merges: tuple[tuple[str, str], ...], language: str) -> MosesBpe:
        """Returns the subwords of a side with merges, and the tokeniser of a language."""
        try:
            return MosesBpe(self._content(MosesBpeContent, merges=merges, language=language))
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None

    def _content(self, kind: type[Content], **values: Any) -> Content:
        """Returns the content of the file of the subwords."""
        row = next(row for row, name in self.names.items() if name == self.unknown)
        unknown = self.rows.rows.index(row, END + 1)
        try:
            return kind(unknown=unknown, subwords=self.rows.subwords(self.names), **values)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
