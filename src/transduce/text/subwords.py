"""Subwords: BPE and word-pieces over bytes, learnt from text, applied to it, and undone without loss.

A line is cut into words by one regular expression, a word into its UTF-8 bytes, and the bytes are joined again
by what was learnt (Sennrich et al. 2016 for BPE, Wu et al. 2016 for word-pieces; section 5.1 of the paper uses
both). As every byte is itself a subword, nothing is unknown. A space is put before each line, so that a word is
the same subword at the beginning of a line as inside it, and taken away again by decoding.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray
from pydantic import Field
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from transduce.settings import Spec
from transduce.text.bpe_dropout import ByteSymbols, Merges

__all__ = ["BEGIN", "END", "PAD", "Bpe", "Subwords", "SubwordsSpec", "WordPiece"]

PAD, BEGIN, END = 0, 1, 2
"""Ids of the three symbols that are no text."""

# The brackets are no letters of the byte alphabet, so no text, whatever it says, is ever cut into these.
SYMBOLS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")

# What follows the first piece of a word in word-pieces; it is no letter of the byte alphabet either.
CONTINUES = "‿"

# Letters with their marks, across one apostrophe; digits; punctuation; space. Each takes one space before it.
# The bounds keep the cost of a word bounded where a line has no spaces.
LONGEST_WORD = 64
WORD = "|".join(
    expression.replace("+", f"{{1,{LONGEST_WORD}}}")
    for expression in (
        r" ?[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)?",
        r" ?\p{N}+",
        r" ?[^\s\p{L}\p{M}\p{N}]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
LONGEST_WORD_IN_BYTES = 4 * (2 * LONGEST_WORD + 2)

SMALLEST = len(SYMBOLS) + 256

# Subwords, at most: the library takes room for all of them before it learns, and dies where there is not so much.
LARGEST = 1_000_000

REMEMBERED = 200_000
"""Parts of lines whose ids are remembered, about, of either age: some 100 MB in all."""

# What `readable_subwords` calls the symbols.
SHOWN_SYMBOLS = ("<pad>", "<s>", "</s>")

# Some of every kind of character; a file that gives it back is taken to be whole.
PROBE = "".join(map(chr, [*range(0x300), *range(0x300, 0xD000, 0x100), *range(0x10000, 0x110000, 0x10000)]))


class Bpe(Spec):
    """Byte-pair encoding: the most frequent pair of neighbours is joined, again and again."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(default=10_000, ge=SMALLEST, le=LARGEST)
    shared: bool = True
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)


class WordPiece(Spec):
    """Word-pieces: a word is cut into the longest pieces of a vocabulary, from left to right."""

    kind: Literal["wordpiece"] = "wordpiece"
    size: int = Field(default=10_000, ge=SMALLEST + 256, le=LARGEST)
    shared: bool = True


SubwordsSpec = Annotated[Bpe | WordPiece, Field(discriminator="kind")]


