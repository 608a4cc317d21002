"""Lossless subword segmentation with byte-level BPE or WordPiece.

A regular expression splits each line into words, and each word is then split into its UTF-8 bytes, which are merged
into subwords (BPE: Sennrich et al. 2016; WordPiece: Schuster and Nakajima 2012, Wu et al. 2016; section 5.1 of the
paper uses both). Every byte is a subword, so there is no unknown text. Encoding adds a space at the beginning of each
line and decoding removes it. A word therefore has the same subwords at the beginning of a line as elsewhere.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models

from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import read_regular_file
from transduce.text.byte_level import (
    BEGIN,
    CONTINUES,
    END,
    LONGEST_WORD,
    PAD,
    SHOWN_SYMBOLS,
    SYMBOLS,
    build_tokenizer,
    byte_letters,
    parse_tokenizer,
    wordpiece_model,
)
from transduce.text.normalisation import Side, normalise, normalizer_rules
from transduce.text.source_tags import subword_of_tag, tag_of_subword

if TYPE_CHECKING:
    from transduce.text.bpe_dropout import ByteSymbols, Merges
    from transduce.text.subword_training import Bpe, WordPiece

CACHE_SIZE = 200_000
"""The approximate number of words whose ids each of the two caches holds; both together take about 100 MB."""

# A text with characters of every kind. A tokenizer file is accepted only if it encodes this text without loss.
PROBE = "".join(map(chr, [*range(0x300), *range(0x300, 0xD000, 0x100), *range(0x10000, 0x110000, 0x10000)]))


class Subwords:
    """Encodes text as token ids and decodes it, either for one side or for two sides that share a vocabulary."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, side: Side | None = None) -> None:
        """Creates subwords from a tokenizer that normalises text by the rules of `side`."""
        self._tokenizer, self.side = tokenizer, side
        # Two caches for the ids of words: the one that is being filled, and the full one that it has replaced.
        self._cache: dict[str, list[int]] = {}
        self._older_cache: dict[str, list[int]] = {}

    @classmethod
    def learn(cls, lines: Iterable[str], spec: "Bpe | WordPiece", side: Side | None = None) -> "Subwords":
        """Learns `spec.size` subwords from `lines`, or fewer if the lines do not yield that many.

        Learning is deterministic. The lines must already be normalised; the resulting subwords normalise text by the
        rules of `side`.
        """
        from transduce.text.subword_training import learn_tokenizer  # here, because translating does not need it

        return cls(learn_tokenizer(lines, spec, side), side)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Reads a file that was written by `save`.

        Raises ValueError, which names the path, if the file is damaged or was not written by `save`.
        """
        return cls.parse(read_regular_file(path), place=str(path))

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> "Subwords":
        """Parses the content of a file that was written by `save`; error messages refer to the file as `place`."""
        try:
            tokenizer = parse_tokenizer(content.decode())
            subwords = cls(tokenizer, _side_of(tokenizer))
            subwords._check()
        except BaseException as error:
            # For some files, the library raises a `PanicException`, which is not a subclass of `Exception` and cannot
            # be imported from any module.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(
                f"{place} holds no subwords of transduce, or is damaged ({error}); "
                "take the file from a backup, or prepare and train again"
            ) from None
        return subwords

    def with_tags(self, tags: Sequence[str]) -> "Subwords":
        """Returns these subwords with an additional id for each of `tags`; text is never encoded as a tag."""
        if not tags:
            return self
        description = json.loads(self._tokenizer.to_str())
        vocabulary = description["model"]["vocab"]
        vocabulary |= {subword_of_tag(tag): token for token, tag in enumerate(tags, start=self.size)}
        return Subwords(parse_tokenizer(json.dumps(description, ensure_ascii=False)), self.side)

    @cached_property
    def as_target(self) -> "Subwords":
        """These subwords for use on the target side, if source and target share them.

        The target side has other normalisation rules than the source side, but both sides are saved in one file.
        """
        return TargetSubwords(_for_target(self._tokenizer), self) if self.side == "source" else self

    @cached_property
    def tags(self) -> dict[str, int]:
        """The source tags and their ids, sorted by id."""
        tags = {token: tag_of_subword(subword) for subword, token in self._tokenizer.get_vocab().items()}
        return {tag: token for token, tag in sorted(tags.items()) if tag is not None}

    def save(self, path: Path) -> None:
        """Writes the subwords to a JSON file with which Hugging Face's `tokenizers` returns the same ids."""
        atomic_write_text(path, self.as_json())

    def as_json(self) -> str:
        """Returns the content that `save` writes."""
        return str(self._tokenizer.to_str(pretty=True))

    @property
    def size(self) -> int:
        """The number of ids, including those of the special symbols and tags."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes each line without adding BOS or EOS; raises ValueError if a line contains an unpaired surrogate."""
        try:
            return self._encode(self.normalise(lines))
        except TypeError:
            raise encoding_error(lines) from None

    def normalise(self, lines: Sequence[str]) -> Sequence[str]:
        """Applies the normalisation rules of the side and returns the text that would be encoded."""
        return lines if self.side is None else [normalise(line, self.side) for line in lines]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encodes lines word by word, and caches the ids of each word between spaces."""
        words = [_words(line) for line in lines]
        whole_lines = iter(self._encode_uncached([line for line, parts in zip(lines, words, strict=True) if not parts]))
        if len(self._cache) > CACHE_SIZE:
            self._cache, self._older_cache = {}, self._cache  # frequent words will soon be in the new cache
        # Local variables refer to the caches, because other threads may swap the attributes during this call.
        cache, older = self._cache, self._older_cache
        missing = set(chain.from_iterable(words)).difference(cache)
        # The older cache is searched only once, because other threads may add words to it in the meantime.
        recalled = {word: older[word] for word in missing if word in older}
        new = list(missing - recalled.keys())
        cache.update(recalled)
        cache.update(zip(new, self._encode_words(new), strict=True))
        return [
            list(chain.from_iterable(map(cache.__getitem__, parts))) if parts else next(whole_lines) for parts in words
        ]

    def _encode_uncached(self, texts: list[str]) -> list[list[int]]:
        """Encodes each text with the `tokenizers` library, without using the caches."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]

    def _encode_words(self, words: list[str]) -> list[list[int]]:
        """Returns the ids of each word.

        The words are encoded as a single text, because the library is slow if there are many texts.
        """
        if not words:
            return []
        (ids,) = self._encode_uncached([" ".join(words)])
        starts = np.flatnonzero(self.begins_word[ids]).tolist()
        return [ids[start:stop] for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)]

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """Encodes each line with BPE-dropout, which drops merges at random with the given probability.

        The ids of a line depend only on the line and its key. Raises ValueError for WordPiece, which has no merges.
        """
        lines = self.normalise(lines)
        symbols = self._byte_symbols(lines, keys)
        merged = self._merges.apply(symbols, probability)
        ends = np.cumsum([len(line.encode()) + 1 if line else 0 for line in lines])
        return [ids[ids >= 0] for ids in np.split(merged, ends[:-1])]

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Decodes each sequence of ids, ignoring special symbols and source tags.

        Bytes that are not valid UTF-8 are replaced with U+FFFD.
        """
        tags = frozenset(self.tags.values())
        tokens = [[int(token) for token in sequence if token > END and token not in tags] for sequence in ids]
        return list(self._tokenizer.decode_batch(tokens, skip_special_tokens=False))

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Returns a readable form of each id.

        Spaces are shown as "▁", incomplete characters as escapes, and special symbols and tags in angle brackets, for
        example "</s>" and "<to:de>".
        """
        readable = {**dict(enumerate(SHOWN_SYMBOLS)), **{token: f"<{tag}>" for tag, token in self.tags.items()}}
        return [readable[token] if token in readable else _make_readable(self.subword_bytes[token]) for token in ids]

    def _byte_symbols(self, lines: Sequence[str], keys: NDArray[np.uint64]) -> "ByteSymbols":
        """Returns the bytes of all lines as unmerged symbols, grouped into the words that the library finds."""
        from transduce.text.bpe_dropout import ByteSymbols  # imported here, because only training drops merges

        # Not `encode_batch_fast`, whose results have no `word_ids`.
        encodings = self._tokenizer.encode_batch(list(lines))
        line = np.repeat(np.arange(len(lines)), [len(encoding) for encoding in encodings])
        word = np.fromiter(chain.from_iterable(encoding.word_ids for encoding in encodings), np.int64, len(line))
        begins = (np.diff(word, prepend=-1) != 0) | (np.diff(line, prepend=-1) != 0)
        texts = [self.subword_bytes[token] for encoding in encodings for token in encoding.ids]
        lengths = [len(text) for text in texts]
        letters = np.array([self._tokenizer.token_to_id(letter) for letter in byte_letters()])
        line = np.repeat(line, lengths)
        start = np.arange(len(line))
        return ByteSymbols(
            ids=letters[np.frombuffer(b"".join(texts), np.uint8)],
            word=np.repeat(np.cumsum(begins), lengths),
            key=keys[line],
            place=start - np.searchsorted(line, line),
            start=start,
        )

    @property
    def has_merges(self) -> bool:
        """True for BPE; WordPiece subwords have no merges."""
        return isinstance(self._tokenizer.model, models.BPE)

    def check_can_drop_merges(self, name: str) -> None:
        """Raises ValueError for WordPiece, which has no merges to drop.

        The error message refers to these subwords as `name`.
        """
        if not self.has_merges:
            raise ValueError(f"{name} are WordPiece, which has no merges to drop: set subwords.dropout: 0")

    @cached_property
    def _merges(self) -> "Merges":
        """The merges of BPE; raises ValueError for WordPiece, which has none."""
        from transduce.text.bpe_dropout import Merges

        self.check_can_drop_merges("these subwords")
        model = json.loads(self._tokenizer.to_str())["model"]
        ids = model["vocab"]
        return Merges([(ids[left], ids[right], ids[left + right]) for left, right in model["merges"]])

    @cached_property
    def subword_bytes(self) -> list[bytes]:
        """The bytes of each token, indexed by id; special symbols and source tags have no bytes."""
        byte = {letter: code for code, letter in enumerate(byte_letters())}
        subwords = {token: subword for subword, token in self._tokenizer.get_vocab().items() if token > END}
        subwords |= dict.fromkeys(self.tags.values(), "")
        letters = (subwords[token].removeprefix(CONTINUES) for token in range(END + 1, self.size))
        return [b""] * len(SYMBOLS) + [bytes(byte[letter] for letter in subword) for subword in letters]

    @cached_property
    def vocabulary(self) -> list[str]:
        """The strings that represent the tokens in the saved file, in the order of their ids."""
        return sorted(ids := self._tokenizer.get_vocab(), key=ids.__getitem__)

    @cached_property
    def max_subword_bytes(self) -> int:
        """The number of bytes in the longest subword."""
        return max(map(len, self.subword_bytes))

    @cached_property
    def begins_word(self) -> NDArray[np.bool_]:
        """A mask of the ids that begin with a space, as only the first id of a word does."""
        return np.array([subword.startswith(b" ") for subword in self.subword_bytes])

    def _rules(self) -> dict[str, Any]:
        """Returns the JSON description of the tokenizer without its vocabulary and its merges."""
        rules: dict[str, Any] = json.loads(self._tokenizer.to_str())
        rules["model"] = {key: value for key, value in rules["model"].items() if key not in ("vocab", "merges")}
        return rules

    def _check(self) -> None:
        """Raises ValueError if the tokenizer is not one that `learn` could have created.

        Its rules must be those of `learn`, it must have all special symbols and bytes, and decoding must recover the
        encoded text.
        """
        kind = "bpe" if isinstance(self._tokenizer.model, models.BPE) else "wordpiece"
        if self._rules() != _rules(kind, self.side):
            raise ValueError("it splits text by other rules")
        vocabulary = self._tokenizer.get_vocab()
        if [vocabulary.get(symbol) for symbol in SYMBOLS] != [PAD, BEGIN, END]:
            raise ValueError("its first three ids are not the symbols")
        marks = ("", CONTINUES) if isinstance(self._tokenizer.model, models.WordPiece) else ("",)
        if missing := {mark + letter for mark in marks for letter in byte_letters()} - vocabulary.keys():
            raise ValueError(f"it lacks {len(missing)} of the 256 bytes")
        if self.decode(self.encode([PROBE])) != self.normalise([PROBE]) or len(self.subword_bytes) != self.size:
            raise ValueError("decoding does not give back the encoded text")


