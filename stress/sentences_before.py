"""Measures what a model gains from the sentences before each: `python stress/sentences_before.py FOLDER --seeds 1 2 3`.

Chat turns of BConTrasT, English to German, in their order. Two models a seed learn the same turns: one from each turn
alone, one from the two turns before it and the turn, with a mark between them (Tiedemann and Scherrer 2017). The table
has BLEU on the 1,902 turns of `dev`, and the share of right pronouns. A pronoun counts where the source has the English
word and the reference has words of one class; it is right where the translation has a word of this class, and none of
another class:

    you    Sie (formal)      du (one person)   ihr (several)
    it     er (masculine)    sie (feminine)    es (neuter)

The last 1,000 turns of `train` are for validation.

    TRANSDUCE_DATA=… python stress/sentences_before.py runs/context --seeds 1 2 3 --epochs 10
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from transduce import Translator
from transduce.measure.scoring import scores

MARK = " ▪ "
HELD_OUT = 1000  # turns of train

RECIPE = """
data:
  source_language: en
  target_language: de
  train: {source: train.en, target: train.de}
  validation: {source: validation.en, target: validation.de}
subwords: {size: 4000, shared: false}
model: {preset: tiny, dropout: 0.1, embeddings: separate}
training: {steps: null, batch_tokens: 1024, validate_every: 1000}
"""

CLASSES = {
    "you": (
        re.compile(r"\b(you|your|yours|yourself)\b", re.IGNORECASE),
        [
            re.compile(r"(?<!^)(?<![.!?] )\b(Sie|Ihnen|Ihre?[mnrs]?)\b"),
            re.compile(r"\b([Dd]u|[Dd]ich|[Dd]ir|[Dd]eine?[mnrs]?)\b"),
            re.compile(r"\b(euch|eure?[mnrs]?)\b"),
        ],
    ),
    "it": (
        re.compile(r"\bit\b", re.IGNORECASE),
        [
            re.compile(r"\b([Ee]r|ihn|ihm)\b"),
            re.compile(r"\bsie\b"),
            re.compile(r"\b[Ee]s\b"),
        ],
    ),
}
"""The English words, and the German words of each class."""


def with_turns_before(lines: list[str], count: int) -> list[str]:
    """Returns each line behind the `count` lines before it, with a mark between them."""
    return [MARK.join(lines[max(0, index - count) : index + 1]) for index in range(len(lines))]


def classes_in(line: str, classes: list[re.Pattern[str]]) -> list[int]:
    """Returns the classes of pronouns that a line has."""
    return [index for index, words in enumerate(classes) if words.search(line)]


def right_pronouns(word: str, sources: list[str], references: list[str], outputs: list[str]) -> tuple[int, int]:
    """Returns how many translations have the pronoun's class of the reference, and how many lines have the pronoun."""
    english, classes = CLASSES[word]
    counted = [
        classes_in(output, classes) == expected
        for source, reference, output in zip(sources, references, outputs, strict=True)
        if english.search(source) and len(expected := classes_in(reference, classes)) == 1
    ]
    return sum(counted), len(counted)


def write_corpus(folder: Path, corpus: Path, turns_before: int) -> tuple[list[str], list[str], list[str]]:
    """Writes the files of the recipe; returns the sources of the test as they are translated, as they are, references.

    With `turns_before`, each source begins with as many turns before it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sides = {
        (part, language): (corpus / f"{part}.{language}").read_text("utf-8").removesuffix("\n").split("\n")
        for part in ("train", "dev")
        for language in ("en", "de")
    }
    for language in ("en", "de"):
        lines = sides["train", language]
        lines = with_turns_before(lines, turns_before) if language == "en" else lines
        for name, part in {"train": lines[:-HELD_OUT], "validation": lines[-HELD_OUT:]}.items():
            (folder / f"{name}.{language}").write_text("\n".join(part) + "\n", "utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, "utf-8")
    return with_turns_before(sides["dev", "en"], turns_before), sides["dev", "en"], sides["dev", "de"]


def main() -> None:
    """Trains and prints a row a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=2, help="turns before each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    corpus = Path(os.environ["TRANSDUCE_DATA"], "bcontrast-en-de")
    print("| turns before | seed | BLEU | you | it |\n|---|---|---|---|---|")
    for seed in arguments.seeds:
        for turns_before in (0, arguments.turns):
            folder = arguments.folder / f"{turns_before}-before"
            inputs, sources, references = write_corpus(folder, corpus, turns_before)
            run = folder / f"seed-{seed}"
            settings = [f"training.epochs={arguments.epochs}", f"training.seed={seed}"]
            command = [sys.executable, "-m", "transduce", "train", folder / "recipe.yaml", "--out", run, "--no-report"]
            command += [word for setting in settings for word in ("--set", setting)]
            command += ["--threads", str(arguments.threads)]
            subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            outputs = Translator.load(run).translate(inputs)
            score = scores(outputs, [references])["bleu"]
            counts = [right_pronouns(word, sources, references, outputs) for word in CLASSES]
            pronouns = " | ".join(f"{right} of {number} ({right / number:.1%})" for right, number in counts)
            print(f"| {turns_before} | {seed} | {score.score:.2f} | {pronouns} |", flush=True)
    print(f"\nBLEU: {score.signature}")


if __name__ == "__main__":
    main()
