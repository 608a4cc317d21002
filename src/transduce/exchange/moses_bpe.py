"""The subwords of fairseq models. The Moses tokeniser splits a text into tokens, and BPE splits these into subwords."""

import html
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import tokenizers
from tokenizers import models, pre_tokenizers

from transduce.text.byte_level import END
from transduce.text.sentence_pieces import ImportedSubwords, SubwordsContent, UnicodeText
from transduce.text.subwords import encoding_error

CONTINUED = "@@"  # the suffix of every subword except the last one of a word
WORD_END = "</w>"  # the suffix of the last letter of a word in merges
UNKNOWN_LETTER = " "  # replaces letters that have no subword; no word contains it


class MosesBpeContent(SubwordsContent):
    """The content of a subword file: vocabulary, merges in order of priority, and language of the Moses tokeniser."""

    type: Literal["MosesBpe"] = "MosesBpe"
    language: str
    merges: tuple[tuple[UnicodeText, UnicodeText], ...]


class MosesBpe(ImportedSubwords[MosesBpeContent]):
    """Encodes text with the Moses tokeniser and BPE.

    The tokeniser also splits hyphenated words with ` @-@ ` and escapes the reserved characters of XML, which are the
    defaults of fairseq's `moses` tokeniser. Decoding joins the subwords and reverts the tokenisation, but does not
    restore the original white space.
    """

    content_type = MosesBpeContent
    says_where_words_end = True

    def __init__(self, content: MosesBpeContent) -> None:
        from sacremoses import MosesDetokenizer, MosesTokenizer  # here because it takes half a second

        super().__init__(content)
        self._tokenise = MosesTokenizer(content.language).tokenize
        self._detokenise = MosesDetokenizer(content.language).detokenize
        symbols = dict.fromkeys([UNKNOWN_LETTER, *_merged_symbols(content)])
        vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
        self._merging = tokenizers.Tokenizer(
            models.BPE(vocabulary, list(content.merges), unk_token=UNKNOWN_LETTER, end_of_word_suffix=WORD_END)
        )
        self._merging.pre_tokenizer = pre_tokenizers.Split(" ", "removed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content,)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line as ids, without BOS and EOS; raises ValueError for an unpaired surrogate."""
        words = [self._tokenise(line, aggressive_dash_splits=True, return_str=True) for line in lines]
        try:
            encodings = self._merging.encode_batch_fast(words, add_special_tokens=False)
        except TypeError:
            raise encoding_error(lines) from None
        return [[self._id_of_merged[number] for number in encoding.ids] for encoding in encodings]

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Decodes each sequence of ids to text, leaving out padding, BOS and EOS.

        The unknown token appears in the text as the vocabulary spells it.
        """
        joined = (" ".join(self.vocabulary[token] for token in sequence if token > END) for sequence in ids)
        return [self._detokenise((line + " ").replace(f"{CONTINUED} ", "").split(), return_str=True) for line in joined]

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Returns each id as readable text, with "▁" at the beginning of each word of the text and "</s>" for EOS.

        Words are separated by spaces, so a word may consist of several Moses tokens, for example "world" and ",".
        """
        ids = list(ids)
        (text,) = self.decode([ids])
        readable, begins_token, position = [], True, 0
        for token in ids:
            subword = self.readable_token(token)
            letters = html.unescape(subword.removesuffix(CONTINUED)).replace("@-@", "-")  # reverts the escapes of Moses
            begins_word = begins_token and token > END
            if token > END and (start := text.find(letters, position)) >= 0 and not text[position:start].strip():
                begins_word = begins_word and (start > position or position == 0)
                position = start + len(letters)
            readable.append("▁" * begins_word + subword.removesuffix(CONTINUED))
            begins_token = not subword.endswith(CONTINUED)
        return readable

    @cached_property
    def _id_of_merged(self) -> list[int]:
        """Our id for each symbol of the BPE tokenizer. Symbols that the vocabulary lacks map to the unknown token."""
        vocabulary = self._merging.get_vocab()
        merged = sorted(vocabulary, key=vocabulary.__getitem__)
        subwords = (
            symbol.removesuffix(WORD_END) if symbol.endswith(WORD_END) else symbol + CONTINUED for symbol in merged
        )
        return [self._ids.get(subword, self.content.unknown) for subword in subwords]


def _merged_symbols(content: MosesBpeContent) -> Iterator[str]:
    """Yields every symbol that a merge joins or produces, and every subword of a single letter."""
    for left, right in content.merges:
        yield from (left, right, left + right)
    for subword in content.subwords:
        letter = subword.removesuffix(CONTINUED)
        if len(letter) == 1:
            yield letter if subword.endswith(CONTINUED) else letter + WORD_END