class TargetSubwords(Subwords):
    """The subwords of a source when they are used for the target side; they are saved in the source's file."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, source: Subwords) -> None:
        super().__init__(tokenizer, "target")
        self.source = source

    def as_json(self) -> str:
        """Returns the content of the file that both sides share."""
        return self.source.as_json()


@lru_cache(maxsize=8)
def _for_target(source: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Builds a tokenizer that shares the model of `source` but has the normalisation rules of the target side.

    The results are cached for the reason that is given in `parse_tokenizer`.
    """
    return build_tokenizer(source.model, "target")


@cache
def _rules(kind: str, side: Side | None) -> dict[str, Any]:
    """Returns the JSON description of a tokenizer without subwords, as the installed library version writes it."""
    return Subwords(build_tokenizer(models.BPE() if kind == "bpe" else wordpiece_model([]), side))._rules()


def _side_of(tokenizer: tokenizers.Tokenizer) -> Side | None:
    """Returns the side whose normalisation rules a tokenizer uses, or None if it has no such rules.

    This function only counts the rules; `_check` later compares the rules themselves.
    """
    rules = json.loads(tokenizer.to_str())["normalizer"]
    count = len(rules.get("normalizers", ()))
    return "source" if count > len(normalizer_rules("target")) + 1 else "target" if count else None