class Subwords:
    """The subwords of one side, or of both where they are shared."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The ids of what stands between two spaces: of what was met lately, and of what was met before that.
        self._known: dict[str, list[int]] = {}
        self._before: dict[str, list[int]] = {}

    @classmethod
    def learn(cls, lines: Iterable[str], spec: Bpe | WordPiece) -> "Subwords":
        """Learns `spec.size` subwords, or as many as `lines` give; the same lines give the same subwords."""
        tokenizer = _around(models.BPE() if spec.kind == "bpe" else models.WordPiece())
        tokenizer.train_from_iterator(iter(lines), _trainer(spec))
        description = json.loads(tokenizer.to_str())
        # As added tokens the symbols would be looked for in every text.
        description["added_tokens"] = []
        if spec.kind == "wordpiece":
            # The format wants a name for unknown words, though there are none.
            description["model"] |= {"unk_token": SYMBOLS[PAD], "max_input_chars_per_word": LONGEST_WORD_IN_BYTES}
        return cls(tokenizers.Tokenizer.from_str(json.dumps(description, ensure_ascii=False)))

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Reads what `save` wrote; a `ValueError` names the file if it is something else, or damaged."""
        return cls.parse(path.read_bytes(), place=str(path))

    @classmethod
    def parse(cls, content: bytes, *, place: str) -> "Subwords":
        """The same from a file's content; `place` is what errors call it."""
        try:
            subwords = cls(tokenizers.Tokenizer.from_str(content.decode()))
            subwords._check()
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(
                f"{place} holds no subwords of transduce, or is damaged ({error}); "
                "take the file from a backup, or prepare and train again"
            ) from None
        return subwords

    def save(self, path: Path) -> None:
        """Writes one JSON file that Hugging Face's `tokenizers` reads and that gives the same ids there."""
        path.write_bytes(self.as_json().encode())

    def as_json(self) -> str:
        """What `save` writes."""
        return str(self._tokenizer.to_str(pretty=True))

    @property
    def size(self) -> int:
        """The number of ids."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, no symbols added; `ValueError` for what UTF-8 cannot hold (half a surrogate pair)."""
        try:
            return self._encoded(lines)
        except TypeError:
            raise _surrogate_in(lines) from None

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        """As `encode`; what stands between two spaces is cut once and remembered, for text repeats itself."""
        parts = [_parts(line) for line in lines]
        whole = iter(self._cut([line for line, cut in zip(lines, parts) if not cut]))
        if len(self._known) > REMEMBERED:
            self._known, self._before = {}, self._known  # what is frequent will soon be met again
        known, before = self._known, self._before  # the same for all of this call, whatever other threads do
        unknown = set(chain.from_iterable(parts)).difference(known)
        again = {part: before[part] for part in unknown if part in before}  # once: other threads may add to it
        new = list(unknown - again.keys())
        known.update(again)
        known.update(zip(new, self._cut_parts(new), strict=True))
        return [list(chain.from_iterable(map(known.__getitem__, cut))) if cut else next(whole) for cut in parts]

    def _cut(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, by the library."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]

    def _cut_parts(self, parts: list[str]) -> list[list[int]]:
        """The ids of each part of a line: all in one text, for a text costs the library more than its words do."""
        if not parts:
            return []
        (ids,) = self._cut([" ".join(parts)])
        starts = np.flatnonzero(self._after_space[ids]).tolist()
        return [ids[start:stop] for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)]

    def encode_with_dropout(
        self, lines: Sequence[str], probability: float, keys: NDArray[np.uint64]
    ) -> list[NDArray[np.int64]]:
        """As `encode`, each merge left out with `probability`; what comes of a line depends on it and its key alone.

        `ValueError` where these are no BPE, which alone has merges.
        """
        symbols = self._symbols(lines, keys)
        merged = self._merges.mixed(symbols, probability)
        ends = np.cumsum([len(line.encode()) + 1 if line else 0 for line in lines])
        return [ids[ids >= 0] for ids in np.split(merged, ends[:-1])]

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """The text of each sequence, symbols left out; bytes that make no UTF-8 become U+FFFD."""
        words = [[int(word) for word in sequence if word > END] for sequence in ids]
        return list(self._tokenizer.decode_batch(words, skip_special_tokens=False))

    def readable_subwords(self, ids: Iterable[int]) -> list[str]:
        """Each id as people read it: "▁" for a space, escapes for parts of characters, "</s>" for the end."""
        return [_readable(self._bytes[word]) if word > END else SHOWN_SYMBOLS[word] for word in ids]

    def _symbols(self, lines: Sequence[str], keys: NDArray[np.uint64]) -> ByteSymbols:
        """The bytes of all lines, none merged; which of them make a word the library says."""
        # The fast way of encoding does not tell the words.
        encodings = self._tokenizer.encode_batch(list(lines))
        line = np.repeat(np.arange(len(lines)), [len(encoding) for encoding in encodings])
        word = np.fromiter(chain.from_iterable(encoding.word_ids for encoding in encodings), np.int64, len(line))
        begins = (np.diff(word, prepend=-1) != 0) | (np.diff(line, prepend=-1) != 0)
        texts = [self._bytes[piece] for encoding in encodings for piece in encoding.ids]
        lengths = [len(text) for text in texts]
        letters = np.array([self._tokenizer.token_to_id(letter) for letter in _byte_letters()])
        line = np.repeat(line, lengths)
        start = np.arange(len(line))
        return ByteSymbols(
            ids=letters[np.frombuffer(b"".join(texts), np.uint8)],
            word=np.repeat(np.cumsum(begins), lengths),
            key=keys[line],
            place=start - np.searchsorted(line, line),
            start=start,
        )

    def check_merges(self, whose: str) -> None:
        """A `ValueError` where there is no merge to leave out of these subwords, which are called `whose`."""
        if not isinstance(self._tokenizer.model, models.BPE):
            raise ValueError(f"{whose} are word-pieces, and have no merges to leave out: set subwords.dropout: 0")

    @cached_property
    def _merges(self) -> Merges:
        self.check_merges("these subwords")
        model = json.loads(self._tokenizer.to_str())["model"]
        ids = model["vocab"]
        return Merges([(ids[left], ids[right], ids[left + right]) for left, right in model["merges"]])

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes that each id stands for."""
        byte = {letter: code for code, letter in enumerate(_byte_letters())}
        spelt = {word: piece for piece, word in self._tokenizer.get_vocab().items() if word > END}
        text = (spelt[word].removeprefix(CONTINUES) for word in range(END + 1, self.size))
        return [b""] * len(SYMBOLS) + [bytes(byte[letter] for letter in piece) for piece in text]

    @cached_property
    def _after_space(self) -> NDArray[np.bool_]:
        """Whether each id begins with a space, as the first of a part does and no other."""
        return np.array([spelt.startswith(b" ") for spelt in self._bytes])

    def _rules(self) -> dict[str, Any]:
        """All of the file but what was learnt."""
        rules: dict[str, Any] = json.loads(self._tokenizer.to_str())
        rules["model"] = {key: value for key, value in rules["model"].items() if key not in ("vocab", "merges")}
        return rules

    def _check(self) -> None:
        """Raises where text is cut otherwise than `learn` has it cut, a symbol or byte is missing, or text is lost."""
        kind = "bpe" if isinstance(self._tokenizer.model, models.BPE) else "wordpiece"
        if self._rules() != _rules(kind):
            raise ValueError("it cuts text by other rules")
        known = self._tokenizer.get_vocab()
        if [known.get(symbol) for symbol in SYMBOLS] != [PAD, BEGIN, END]:
            raise ValueError("its first three ids are not the symbols")
        marks = ("", CONTINUES) if isinstance(self._tokenizer.model, models.WordPiece) else ("",)
        if missing := {mark + letter for mark in marks for letter in _byte_letters()} - known.keys():
            raise ValueError(f"it lacks {len(missing)} of the 256 bytes")
        if self.decode(self.encode([PROBE])) != [PROBE] or len(self._bytes) != self.size:
            raise ValueError("it does not give back what it was given")


@cache
def _rules(kind: str) -> dict[str, Any]:
    """The rules of subwords that were learnt from nothing, as this version of the library writes them."""
    return Subwords.learn([], Bpe(size=SMALLEST) if kind == "bpe" else WordPiece(size=SMALLEST + 256))._rules()


def _around(model: Any) -> tokenizers.Tokenizer:
    """`model` between what cuts text into words of bytes and what joins them again."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(CONTINUES, ""), decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def _parts(line: str) -> list[str]:
    """What stands between spaces, where the ids of a line are those of its parts; nothing where they may not be.

    No word goes across a space that is alone between two characters that are none.
    """
    parts = line.split(" ")
    return parts if parts == line.split() and len(max(parts, key=len)) <= LONGEST_WORD else []


