"""Terms in translations of Multi30k's test set: terms honoured, BLEU and seconds of the processor.

    python benchmarks/glossary.py RUN

`multi30k_terms.tsv` has 30 nouns with their usual translations, `multi30k_synonyms.tsv` with words that the model does
not choose, `multi30k_made_up.tsv` words that do not exist.
"""

import argparse
import time
from pathlib import Path

from data_folder import data_folder

from transduce.measure.scoring import scores
from transduce.text.glossary import Glossary
from transduce.translation.glossary_translator import GlossaryTranslator
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

GLOSSARIES = ("multi30k_terms.tsv", "multi30k_synonyms.tsv", "multi30k_made_up.tsv")


def main() -> None:
    """Translates freely and with each glossary, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    corpus = data_folder("multi30k/") / "multi30k"
    sources, references = (
        (corpus / f"test_2016_flickr.{side}").read_text("utf-8").splitlines() for side in ("en", "de")
    )
    translator = Translator.load(run)
    method = SearchMethod(translator.decoding)
    translator.translate_lines(sources[:50], method)  # warms up
    print("| terms | honoured | by the free search | forced | BLEU | seconds |\n|---|---|---|---|---|---|")
    began = time.process_time()
    free = [best[0].text for best in translator.translate_lines(sources, method)]
    print_row("none", "", "", "", scores(free, [references])["bleu"].score, time.process_time() - began)
    for name in GLOSSARIES:
        glossary = Glossary.read(Path(__file__).with_name(name))
        terms = [glossary.find(line) for line in sources]
        missing = map(glossary.missing, free, terms)
        by_chance = sum(map(len, terms)) - sum(map(len, missing))
        with_terms = GlossaryTranslator(translator, glossary)
        began = time.process_time()
        output = [best[0].text for best in with_terms.translate_lines(sources, method)]
        seconds = time.process_time() - began
        bleu = scores(output, [references])["bleu"]
        honoured = f"{with_terms.honoured} of {with_terms.terms}"
        print_row(name, honoured, str(by_chance), str(with_terms.forced), bleu.score, seconds)
    print(f"\n{bleu.signature}")


def print_row(name: str, honoured: str, by_chance: str, forced: str, bleu: float, seconds: float) -> None:
    """Prints a row of the table."""
    print(f"| {name} | {honoured} | {by_chance} | {forced} | {bleu:.2f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