def _words(line: str) -> list[str]:
    """Splits a line into words that can be encoded one by one.

    The line is split at single spaces, because no subword crosses a single space between two other characters. Returns
    an empty list if the line has other white space or a very long word, in which case it must be encoded as a whole.
    """
    words = line.split(" ")
    return words if words == line.split() and len(max(words, key=len)) <= LONGEST_WORD else []


def _make_readable(text: bytes) -> str:
    """Converts bytes to printable text, with "▁" for spaces and escapes for everything that cannot be displayed."""
    readable = text.decode("utf-8", "backslashreplace").replace(" ", "▁")
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter)[0] in "CZ" else letter
        for letter in readable
    )


def encoding_error(lines: Sequence[str]) -> Exception:
    """Returns the error to raise for lines that the library does not accept.

    It is a TypeError if a line is not a str, and a ValueError if a line contains an unpaired surrogate.
    """
    for line_number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            return TypeError(f"line {line_number} is {type(line).__name__}, not str")
        try:
            line.encode()
        except UnicodeEncodeError as error:
            return ValueError(
                f"line {line_number} holds {line[error.start]!a}, half a surrogate pair, at character "
                f"{error.start + 1}: no UTF-8 text has it; decode the text again, with errors='replace' if it must be"
            )
    raise AssertionError("the library refused lines that are text")
