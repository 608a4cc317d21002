"""Plants faults into clean corpora and counts what the checks find: `python spoiled_corpora.py [--pairs 30000]`.

Reads the corpora of `TRANSDUCE_DATA`. Each fault is planted alone, into three pairs and into 1 % of the pairs. A pair
is named wrongly where it is neither planted nor named in the clean corpus. The second table has lines out of step, and
the third the pairs of clean corpora that each check names.
"""

import argparse
import random
import time
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

from data_folder import data_folder

from transduce.corpus.corpus_kinds import Files
from transduce.corpus.misalignment import find_misalignment
from transduce.corpus.readers import read_pairs
from transduce.inspection.inspector import PairInspector
from transduce.inspection.languages import PairLanguages, load_language_identifier
from transduce.inspection.line_checks import Check

Pair = tuple[str, str]

SPOILED = (("multi30k/train", "en", "de"), ("europarl-en-de/europarl.20k", "en", "de"))
NEWS = [(f"newstest/en-de/newstest{year}", "en", "de") for year in range(2009, 2019)]
NEWS_FR = [(f"newstest/en-fr/newstest{year}", "en", "fr") for year in range(2009, 2015)]
CLEAN = (
    *(("multi30k/train", "en", language) for language in ("de", "fr", "cs")),
    ("europarl-en-de/europarl.20k", "en", "de"),
    ("tatoeba-en-de/train", "en", "de"),
    ("tatoeba-en-fr/train", "en", "fr"),
    ("bcontrast-en-de/train", "en", "de"),
    ("pydocs-en-fr/pydocs", "en", "fr"),
    *NEWS,
    *NEWS_FR,
)
CYRILLIC = str.maketrans("abcdefghijklmnoprstuvyzw", "абцдефгхийклмнопрстувызв")


def data() -> Path:
    """Returns the folder of the corpora."""
    return data_folder("multi30k/, europarl-en-de/, newstest/, tatoeba-*/, bcontrast-en-de/ and pydocs-en-fr/")


@cache
def french_lines() -> list[str]:
    """Returns French sentences of some length."""
    lines = (data() / "newstest/en-fr/newstest2013.fr").read_text("utf-8").split("\n")
    return [line for line in lines if len(line) > 40]


def change_number(target: str) -> str:
    """Adds one to the last digit of the first number of two digits or more."""
    for place in range(1, len(target)):
        if target[place].isdigit() and target[place - 1].isdigit() and not target[place + 1 : place + 2].isdigit():
            return target[:place] + str((int(target[place]) + 1) % 10) + target[place + 1 :]
    return target


def has_number(pair: Pair) -> bool:
    """Judges whether both sides have the same number of two to four digits and no other digits."""
    digits = ["".join(letter for letter in side if letter.isdigit()) for side in pair]
    return (
        digits[0] == digits[1]
        and 2 <= len(digits[0]) <= 4
        and all(d in side for d, side in zip(digits, pair, strict=True))
    )


def has_accents(pair: Pair) -> bool:
    """Judges whether the target has a letter beyond ASCII."""
    return not pair[1].isascii()


def is_sentence(pair: Pair) -> bool:
    """Judges whether both sides have 40 characters or more."""
    return min(map(len, pair)) >= 40


Spoil = Callable[[Pair, Pair, random.Random], Pair]  # of a pair and an earlier pair

FAULTS: dict[Check, tuple[Callable[[Pair], bool], Spoil]] = {
    Check.EMPTY: (is_sentence, lambda pair, _, rng: (pair[0], " ")),
    Check.RATIO: (is_sentence, lambda pair, _, rng: (pair[0], " ".join([pair[1]] * 7))),
    Check.COPY: (is_sentence, lambda pair, _, rng: (pair[0], pair[0])),
    Check.SWAPPED: (is_sentence, lambda pair, _, rng: (pair[1], pair[0])),
    Check.WRONG_LANGUAGE: (is_sentence, lambda pair, _, rng: (pair[0], rng.choice(french_lines()))),
    Check.WRONG_SCRIPT: (is_sentence, lambda pair, _, rng: (pair[0], pair[1].lower().translate(CYRILLIC))),
    Check.DUPLICATE: (is_sentence, lambda _, earlier, rng: earlier),
    Check.NEAR_DUPLICATE: (is_sentence, lambda _, earlier, rng: (earlier[0].upper(), f"„{earlier[1]}“!")),
    Check.SEVERAL_TARGETS: (is_sentence, lambda pair, earlier, rng: (earlier[0], pair[1])),
    Check.MARKUP: (is_sentence, lambda pair, _, rng: (pair[0], f'<seg id="3">{pair[1]}</seg>')),
    Check.CONTROL: (is_sentence, lambda pair, _, rng: (pair[0], pair[1].replace(" ", " \x07", 1))),
    Check.MOJIBAKE: (has_accents, lambda pair, _, rng: (pair[0], pair[1].encode().decode("cp1252", "replace"))),
    Check.UNNORMALISED: (is_sentence, lambda pair, _, rng: (pair[0], pair[1].replace(" ", " \u200b", 1))),
    Check.NUMBERS: (has_number, lambda pair, _, rng: (pair[0], change_number(pair[1]))),
}


