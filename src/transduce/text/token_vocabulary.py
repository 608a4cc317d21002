"""The vocabularies of a side: subwords of text, or symbols of linearised trees."""

from pathlib import Path

from transduce.storage.regular_files import read_regular_file
from transduce.text.subwords import Subwords
from transduce.text.tree_symbols import TreeSymbols

__all__ = ["TokenVocabulary", "load_vocabulary", "parse_vocabulary"]

TokenVocabulary = Subwords | TreeSymbols
"""Text to token ids and back."""


def load_vocabulary(path: Path) -> TokenVocabulary:
    """Reads a `tokenizer.json`; raises ValueError with the path for any other or a damaged file."""
    return parse_vocabulary(read_regular_file(path), place=str(path))


def parse_vocabulary(content: bytes, *, place: str) -> TokenVocabulary:
    """Reads the content of a `tokenizer.json`; errors call the file `place`."""
    # Quotation marks inside of JSON strings are escaped, so that no subword looks like this.
    is_tree_symbols = b'"type": "WordLevel"' in content
    return (TreeSymbols if is_tree_symbols else Subwords).parse(content, place=place)
