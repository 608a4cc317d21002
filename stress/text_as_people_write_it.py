"""Translates a test set as it is and as people write it: `python stress/text_as_people_write_it.py RUN`.

Two tables. In the first only what a reader cannot see differs: white space, invisible characters, full-width letters.
It counts the lines whose translation differs from that of the text as it is. In the second, letters differ or words are
added: capitals, title case, exchanged letters, emoji, unknown words. Its BLEU is against references with the same
addition; capitals and title case are compared in small letters. `carried` is the share of lines whose added word is in
the translation.

    TRANSDUCE_DATA=… python stress/text_as_people_write_it.py runs/multi30k --lines 1000
"""

import argparse
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

from transduce import Translator
from transduce.measure.scoring import scores

Change = Callable[[str, random.Random], str]
EMOJI = "🙂🚲🐕🎉🌧🍕👍🎸⚽🦊"
UNKNOWN = [
    "Zyxqual",
    "рыба",
    "犬小屋",
    "XK-4821",
    "qfmbtrz",
    "Ωμέγα",
    "foo_bar",
    "j.doe@example.org",
    "v2.10.3",
    "Bräzh",
]


def each_space(text: str) -> Change:
    """Returns the change of each space into another text."""
    return lambda line, _: line.replace(" ", text)


def at_a_space(text: str) -> Change:
    """Returns the change of one space, drawn at random, into another text."""

    def change(line: str, rng: random.Random) -> str:
        words = line.split(" ")
        index = 1 + int(rng.random() * (len(words) - 1))
        return " ".join(words[:index]) + text + " ".join(words[index:]) if len(words) > 1 else line

    return change


def after_articles(line: str, _: random.Random) -> str:
    """Returns a line with no-break spaces after articles."""
    return re.sub(r"\b(a|an|the|un|une|le|la|les) ", "\\1\u00a0", line, flags=re.IGNORECASE)


def soft_hyphens(line: str, _: random.Random) -> str:
    """Returns a line with a soft hyphen after the fourth letter of long words."""
    return re.sub(r"\b(\w{4})(\w{4,})", "\\1\u00ad\\2", line)


def full_width(line: str, _: random.Random) -> str:
    """Returns a line with ASCII as full-width characters."""
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in line)


UNSEEN: dict[str, Change] = {
    "one space doubled": at_a_space("  "),
    "all spaces doubled": each_space("  "),
    "leading space": lambda line, _: f" {line}",
    "trailing space": lambda line, _: f"{line} ",
    "first space a tab": lambda line, _: line.replace(" ", "\t", 1),
    "tab at the end": lambda line, _: f"{line}\t",
    "one no-break space": at_a_space("\u00a0"),
    "no-break space after each article": after_articles,
    "U+202F for each space": each_space("\u202f"),
    "U+3000 for each space": each_space("\u3000"),
    "U+FEFF before the line": lambda line, _: f"\ufeff{line}",
    "U+200B after the third word": lambda line, _: re.sub(r"^((?:\S+ ){2}\S+)", "\\1\u200b", line),
    "U+200E and U+202C around the line": lambda line, _: f"\u200e{line}\u202c",
    "soft hyphens in long words": soft_hyphens,
    "full-width letters": full_width,
}


def exchanged(line: str, rng: random.Random) -> str:
    """Returns a line with two inner letters exchanged in 15 % of the words of five letters and more."""

    def change(match: re.Match[str]) -> str:
        word = match.group()
        if rng.random() >= 0.15:
            return word
        index = 1 + int(rng.random() * (len(word) - 3))
        return word[:index] + word[index + 1] + word[index] + word[index + 2 :]

    return re.sub(r"[^\W\d_]{5,}", change, line)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    arguments = parser.parse_args()
    corpus = Path(os.environ["TRANSDUCE_DATA"], "multi30k")
    sources, references = (
        (corpus / f"test_2016_flickr.{language}").read_text("utf-8").splitlines()[: arguments.lines]
        for language in arguments.languages
    )
    translator = Translator.load(arguments.run)

    def translated(lines: list[str]) -> list[str]:
        return translator.translate(lines)

    def bleu(outputs: list[str], expected: list[str]) -> float:
        return scores(outputs, [expected])["bleu"].score

    plain = translated(sources)
    print(f"{arguments.run}, {len(sources):,} lines, seed {arguments.seed}")
    print(f"BLEU: {scores(plain, [references])['bleu'].signature}\n")
    print("| only the source changes, unseen | lines that differ | BLEU |\n|---|---|---|")
    print(f"| as it is | 0 | {bleu(plain, references):.2f} |")
    for name, change in UNSEEN.items():
        rng = random.Random(arguments.seed)
        outputs = translated([change(line, rng) for line in sources])
        differ = sum(ours != theirs for ours, theirs in zip(outputs, plain, strict=True))
        print(f"| {name} | {differ:,} | {bleu(outputs, references):.2f} |", flush=True)
    print("\n| letters change, or words are added | BLEU | carried |\n|---|---|---|")
    small = [line.lower() for line in references]
    print(f"| as it is; compared in small letters | {bleu(plain, references):.2f}; "
          f"{bleu([line.lower() for line in plain], small):.2f} | |")  # fmt: skip
    for name, cased in {"all small": str.lower, "title case": str.title, "all capitals": str.upper}.items():
        outputs = [line.lower() for line in translated([cased(line) for line in sources])]
        print(f"| {name}, compared in small letters | {bleu(outputs, small):.2f} | |", flush=True)
    rng = random.Random(arguments.seed)
    outputs = translated([exchanged(line, rng) for line in sources])
    print(f"| two letters exchanged in 15 % of the longer words | {bleu(outputs, references):.2f} | |", flush=True)
    for name, words in {"an emoji after each sentence": list(EMOJI), "an unknown word after each": UNKNOWN}.items():
        added = [words[index % len(words)] for index in range(len(sources))]
        pairs = [[f"{line} {word}" for line, word in zip(side, added, strict=True)] for side in (sources, references)]
        outputs = translated(pairs[0])
        carried = sum(word in output for word, output in zip(added, outputs, strict=True)) / len(added)
        print(f"| {name} | {bleu(outputs, pairs[1]):.2f} | {carried:.1%} |", flush=True)
    added = [UNKNOWN[index % len(UNKNOWN)] for index in range(len(sources))]
    within = [at_a_space(f" {word} ")(line, rng) for line, word in zip(sources, added, strict=True)]
    outputs = translated(within)
    carried = sum(word in output for word, output in zip(added, outputs, strict=True)) / len(added)
    print(f"| an unknown word within each | {bleu(outputs, references):.2f} | {carried:.1%} |")


if __name__ == "__main__":
    main()
