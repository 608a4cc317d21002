"""Ways to choose a translation beside the beam of the model: BLEU, chrF and CPU time on Multi30k's test set.

python benchmarks/decoding.py RUN [--candidates 16] [--only MBR]
"""

import argparse
import time
from pathlib import Path

from data_folder import data_folder

from transduce.measure import scores
from transduce.search import Sampling
from transduce.translation.minimum_bayes_risk import MinimumBayesRisk
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.translator import Translator


def main() -> None:
    """Prints a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--only", default="", help="rows whose name has this text")
    options = parser.parse_args()
    corpus = data_folder("multi30k/") / "multi30k"
    sources, references = (
        (corpus / f"test_2016_flickr.{side}").read_text("utf-8").splitlines() for side in ("en", "de")
    )
    translator = Translator.load(options.run)
    decoding = translator.decoding
    beam, risk = SearchMethod(decoding), MinimumBayesRisk(translator, options.candidates)
    count = options.candidates
    ways = {
        "greedy": (translator, search_method(decoding, greedy=True)),
        f"beam of {decoding.beam}": (translator, beam),
        f"beam of {count}": (translator, search_method(decoding, beam=count)),
        "beam, no 4 tokens twice": (translator, search_method(decoding, no_repeat_ngram=4)),
        f"MBR of the {count} best": (risk, beam),
        f"MBR of {count} samples": (risk, beam._replace(sampling=Sampling())),
        f"MBR of {count} samples, temperature 0.5": (risk, beam._replace(sampling=Sampling(temperature=0.5))),
    }
    translator.translate_lines(sources[:50], beam)  # warms up
    print("| chosen by | BLEU | chrF | CPU seconds |\n|---|---|---|---|")
    for name, (way, method) in ways.items():
        if options.only not in name:
            continue
        began = time.process_time()
        output = [best[0].text for best in way.translate_lines(sources, method)]
        seconds = time.process_time() - began
        results = scores(output, [references], ["bleu", "chrf"])
        print(f"| {name} | {results['bleu'].score:.2f} | {results['chrf'].score:.2f} | {seconds:.1f} |", flush=True)
    print(f"\n{results['bleu'].signature}\n{results['chrf'].signature}")


if __name__ == "__main__":
    main()