def _trainer(spec: Bpe | WordPiece) -> Any:
    letters = _byte_letters()
    settings: dict[str, Any] = {
        "vocab_size": spec.size,
        "min_frequency": 2,
        "initial_alphabet": letters,
        "show_progress": False,
    }
    if spec.kind == "bpe":
        return trainers.BpeTrainer(**settings, special_tokens=list(SYMBOLS))
    # Named beforehand, the continuing bytes are all there, and under ids that do not depend on the order of a hash.
    continuing = [CONTINUES + letter for letter in letters]
    return trainers.WordPieceTrainer(
        **settings, special_tokens=[*SYMBOLS, *continuing], continuing_subword_prefix=CONTINUES
    )


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a `tokenizer.json`: GPT-2's alphabet, in which all are visible."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(code if code in visible else next(substitutes)) for code in range(0x100)]


def _readable(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace").replace(" ", "▁")
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter)[0] in "CZ" else letter
        for letter in shown
    )


def _surrogate_in(lines: Sequence[str]) -> Exception:
    """What was wrong with the lines that the library refused."""
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            return TypeError(f"line {number} is {type(line).__name__}, not str")
        try:
            line.encode()
        except UnicodeEncodeError as error:
            return ValueError(
                f"line {number} holds {line[error.start]!a}, half a surrogate pair, at character {error.start + 1}: "
                "no UTF-8 text has it; decode the text again, with errors='replace' if it must be"
            )
    raise AssertionError("the library refused lines that are text")
