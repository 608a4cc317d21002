"""Counts what documents lose: `python documents.py --count 10000`, and with a model `--run RUN --translated 10`.

Random documents of each format, around real sentences with random tags, entities and placeholders, are read,
"translated" by a function that returns each sentence or reverses its words, and written; other parsers than those of
the package compare the outputs with the sources. With `--run` a model translates documents of each format.
"""

import argparse
import collections
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "documents"))

from document_checks import PLACEHOLDER, faults
from fake_translator import reversing, same
from random_documents import SENTENCES, WRITERS, random_pieces

from transduce.documents.document import DocumentLanguages, TextFormat
from transduce.documents.formats import read_document
from transduce.documents.sentence_translator import SentenceTranslator, translate_units


def real_sentences(source_language: str) -> list[str]:
    """Returns sentences of Multi30k if `TRANSDUCE_DATA` has it, else a few that this project has."""
    folder = os.environ.get("TRANSDUCE_DATA")
    path = Path(folder or "") / "multi30k" / f"test_2016_flickr.{source_language}"
    return path.read_text("utf-8").splitlines() if folder and path.is_file() else list(SENTENCES)


def translate(kind: str, source: bytes, translator: SentenceTranslator) -> tuple[bytes, int]:
    """Returns a translated document, and how many units it has."""
    languages = DocumentLanguages(translator.source_language, translator.target_language)
    document = read_document(source, TextFormat(kind.split()[0]), languages)
    return document.write(translate_units(document.units, translator).contents), len(document.units)


def measure(translators: list[SentenceTranslator], count: int, seed: int, sentences: list[str]) -> None:
    """Prints a row for each format: documents, units, placeholders, faults and seconds."""
    print("format      documents    units  placeholders  faults  seconds")
    total: collections.Counter[str] = collections.Counter()
    for kind, write in WRITERS.items():
        began, row = time.monotonic(), collections.Counter[str]()
        for number in range(count):
            rng = random.Random(f"{seed} {kind} {number}")
            source = write([random_pieces(rng, sentences) for _ in range(rng.randint(1, 6))])
            output, units = translate(kind, source, translators[number % len(translators)])
            document_faults = faults(kind, source, output)
            if document_faults:
                print(f"{kind} {number}: {document_faults[:2]}", file=sys.stderr)
            placeholders = len(PLACEHOLDER.findall(source.decode("utf-8", "replace")))
            row.update({"units": units, "placeholders": placeholders, "faults": len(document_faults), "documents": 1})
        total += row
        print_row(kind, row, time.monotonic() - began)
    print_row("all", total, None)


def print_row(name: str, row: "collections.Counter[str]", seconds: float | None) -> None:
    """Prints a row of the table."""
    time_taken = "" if seconds is None else f"{seconds:9.1f}"
    print(
        f"{name:10} {row['documents']:10,} {row['units']:8,} {row['placeholders']:13,} {row['faults']:7,}{time_taken}",
        flush=True,
    )


def main() -> None:
    """Parses the options and prints a table for each kind of translator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="documents in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=Path, help="a model directory")
    parser.add_argument("--translated", type=int, default=10, help="documents of each format for the model")
    options = parser.parse_args()
    each = -(-options.count // len(WRITERS))
    if each:
        measure([same(), reversing(), reversing(aligned=False)], each, options.seed, real_sentences("en"))
    if options.run:
        from transduce import Translator
        from transduce.documents.sentence_translator import sentence_translator

        translator = Translator.load(options.run)
        config = translator.configs[0]
        languages = {"source_language": config.source_language, "target_language": config.target_language}
        print(f"\ntranslated by {options.run}")
        sentences = real_sentences(config.source_language or "en")
        measure([sentence_translator(translator, **languages)], options.translated, options.seed, sentences)


if __name__ == "__main__":
    main()
