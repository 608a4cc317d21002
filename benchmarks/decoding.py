"""Ways to choose a translation beside the beam of the model: BLEU, chrF and CPU time on Multi30k's test set.

python benchmarks/decoding.py RUN [--beam 16] [--only greedy]
"""

import argparse
import time
from pathlib import Path

from data_folder import data_folder

from transduce.measure.scoring import scores
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.translator import Translator


def main() -> None:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beam", type=int, default=16)
    parser.add_argument("--only", default="", help="rows whose name has this text")
    options = parser.parse_args()
    corpus = data_folder("multi30k/") / "multi30k"
    sources, references = (
        (corpus / f"test_2016_flickr.{side}").read_text("utf-8").splitlines() for side in ("en", "de")
    )
    translator = Translator.load(options.run)
    decoding = translator.decoding
    beam = SearchMethod(decoding)
    ways = {
        "greedy": search_method(decoding, greedy=True),
        f"beam of {decoding.beam}": beam,
        f"beam of {options.beam}": search_method(decoding, beam=options.beam),
        "beam, no 4 tokens twice": search_method(decoding, no_repeat_ngram=4),
    }
    translator.translate_lines(sources[:50], beam)  # warms up
    print("| chosen by | BLEU | chrF | CPU seconds |\n|---|---|---|---|")
    for name, method in ways.items():
        if options.only not in name:
            continue
        began = time.process_time()
        output = [best[0].text for best in translator.translate_lines(sources, method)]
        seconds = time.process_time() - began
        results = scores(output, [references], ["bleu", "chrf"])
        print(f"| {name} | {results['bleu'].score:.2f} | {results['chrf'].score:.2f} | {seconds:.1f} |", flush=True)
    print(f"\n{results['bleu'].signature}\n{results['chrf'].signature}")


if __name__ == "__main__":
    main()
