"""Adds noise to training pairs, as it is found in real input: capitals, title case, typing errors, and words to copy.

Each kind of noise is applied to a share of the pairs, which is drawn anew for every epoch. With the default shares,
slightly less than half of the pairs stay unchanged.

    capitals   both sides in capital letters         A MAN SLEEPS.       EIN MANN SCHLÄFT.
    title      every source word capitalised         A Man Sleeps.       Ein Mann schläft.
    typos      typing errors in long source words    A man sleesp.       Ein Mann schläft.
    copies     invented words added to both sides    A man sleeps. 🚲    Ein Mann schläft. 🚲

Marian offers capitals and title case (`--all-caps-every`, `--english-title-case-every`), and OpusTrainer offers all
four.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from transduce.settings import Spec
from transduce.text.bpe_dropout import hash_numbers

TYPOS_IN = 0.15  # share of long words with an error, in sentences that were drawn for typing errors
LONG_WORD = re.compile(r"[^\W\d_]{4,}")

Pair = tuple[str, str]


class Noise(Spec):
    """The share of training pairs to which each kind of noise is applied in an epoch."""

    capitals: float = Field(
        default=0.2, ge=0, le=1, description="Share of pairs converted to capital letters on both sides."
    )
    title: float = Field(
        default=0.1, ge=0, le=1, description="Share of pairs in which every source word is capitalised."
    )
    typos: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="Share of pairs with typing errors in the source: swapped, doubled or missing letters.",
    )
    copies: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Share of pairs in which one to three emoji, names, codes or foreign-script words are inserted "
        "into both sides, to teach copying.",
    )

    def draw(self, keys: NDArray[np.uint64]) -> "DrawnNoise":
        """Decides at random which kinds of noise are applied to which pairs.

        `keys` contains a random number for each pair. The result depends only on the keys and the shares.
        """
        case, typos, copies = (hash_numbers(keys ^ np.uint64(kind)) / 2.0**64 for kind in (1, 2, 3))
        return DrawnNoise(
            case < self.capitals,
            (case >= self.capitals) & (case < self.capitals + self.title),
            typos < self.typos,
            copies < self.copies,
        )

    def cased(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Returns a copy of `pairs` with the same shares in capitals and in title case, for learning subwords."""
        keys = hash_numbers(np.arange(len(pairs)))
        drawn = self.replaced(typos=0.0, copies=0.0).draw(keys)
        noisy = {row: drawn.apply(row, pairs[row], int(keys[row])) for row in drawn.rows}
        return [noisy.get(row, pair) for row, pair in enumerate(pairs)]


class DrawnNoise(NamedTuple):
    """The kinds of noise that were drawn for each pair of a batch, as boolean arrays [pairs]."""

    capitals: NDArray[np.bool_]
    title: NDArray[np.bool_]
    typos: NDArray[np.bool_]
    copies: NDArray[np.bool_]

    @property
    def rows(self) -> list[int]:
        """The indices of the pairs that change."""
        return list(map(int, np.flatnonzero(np.any(self, axis=0))))

    def apply(self, row: int, pair: Pair, key: int) -> Pair:
        """Returns `pair`, which has the index `row` in the batch, with the noise that was drawn for it.

        All random choices depend only on `key`.
        """
        draw = random.Random(key).random
        source, target = pair
        if self.typos[row]:
            source = with_typos(source, draw)
        if self.capitals[row]:
            source, target = source.upper(), target.upper()
        if self.title[row]:
            source = " ".join(word[:1].upper() + word[1:] for word in source.split(" "))
        for _ in range(1 + int(3 * draw()) if self.copies[row] else 0):
            source, target = with_copy((source, target), draw)
        return source, target


Draw = Callable[[], float]  # returns a random number in [0, 1)


def with_typos(line: str, draw: Draw) -> str:
    """Adds a typing error to some of the words that have at least four letters."""

    def mistyped(match: re.Match[str]) -> str:
        word = match.group()
        if draw() >= TYPOS_IN:
            return word
        index = 1 + int(draw() * (len(word) - 2))  # the first and the last letter never change
        first, second = word[index], word[index + 1]
        kind = draw()
        # Two swapped letters are the most frequent kind of typing error.
        changed = second + first if kind < 0.6 else second if kind < 0.8 else first + first + second
        return f"{word[:index]}{changed}{word[index + 2 :]}"

    return LONG_WORD.sub(mistyped, line)