def named(pairs: list[Pair], check: Check, languages: PairLanguages) -> set[int]:
    """Returns the numbers of the pairs that a check names."""
    # A duplicate is no near-duplicate, and neither has several targets: the three are found together.
    repetitions = {Check.DUPLICATE, Check.NEAR_DUPLICATE, Check.SEVERAL_TARGETS}
    inspector = PairInspector(repetitions if check in repetitions else {check}, languages)
    for pair in pairs:
        inspector.add(*pair)
    return set(inspector.finish().faults[check].tolist())


def read(corpus: tuple[str, str, str], most: int) -> list[Pair]:
    """Reads the first pairs of a corpus of `TRANSDUCE_DATA`."""
    name, source, target = corpus
    files = Files(source=str(data() / f"{name}.{source}"), target=str(data() / f"{name}.{target}"))
    return list(islice(read_pairs(files), most))


def spoiled_table(most: int) -> None:
    """Prints precision and recall of each check where its fault is planted."""
    identify = load_language_identifier()
    assert identify is not None
    print("| corpus | check | planted | named of them | named wrongly | recall | precision |\n" + "|---" * 7 + "|")
    for corpus in SPOILED:
        clean = read(corpus, most)
        for check, (fits, spoil) in FAULTS.items():
            before = named(clean, check, PairLanguages(identify, corpus[1:]))
            places = [
                place for place in range(len(clean) // 50, len(clean)) if fits(clean[place]) and place + 1 not in before
            ]
            for wanted in (3, len(clean) // 100):
                rng = random.Random(1)
                planted = sorted(rng.sample(places, min(wanted, len(places))))
                pairs = list(clean)
                for place, earlier in zip(planted, rng.sample(range(len(clean) // 50), len(planted)), strict=True):
                    pairs[place] = spoil(clean[place], clean[earlier], rng)
                numbers = {place + 1 for place in planted}
                after = named(pairs, check, PairLanguages(identify, corpus[1:]))
                true, false = after & numbers, after - numbers - before
                precision = len(true) / max(1, len(true) + len(false))
                print(
                    f"| {corpus[0]} | {check} | {len(planted)} | {len(true)} | {len(false)} | "
                    f"{len(true) / max(1, len(planted)):.1%} | {precision:.1%} |",
                    flush=True,
                )


def misalignment_table(most: int) -> None:
    """Prints the line that is named where a source line is lost and another one added 500 lines later."""
    print("\n| corpus | clean | lost line | named line, shift |\n|---|---|---|---|")
    for corpus in CLEAN[:8]:
        pairs = read(corpus, most)
        source, target = ([pair[side].encode() for pair in pairs] for side in (0, 1))
        lost = len(source) // 2
        changed = source[:lost] + source[lost + 1 : lost + 500] + [b"Planted."] + source[lost + 500 :]
        misalignment = find_misalignment(changed, target)
        shown = f"{misalignment.line + 1:,}, {misalignment.shift:+}" if misalignment else "none"
        print(f"| {corpus[0]}.{corpus[2]} | {find_misalignment(source, target)} | {lost + 1:,} | {shown} |", flush=True)


def clean_table(most: int) -> None:
    """Prints the pairs that each check names in clean corpora."""
    identify = load_language_identifier()
    assert identify is not None
    print("\n| corpus | pairs | pairs a second | " + " | ".join(Check) + " |\n" + "|---" * (3 + len(Check)) + "|")
    for corpus in CLEAN:
        pairs, start = read(corpus, most), time.process_time()
        inspector = PairInspector(list(Check), PairLanguages(identify, corpus[1:]))
        for pair in pairs:
            inspector.add(*pair)
        faults = inspector.finish().faults
        rate = len(pairs) / (time.process_time() - start)
        counts = " | ".join(f"{len(faults[check]):,}" for check in Check)
        print(f"| {corpus[0]}.{corpus[2]} | {len(pairs):,} | {rate:,.0f} | {counts} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10**7, help="pairs of a corpus, at most")
    parser.add_argument("--only", choices=("spoiled", "misalignment", "clean"))
    arguments = parser.parse_args()
    tables = {"spoiled": spoiled_table, "misalignment": misalignment_table, "clean": clean_table}
    for name, table in tables.items():
        if arguments.only in (None, name):
            table(arguments.pairs)
