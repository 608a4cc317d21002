"""Preprocesses text like the Moses scripts, for the variants of BLEU that papers compute on tokenised text.

The functions use the ports of the scripts in sacremoses, and correct two differences between the ports and the Perl
scripts. First, the Perl script turns a lone ’ into a double quote and keeps the space next to « and »; the option
`perl_parity` enables this. Second, the Perl script reads each line together with its newline character, and therefore
also moves a full stop out of a quotation at the end of a line.
"""

import re
from functools import cache

from sacremoses import MosesPunctNormalizer, MosesTokenizer, __version__

VERSION: str = __version__

_COMPOUND = re.compile(r"(\S)-(\S)")
_DOUBLE_QUOTES = re.compile("[„“”‟«»]")


def lowercased_tokenised(line: str, language: str) -> str:
    """Lower-cases, normalises and tokenises a line, as the authors of Multi30k did."""
    normalised = _normaliser(language).normalize(line.lower() + "\n")
    return _tokenise(normalised, language)


def paper_output(line: str, language: str) -> str:
    """Preprocesses a translation as the paper's authors did before they computed BLEU.

    Unicode punctuation is replaced with ASCII, the line is tokenised, and compounds are split.
    """
    return _split_compounds(_tokenise(_normaliser(language).replace_unicode_punct(line), language))


def paper_reference(line: str, language: str) -> str:
    """Preprocesses a reference as the paper's authors did before they computed BLEU.

    A reference is treated like a translation, but every double quote is first replaced with `"`. The authors' script
    does not replace „, but it had already been replaced in their copy of newstest2014. A translation that contains „
    therefore loses points, in the authors' scores as well as in ours.
    """
    return paper_output(_DOUBLE_QUOTES.sub('"', line), language)


def _tokenise(line: str, language: str) -> str:
    tokenised: str = _tokeniser(language).tokenize(line, return_str=True)
    return tokenised


def _split_compounds(line: str) -> str:
    """Turns `rich-text format` into `rich ##AT##-##AT## text format`, so that a compound is scored as several words."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


@cache
def _tokeniser(language: str) -> MosesTokenizer:
    return MosesTokenizer(language)


@cache
def _normaliser(language: str) -> MosesPunctNormalizer:
    return MosesPunctNormalizer(language, perl_parity=True)
