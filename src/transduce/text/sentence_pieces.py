"""SentencePiece models as subwords (Kudo and Richardson 2018), with a vocabulary of their own or another's."""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from transduce.text.byte_level import END
from transduce.text.imported_subwords import ImportedSubwords, MissingLibraryError, SubwordsContent
from transduce.text.subwords import encoding_error


class SentencePieceContent(SubwordsContent):
    """The file of a side: the vocabulary, and the SentencePiece model, a `.spm` file, in base64."""

    type: Literal["SentencePiece"] = "SentencePiece"
    model: str = Field(pattern="^[A-Za-z0-9+/=]+$")


class SentencePieces(ImportedSubwords[SentencePieceContent]):
    """Splits text by a SentencePiece model, unigram or BPE, and finds the id of each piece in the vocabulary.

    A line may begin with a language code such as `>>fra<<` that the vocabulary has, as OPUS-MT's models of several
    target languages need. The symbols of a model, such as `</s>`, are never found in text.
    """

    content_type = SentencePieceContent

    def __init__(self, content: SentencePieceContent) -> None:
        super().__init__(content)
        self._processor = _processor(b64decode(content.model))
        self._codes = {subword for subword in content.subwords if subword.startswith(">>") and subword.endswith("<<")}

    @property
    def model_file(self) -> bytes:
        """The content of the SentencePiece model, a `.spm` file."""
        return b64decode(self.content.model)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content,)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, no symbols added; raises ValueError for half a surrogate pair."""
        codes = [self._code(line) for line in lines]
        try:
            pieces = self._processor.encode(
                [line[len(code) :] for line, code in zip(lines, codes, strict=True)], out_type=str
            )
        except (UnicodeEncodeError, TypeError):  # versions of the library differ
            raise encoding_error(lines) from None
        return [
            [self._ids.get(piece, self.content.unknown) for piece in ([code, *line] if code else line)]
            for code, line in zip(codes, pieces, strict=True)
        ]

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each sequence without symbols; the unknown token becomes ⁇."""
        return [
            self._processor.decode_pieces([self.vocabulary[token] for token in sequence if token > END])
            for sequence in ids
        ]

    def _code(self, line: str) -> str:
        """Returns the language code with which the line begins; an empty string without one."""
        end = line.find("<<") + 2
        return line[:end] if end >= 2 and line[:end] in self._codes else ""


def pieces_of_model(model: bytes, place: str) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of its ids; raises ValueError where it is none."""
    try:
        processor = _processor(model)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def _processor(model: bytes) -> Any:
    """Loads a SentencePiece model; raises ValueError where the library is missing, or refuses the model."""
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibraryError(
            "the subwords of this model need SentencePiece: `pip install 'transduce[sentencepiece]'`"
        ) from None
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"this is no SentencePiece model ({error})") from None
