"""Text as the Moses scripts leave it, for the BLEUs that papers computed on tokenised text.

The scripts are sacremoses's ports. Two departures of the ports are mended here: the Perl script turns a
lone ’ into a double quote and keeps a space beside « and » (`perl_parity`), and it reads each line with its
line end, so that a full stop moves out of a quotation that ends the line too.
"""

import re
from functools import cache

from sacremoses import MosesPunctNormalizer, MosesTokenizer, __version__

__all__ = ["VERSION", "lowercased_tokenised", "paper_output", "paper_reference"]

VERSION: str = __version__

_COMPOUND = re.compile(r"(\S)-(\S)")
_DOUBLE_QUOTES = re.compile("[„“”‟«»]")


def lowercased_tokenised(line: str, language: str) -> str:
    """`line` lower-cased, then normalised, then tokenised, as the owners of Multi30k prepared their text."""
    normalised = _normaliser(language).normalize(line.lower() + "\n")
    return _tokenised(normalised, language)


def paper_output(line: str, language: str) -> str:
    """A translation as the paper's authors scored it: punctuation to ASCII, tokenised, compounds split."""
    return _split_compounds(_tokenised(_normaliser(language).replace_unicode_punct(line), language))


def paper_reference(line: str, language: str) -> str:
    """A reference as the paper's authors scored it: as a translation, and its double quotes all become `"`.

    The authors' script leaves „ alone and only their copy of newstest2014 has it replaced, so a translation
    that writes „ is charged for it. Here the same.
    """
    return paper_output(_DOUBLE_QUOTES.sub('"', line), language)


def _tokenised(line: str, language: str) -> str:
    tokenised: str = _tokeniser(language).tokenize(line, return_str=True)
    return tokenised


def _split_compounds(line: str) -> str:
    """`rich-text format` as `rich ##AT##-##AT## text format`, which scores three words where one was."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


@cache
def _tokeniser(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@cache
def _normaliser(language: str) -> MosesPunctNormalizer:
    return MosesPunctNormalizer(language, perl_parity=True)
