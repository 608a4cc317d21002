"""Subwords that were learned by other programs, such as SentencePiece (Kudo and Richardson 2018).

They are used by imported models and by recipes that select SentencePiece. Unlike `Subwords`, they have an unknown token
for text that no subword covers.
"""

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from transduce.runtime.extras import install_command
from transduce.settings import Spec
from transduce.storage.atomic import atomic_write_text
from transduce.text.byte_level import END, SHOWN_SYMBOLS, SYMBOLS
from transduce.text.subwords import encoding_error

if TYPE_CHECKING:
    from transduce.text.subword_training import SentencePiece

THREADS = 4  # the same on every machine, because the result of learning depends on it

UnicodeText = Annotated[str, Field(min_length=1, pattern="^[^\0]*$")]


class MissingLibraryError(ValueError):
    """Raised if the library that is needed for these subwords is not installed."""


class SubwordsContent(Spec):
    """The content of a file that completely describes the subwords of an imported model."""

    version: Literal[1] = 1
    unknown: int = Field(gt=END)
    """The id of text that no subword covers."""
    subwords: tuple[UnicodeText, ...]
    """The subwords in the order of their ids, beginning with the first id after the special symbols."""


Content = TypeVar("Content", bound=SubwordsContent)


class ImportedSubwords(ABC, Generic[Content]):
    """Encodes text with subwords that another program has learned; it has the same methods as `Subwords`.

    Text that no subword covers is encoded as the unknown token. Such text is lost, because decoding can only write a
    placeholder for it.
    """

    content_type: ClassVar[type[Any]]
    says_where_words_end: ClassVar[bool] = False  # if True, no token can extend a word that has ended

    def __init__(self, content: Content) -> None:
        """Creates the subwords that `content` describes.

        Raises ValueError if two ids have the same subword, or if the id of the unknown token does not exist.
        """
        self.content = content
        self.vocabulary = [*SYMBOLS, *content.subwords]
        """The subword for each id."""
        self._ids = {subword: token for token, subword in enumerate(self.vocabulary) if token > END}
        if len(self._ids) + len(SYMBOLS) < len(self.vocabulary):
            raise ValueError("a subword has two ids")
        if content.unknown >= len(self.vocabulary):
            raise ValueError(f"the id {content.unknown} of unknown text is beyond the {len(self.vocabulary)} ids")

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line without adding BOS or EOS; raises ValueError for an unpaired surrogate."""

    @abstractmethod
    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Decodes each sequence of ids, ignoring special symbols."""

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> Self:
        """Parses the content of a file that was written by `save`; error messages refer to the file as `place`."""
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
        """Writes the subwords to a JSON file."""
        atomic_write_text(path, self.as_json())

    def as_json(self) -> str:
        """Returns the content that `save` writes."""
        return self.content.model_dump_json(indent=1)

    @property
    def size(self) -> int:
        """The number of ids, including those of the special symbols."""
        return len(self.vocabulary)

    @cached_property
    def max_subword_bytes(self) -> int:
        """The number of bytes in the longest subword."""
        return max(len(subword.encode()) for subword in self.vocabulary)

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """Always raises ValueError, because these subwords have no merges to drop."""
        self.check_can_drop_merges("these subwords")

    def check_can_drop_merges(self, name: str) -> NoReturn:
        """Always raises ValueError, because these subwords have no merges to drop.

        The error message refers to these subwords as `name`.
        """
        raise ValueError(f"{name} are those of another program, which have no dropout: set subwords.dropout: 0")

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Returns a readable form of each id, in which "▁" marks the beginning of a word and "</s>" stands for EOS."""
        return [self.readable_token(token) for token in ids]

    def readable_token(self, token: int) -> str:
        """Returns the subword for an id, or the readable form of a special symbol, such as "</s>" for EOS."""
        return self.vocabulary[token] if token > END else SHOWN_SYMBOLS[token]


class SentencePieceContent(SubwordsContent):
    """The content of the file for one side: the vocabulary, and the SentencePiece model, a `.spm` file, in base64."""

    type: Literal["SentencePiece"] = "SentencePiece"
    model: str = Field(pattern="^[A-Za-z0-9+/=]+$")


class SentencePieces(ImportedSubwords[SentencePieceContent]):
    """Splits text with a SentencePiece model, unigram or BPE, and looks up the id of each piece in the vocabulary.

    A line may begin with a language code from the vocabulary, such as `>>fra<<`, because OPUS-MT models with several
    target languages require one. The control symbols of a model, such as `</s>`, are never recognised in text.
    """

    content_type = SentencePieceContent

    def __init__(self, content: SentencePieceContent) -> None:
        super().__init__(content)
        self._processor = _processor(b64decode(content.model))
        self._codes = {subword for subword in content.subwords if subword.startswith(">>") and subword.endswith("<<")}

    @property
    def model_file(self) -> bytes:
        """The SentencePiece model, as the content of a `.spm` file."""
        return b64decode(self.content.model)

    @classmethod
    def of_model(cls, model: bytes, place: str) -> Self:
        """Creates the subwords of a SentencePiece model, keeping its pieces in order.

        Error messages refer to the model as `place`.
        """
        pieces = pieces_of_model(model, place)
        unknown = len(SYMBOLS) + _processor(model).unk_id()
        return cls(SentencePieceContent(unknown=unknown, subwords=tuple(pieces), model=b64encode(model).decode()))

    @classmethod
    def learn(cls, lines: Iterable[str], spec: "SentencePiece", *, keeps_characters: bool) -> Self:
        """Learns `spec.size` subwords from `lines`, or fewer if the lines do not yield that many.

        Learning is deterministic. `keeps_characters` turns the library's normalisation off. Raises ValueError if the
        library cannot learn subwords from the text.
        """
        library, model = _library(), BytesIO()
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type=spec.algorithm,
                vocab_size=spec.size - len(SYMBOLS),
                hard_vocab_limit=False,
                byte_fallback=True,
                user_defined_symbols=list(spec.symbols),
                normalization_rule_name="identity" if keeps_characters else "nmt_nfkc",
                **dict.fromkeys(("bos_id", "eos_id", "pad_id"), -1),
                num_threads=THREADS,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(f"SentencePiece cannot learn {spec.size:,} subwords from this text: {error}") from None
        return cls.of_model(model.getvalue(), "the learned model")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content,)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line without adding BOS or EOS; raises ValueError if a line has an unpaired surrogate."""
        codes = [self._code(line) for line in lines]
        try:
            pieces = self._processor.encode(
                [line[len(code) :] for line, code in zip(lines, codes, strict=True)], out_type=str
            )
        except (UnicodeEncodeError, TypeError):  # which one depends on the version of the library
            raise encoding_error(lines) from None
        return [
            [self._ids.get(piece, self.content.unknown) for piece in ([code, *line] if code else line)]
            for code, line in zip(codes, pieces, strict=True)
        ]

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Decodes each sequence of ids, ignoring special symbols; the unknown token becomes ⁇."""
        return [
            self._processor.decode_pieces([self.vocabulary[token] for token in sequence if token > END])
            for sequence in ids
        ]

    def _code(self, line: str) -> str:
        """Returns the language code at the beginning of a line, or an empty string if there is none."""
        end = line.find("<<") + 2
        return line[:end] if end >= 2 and line[:end] in self._codes else ""


def pieces_of_model(model: bytes, place: str) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of their ids.

    Raises ValueError if `model` is not a SentencePiece model; the message begins with `place`.
    """
    try:
        processor = _processor(model)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def _processor(model: bytes) -> Any:
    """Loads a SentencePiece model; raises ValueError if the library is missing or cannot read the model."""
    try:
        return _library().SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"this is not a SentencePiece model ({error})") from None


def _library() -> Any:
    """Imports the SentencePiece library; raises MissingLibraryError if it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibraryError(f"SentencePiece is not installed: {install_command('sentencepiece')}") from None
    return sentencepiece
