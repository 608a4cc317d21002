"""Loads the vocabulary of a side, which consists of subwords or of symbols separated by white space."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from transduce.settings import from_satellite
from transduce.storage.regular_files import read_regular_file
from transduce.text.source_tags import tagged_languages
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary

if TYPE_CHECKING:
    from transduce.text.sentence_pieces import ImportedSubwords

TokenVocabulary: TypeAlias = "Subwords | SymbolVocabulary | ImportedSubwords[Any]"
"""A vocabulary that converts text to token ids and back."""


def subwords_files(*, shared: bool) -> tuple[str, str]:
    """Returns the names of the source and target subword files in a model directory or a token store."""
    return ("tokenizer.json",) * 2 if shared else ("source.tokenizer.json", "target.tokenizer.json")


def load_vocabulary(path: Path) -> TokenVocabulary:
    """Reads a vocabulary from a `tokenizer.json`.

    Raises ValueError, which names the path, if the file is damaged or does not contain a vocabulary.
    """
    return parse_vocabulary(read_regular_file(path), place=str(path))


def parse_vocabulary(content: bytes, *, place: str) -> TokenVocabulary:
    """Parses the content of a `tokenizer.json`; error messages refer to the file as `place`.

    Most models use `Subwords`, so the modules for imported subwords are loaded only if the file needs them.
    """
    # Quotation marks inside JSON strings are escaped, so no subword can look like one of these types.
    if b'"type": "WordLevel"' in content:
        return SymbolVocabulary.parse(content, place=place)
    if b'"type": "SentencePiece"' in content:
        from transduce.text.sentence_pieces import SentencePieces

        return SentencePieces.parse(content, place=place)
    if b'"type": "MosesBpe"' in content:
        vocabulary: TokenVocabulary = from_satellite("transduce.exchange.moses_bpe:MosesBpe").parse(
            content, place=place
        )
        return vocabulary
    return Subwords.parse(content, place=place)


def tags_of(vocabulary: TokenVocabulary) -> dict[str, int]:
    """Returns the source tags of a vocabulary and their ids; only `Subwords` can have tags."""
    return vocabulary.tags if isinstance(vocabulary, Subwords) else {}


def ids_of_tags(vocabulary: TokenVocabulary, tags: Sequence[str]) -> list[int]:
    """Returns the ids of source tags; raises ValueError if the vocabulary lacks one of the tags."""
    ids = tags_of(vocabulary)
    if missing := [tag for tag in tags if tag not in ids]:
        names = ", ".join(ids) or "none"
        raise ValueError(f"the source vocabulary has no tag {missing[0]}, its tags: {names}; train with subwords anew")
    return [ids[tag] for tag in tags]


def names_languages(vocabulary: TokenVocabulary) -> bool:
    """Returns True if sources begin with a tag for the target language, as in a model with several directions."""
    return bool(tagged_languages(tags_of(vocabulary)))


def load_subwords(directory: Path, *, shared: bool) -> tuple[TokenVocabulary, TokenVocabulary]:
    """Reads the vocabularies of source and target from a directory; if `shared` is True, both are in one file."""
    source, target = (directory / name for name in subwords_files(shared=shared))
    loaded = load_vocabulary(source)
    return loaded, target_side(loaded) if shared else load_vocabulary(target)


def target_side(source: TokenVocabulary) -> TokenVocabulary:
    """Returns the vocabulary of the target side when it shares the vocabulary `source`."""
    return source.as_target if isinstance(source, Subwords) else source


def share_subwords(sides: Sequence[TokenVocabulary]) -> bool:
    """Returns True if source and target share one vocabulary, and therefore one file."""
    source, target = sides
    return target is target_side(source)
