"""What every search does besides following the model's probabilities: rules that an export must carry to its engine.

| rule | here |
|---|---|
| padding, the begin symbol and source tags are never chosen | `SearchRules.banned` |
| a translation has at least one token | `SearchRules.banned_first` |
| a translation has at most `extra_length` tokens more than its source | `SentenceBatch.max_lengths` |
| a source that is too long is refused, never cut | `LineTranslator.batches` |
"""

from typing import NamedTuple

from transduce.model import Symbols
from transduce.text.token_vocabulary import TokenVocabulary, tags_of

__all__ = ["SearchRules"]


class SearchRules(NamedTuple):
    """The tokens that no search chooses. A model may give them high probabilities, above all on odd lines."""

    banned: tuple[int, ...]
    """Never chosen: padding, the begin symbol, source tags."""
    banned_first: tuple[int, ...]
    """Not chosen as the first token either: the end symbol."""

    @classmethod
    def of(cls, symbols: Symbols, target: TokenVocabulary) -> "SearchRules":
        """Returns the rules of models with these symbols and this target vocabulary."""
        banned = {symbols.pad, symbols.begin, *tags_of(target).values()} - {symbols.end}
        return cls(tuple(sorted(banned)), (symbols.end,))
