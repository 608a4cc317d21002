"""The vocabularies of a side: subwords of text, learnt here or imported, or symbols of linearised trees."""

from pathlib import Path

from transduce.storage.regular_files import read_regular_file
from transduce.text.moses_bpe import MosesBpe
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.subwords import Subwords
from transduce.text.tree_symbols import TreeSymbols

__all__ = ["TokenVocabulary", "load_vocabulary", "parse_vocabulary"]

TokenVocabulary = Subwords | TreeSymbols | SentencePieces | MosesBpe
"""Text to token ids and back."""

# Quotation marks inside of JSON strings are escaped, so that no subword looks like one of these.
KINDS: dict[bytes, type[TreeSymbols | SentencePieces | MosesBpe]] = {
    b'"type": "WordLevel"': TreeSymbols,
    b'"type": "SentencePiece"': SentencePieces,
    b'"type": "MosesBpe"': MosesBpe,
}
"""What a `tokenizer.json` of each kind contains; any other holds `Subwords`."""


def load_vocabulary(path: Path) -> TokenVocabulary:
    """Reads a `tokenizer.json`; raises ValueError with the path for any other or a damaged file."""
    return parse_vocabulary(read_regular_file(path), place=str(path))


def parse_vocabulary(content: bytes, *, place: str) -> TokenVocabulary:
    """Reads the content of a `tokenizer.json`; errors call the file `place`."""
    for mark, kind in KINDS.items():
        if mark in content:
            return kind.parse(content, place=place)
    return Subwords.parse(content, place=place)
