"""Peak memory of preparing corpora of several sizes, each in a process of its own.

python benchmarks/prepare_memory.py [PAIRS …]     default: 100000 1000000
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

# Each sentence is new, and new words keep coming, as in text (Zipf's law over a growing vocabulary).
SYLLABLES = [first + second for first in "bdfgklmnprstvwz" for second in ("a", "e", "i", "o", "u", "ei", "au")]


def write(folder: Path, pairs: int) -> None:
    """Writes `pairs` lines a side."""
    chance = random.Random(1)
    with (folder / "train.en").open("w") as source, (folder / "train.de").open("w") as target:
        for _ in range(pairs):
            words = [word(int(chance.paretovariate(0.6))) for _ in range(chance.randint(4, 22))]
            source.write(" ".join(words) + ".\n")
            target.write(" ".join(reversed(words)) + "?\n")


def word(number: int) -> str:
    """The word of a rank: the rarer, the longer."""
    spelt = SYLLABLES[number % 105]
    while number := number // 105:
        spelt += SYLLABLES[number % 105]
    return spelt


def prepare(folder: Path) -> None:
    """Prepares what lies in `folder` and prints the peak memory in MiB."""
    from transduce.corpus import DataSpec, Files, prepare
    from transduce.text.subwords import Bpe

    train = Files(source=str(folder / "train.en"), target=str(folder / "train.de"))
    made = prepare(DataSpec(train=(train,)), Bpe(size=10_000), folder / "store", threads=2, say=lambda line: None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"pairs": len(made.train), "subwords": made.source.size, "peak_mib": round(peak, 1)}))


def main(sizes: list[int]) -> None:
    """Prints a line of JSON for each size, and the proportion of the last to the first."""
    peaks = []
    for pairs in sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), pairs)
            line = subprocess.run([sys.executable, __file__, "--prepare", name], check=True, capture_output=True).stdout
        print(line.decode().strip(), flush=True)
        peaks.append(json.loads(line)["peak_mib"])
    print(f"{peaks[-1] / peaks[0]:.3f} times")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--prepare"]:
        prepare(Path(sys.argv[2]))
    else:
        main([int(size) for size in sys.argv[1:]] or [100_000, 1_000_000])
