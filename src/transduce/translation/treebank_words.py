"""Splits raw sentences into words as the Penn Treebank does."""

from collections.abc import Callable

__all__ = ["split_treebank_words"]


def split_treebank_words() -> Callable[[str], list[str]]:
    """Returns NLTK's tokenizer for sentences; raises ValueError where NLTK is not installed.

    A typographic apostrophe becomes a straight one, because the tokenizer splits only that.
    """
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError:
        raise ValueError(
            "splitting sentences into words needs NLTK: `pip install 'transduce[parsing]'`; or give words between "
            "spaces, and add --tokenised"
        ) from None
    tokenizer = NLTKWordTokenizer()
    return lambda sentence: list(tokenizer.tokenize(sentence.replace("’", "'")))
