"""Milliseconds for one sentence at a time, beside CTranslate2, and seconds to load: `python benchmarks/latency.py RUN`.

Every sentence is a call by itself, from text to text. The engines take turns sentence by sentence. Loading is measured
in fresh processes, beyond `import torch`, in the median of `--rounds`.

    python benchmarks/latency.py RUN [--text FILE] [--sentences 100] [--rounds 3] [--threads 1]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from data_folder import data_folder

LOADING = """
import sys, time
import torch
began = time.perf_counter()
from transduce import Translator
translator = Translator.load(sys.argv[1], precision=sys.argv[2])
loaded = time.perf_counter()
translator.translate("A man is riding a bike.")
print(loaded - began, time.perf_counter() - loaded)
"""


def loading_seconds(run: Path, precision: str, rounds: int) -> list[float]:
    """Returns the medians of the seconds to load a model and to translate a first sentence, beyond `import torch`."""
    times = []
    for _ in range(rounds + 1):  # the first process fills caches
        command = [sys.executable, "-c", LOADING, run, precision]
        times.append(list(map(float, subprocess.check_output(command, text=True).split())))
    return [statistics.median(column) for column in zip(*times[1:], strict=True)]


def engines(run: Path, folder: Path, threads: int) -> dict[str, Callable[[str], str]]:
    """Returns a function for each engine and precision that translates a line."""
    import ctranslate2
    import torch

    from transduce import Translator
    from transduce.exchange.ctranslate2_folder import load_ctranslate2
    from transduce.exchange.export_model import export

    torch.set_num_threads(threads)
    export(run, "ctranslate2", folder, "float32", 0)
    beside = load_ctranslate2(folder)
    ids = {string: token for token, string in enumerate(beside.target.vocabulary)}
    ways: dict[str, Callable[[str], str]] = {}
    for precision in ("float32", "int8"):
        ours = Translator.load(run, precision=precision)
        other = ctranslate2.Translator(str(folder), compute_type=precision, inter_threads=1, intra_threads=threads)
        for greedy in (False, True):
            name = f"{precision}, {'greedy' if greedy else f'beam {ours.decoding.beam}'}"
            beam = 1 if greedy else ours.decoding.beam

            def translate(line: str, ours=ours, greedy=greedy) -> str:
                return str(ours.translate(line, greedy=greedy))

            def by_ctranslate2(line: str, other=other, beam=beam) -> str:
                (tokens,) = beside.source.encode([line])
                (result,) = other.translate_batch(
                    [[beside.source.vocabulary[token] for token in tokens]],
                    beam_size=beam,
                    length_penalty=beside.decoding.length_penalty,
                    max_decoding_length=len(tokens) + 51,
                )
                return str(beside.target.decode([[ids[string] for string in result.hypotheses[0]]])[0])

            ways[f"transduce, {name}"], ways[f"CTranslate2, {name}"] = translate, by_ctranslate2
    return ways


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", type=Path, help="lines to translate; Multi30k's test2016 if not given")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    text = options.text or data_folder("multi30k/, or give --text FILE") / "multi30k" / "test_2016_flickr.en"
    lines = text.read_text("utf-8").splitlines()[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        ways = engines(options.run, Path(folder) / "export", options.threads)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for line in lines[: 5 if number == 0 else None]:
                for name, translate in ways.items():
                    began = time.perf_counter()
                    translate(line)
                    if number:  # the first round warms up
                        times[name].append(1000 * (time.perf_counter() - began))
    print("| engine | p50, ms | p95, ms |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values):.2f} | {statistics.quantiles(values, n=20)[-1]:.2f} |")
    print("\n| precision | loading, s | first sentence, s |\n|---|---|---|")
    for precision in ("float32", "int8"):
        loading, first = loading_seconds(options.run, precision, options.rounds)
        print(f"| {precision} | {loading:.2f} | {first:.2f} |")


if __name__ == "__main__":
    main()
