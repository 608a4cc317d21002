"""What the subwords of imported models have in common: fixed subwords by id, one of which is the unknown token."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from transduce.settings import Spec
from transduce.storage.atomic import atomic_write_text
from transduce.text.byte_level import END, SHOWN_SYMBOLS, SYMBOLS

UnicodeText = Annotated[str, Field(min_length=1, pattern="^[^\0]*$")]


class MissingLibraryError(ValueError):
    """Subwords need a library that is not installed."""


class SubwordsContent(Spec):
    """The content of the file of an imported model's subwords, which says everything about them."""

    version: Literal[1] = 1
    unknown: int = Field(gt=END)
    """The id of text that has no subword."""
    subwords: tuple[UnicodeText, ...]
    """The subwords from the first id after the symbols on."""


Content = TypeVar("Content", bound=SubwordsContent)


class ImportedSubwords(ABC, Generic[Content]):
    """Encodes text with subwords that another program has learned; has the methods of `Subwords`.

    Text without a subword becomes the unknown token, and is lost: decoding shows a mark in its place.
    """

    content_type: ClassVar[type[Any]]

    def __init__(self, content: Content) -> None:
        """Raises ValueError where two ids have the same subword, or no id is the unknown token."""
        self.content = content
        self.vocabulary = [*SYMBOLS, *content.subwords]
        """The subword of each id."""
        self._ids = {subword: token for token, subword in enumerate(self.vocabulary) if token > END}
        if len(self._ids) + len(SYMBOLS) < len(self.vocabulary):
            raise ValueError("a subword has two ids")
        if content.unknown >= len(self.vocabulary):
            raise ValueError(f"the id {content.unknown} of unknown text is beyond the {len(self.vocabulary)} ids")

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, no symbols added; raises ValueError for half a surrogate pair."""

    @abstractmethod
    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each sequence without symbols."""

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> Self:
        """Reads the content of a file that `save` wrote; errors call the file `place`."""
        try:
            return cls(cls.content_type.model_validate_json(content, strict=True))
        except MissingLibraryError:
            raise
        except ValidationError as error:
            details = error.errors(include_url=False)[0]
            fault = f"{'.'.join(map(str, details['loc']))}: {details['msg']}"
        except ValueError as error:
            fault = str(error)
        raise ValueError(
            f"{place} holds no subwords of an imported model, or cannot be used ({fault}); take the file from a "
            "backup, or import the model again"
        )

    def save(self, path: Path) -> None:
        """Writes one JSON file."""
        atomic_write_text(path, self.as_json())

    def as_json(self) -> str:
        """Returns the content that `save` writes."""
        return self.content.model_dump_json(indent=1)

    @property
    def size(self) -> int:
        """The number of ids, symbols included."""
        return len(self.vocabulary)

    @cached_property
    def max_subword_bytes(self) -> int:
        """The bytes of the longest subword."""
        return max(len(subword.encode()) for subword in self.vocabulary)

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """Raises ValueError: no merge of these subwords is dropped."""
        self.check_can_drop_merges("these subwords")

    def check_can_drop_merges(self, name: str) -> NoReturn:
        """Raises ValueError, because no merge of these subwords is dropped; `name` is the subwords in the message."""
        raise ValueError(f"{name} are those of an imported model, which have no dropout: set subwords.dropout: 0")

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Returns each id as readable text: "▁" where a word begins, "</s>" for the end."""
        return [self.readable_token(token) for token in ids]

    def readable_token(self, token: int) -> str:
        """Returns the subword of an id, "</s>" for the end."""
        return self.vocabulary[token] if token > END else SHOWN_SYMBOLS[token]
