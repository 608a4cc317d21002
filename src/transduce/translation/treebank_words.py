"""Splits raw sentences into words as the Penn Treebank does."""

from collections.abc import Callable

__all__ = ["split_treebank_words"]


def split_treebank_words() -> Callable[[str], list[str]]:
    """Returns NLTK's Treebank tokenizer; raises ValueError where NLTK is not installed."""
    try:
        from nltk.tokenize import TreebankWordTokenizer
    except ImportError:
        raise ValueError(
            "splitting sentences into words needs NLTK: `pip install 'transduce[parsing]'`; or give words between "
            "spaces, and add --tokenised"
        ) from None
    tokenizer = TreebankWordTokenizer()
    return lambda sentence: list(tokenizer.tokenize(sentence))
