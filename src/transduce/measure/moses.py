"""Prepares text like the Moses scripts, for the BLEU variants that papers computed on tokenised text.

It uses sacremoses's ports of the scripts, and corrects two differences from the Perl scripts. First, the Perl script
turns a lone ’ into a double quote and keeps a space next to « and » (`perl_parity`). Second, the Perl script reads each
line with its line end, so that a full stop also moves out of a quotation that ends the line.
"""

import re
from functools import cache

from sacremoses import MosesPunctNormalizer, MosesTokenizer, __version__

VERSION: str = __version__

_COMPOUND = re.compile(r"(\S)-(\S)")
_DOUBLE_QUOTES = re.compile("[„“”‟«»]")


def lowercased_tokenised(line: str, language: str) -> str:
    """Lower-cases, then normalises, then tokenises a line, as the owners of Multi30k prepared it."""
    normalised = _normaliser(language).normalize(line.lower() + "\n")
    return _tokenise(normalised, language)


def paper_output(line: str, language: str) -> str:
    """A translation as the paper's authors scored it: punctuation in ASCII, tokenised, compounds split."""
    return _split_compounds(_tokenise(_normaliser(language).replace_unicode_punct(line), language))


def paper_reference(line: str, language: str) -> str:
    """A reference as the paper's authors scored it: like a translation, with every double quote as `"`.

    The authors' script leaves „ unchanged. In their copy of newstest2014, it was replaced. A translation with „
    therefore loses points, in the authors' scores as in ours.
    """
    return paper_output(_DOUBLE_QUOTES.sub('"', line), language)


def _tokenise(line: str, language: str) -> str:
    tokenised: str = _tokeniser(language).tokenize(line, return_str=True)
    return tokenised


def _split_compounds(line: str) -> str:
    """Turns `rich-text format` into `rich ##AT##-##AT## text format`: three scored words instead of one."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


@cache
def _tokeniser(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@cache
def _normaliser(language: str) -> MosesPunctNormalizer:
    return MosesPunctNormalizer(language, perl_parity=True)