def with_copy(pair: Pair, draw: Draw) -> Pair:
    """Inserts the same invented word into both lines.

    It is placed at the end, at the beginning, or at the same relative position in both.
    """
    word, where = invented_word(pair[0], draw), draw()
    if where < 0.5:
        return f"{pair[0]} {word}", f"{pair[1]} {word}"
    share = 0.0 if where < 0.6 else draw()

    def inserted(line: str) -> str:
        words = line.split(" ")
        index = int(share * len(words))
        return " ".join([*words[:index], word, *words[index:]])

    return inserted(pair[0]), inserted(pair[1])


def _letters(alphabet: str) -> Callable[[Draw], str]:
    """Returns a function that generates a random word of two to eight letters.

    `alphabet` gives the first and the last of the letters to draw from.
    """
    first, last = map(ord, alphabet)
    return lambda draw: "".join(chr(first + int(draw() * (last - first + 1))) for _ in range(2 + int(draw() * 7)))


_SCRIPTS = [_letters(ends) for ends in ("αω", "ая", "את", "अह", "ぁん", "ァン", "一龥", "가힣", "กฮ", "აჰ", "աֆ")]
# The first and last code points of ranges of emoji. A range that is listed twice is drawn twice as often.
_EMOJI = [(0x1F600, 0x1F64F), (0x1F600, 0x1F64F), (0x1F330, 0x1F37F), (0x1F400, 0x1F4FF), (0x1F680, 0x1F6C5)]
_EMOJI += [(0x1F910, 0x1F93A), (0x1F940, 0x1F9FF), (0x2600, 0x2604), (0x26BD, 0x26BE)]
_SKIN_TONES, _FLAGS = (0x1F3FB, 0x1F3FF), (0x1F1E6, 0x1F1FF)
_LETTERS, _ACCENTED, _DOMAINS = "abcdefghijklmnopqrstuvwxyz", "àáâäåæçèéêëíîïñóôöøùúûüß", ["com", "net", "org", "de"]
_ONSETS = ["b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "sch", "t", "tr", "v", "w", "z"]
_SYLLABLES = [f"{onset}{vowel}" for onset in _ONSETS for vowel in "aeiou"]


def invented_word(line: str, draw: Draw) -> str:
    """Invents an emoji, a name, a code, an email or web address, or a word in a different script.

    Half of the words in addresses are composed of parts of the words in `line`, because random letters do not form long
    subwords.
    """
    words_of_line = LONG_WORD.findall(line)

    def one_of(choices: Sequence[str]) -> str:
        return choices[int(draw() * len(choices))]

    def number() -> str:
        return str(int(10 ** (1 + 4 * draw())))

    def word() -> str:
        if draw() < 0.1:
            return "".join(one_of(_SYLLABLES) for _ in range(2 + int(draw() * 3))) + one_of(["", "n", "r", "x", "k"])
        return "".join(one_of(_ACCENTED if draw() < 0.05 else _LETTERS) for _ in range(3 + int(draw() * 6)))

    def part() -> str:
        word_of_line = one_of(words_of_line).lower()
        start = int(draw() * (len(word_of_line) - 2))
        return word_of_line[start : start + 2 + int(draw() * 4)]

    def word_of_address() -> str:
        return part() + part() if words_of_line and draw() < 0.5 else word()

    kind = draw()
    if kind < 0.15:
        return _emoji(draw)
    if kind < 0.25:
        return _SCRIPTS[int(draw() * len(_SCRIPTS))](draw)
    if kind < 0.6:
        return word().title() if draw() < 0.6 else word()
    if kind < 0.8:
        letters = word()[:3].upper()
        return one_of(
            [f"{letters}-{number()}", f"{letters}{number()}", f"{word()}_{word()}", f"v{number()}.{number()}"]
        )
    if kind < 0.92:
        name = one_of([one_of(_LETTERS) + ".", word() + ".", ""]) + word_of_address()
        return f"{name}@{word_of_address()}.{one_of(_DOMAINS)}"
    return f"https://{word_of_address()}.{one_of(_DOMAINS)}/{word()}"


def _emoji(draw: Draw) -> str:
    def within(ends: tuple[int, int]) -> str:
        return chr(ends[0] + int(draw() * (ends[1] - ends[0] + 1)))

    kind = draw()
    if kind < 0.05:
        return within(_FLAGS) + within(_FLAGS)
    if kind < 0.1:
        return chr(0x1F44D) + within(_SKIN_TONES)
    return within(_EMOJI[int(draw() * len(_EMOJI))])
