"""Preparing a corpus of the paper's size, beside `datasets.map` with the same subwords: memory, and pairs a second.

    python benchmarks/prepare.py --pairs 4500000

makes text with a long-tailed lexicon of two million words and more, as not every machine has such a corpus, and
prepares 100,000 pairs of it, 1,000,000, and all. Memory is that of all processes at its greatest. `--no-peer` leaves
the peer out, which is installed into `.peers` the first time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from peers import INSIDE, environment, machine, python_of

SYLLABLES = [first + second for first in "bdfgklmnprstvwz" for second in ("a", "e", "i", "o", "u", "ei", "au")]
LEXICON = 3_000_000
COMMON, RARE = 100_000, 0.03  # so many words are as frequent as 1 / rank; the rest, drawn evenly, are so much of a text
CHUNK = 50_000  # pairs drawn at a time
SUBWORDS = 37_000


def write(folder: Path, pairs: int) -> int:
    """Writes `pairs` lines a side; gives how many distinct words a side there are."""
    random, words = np.random.default_rng(1), np.array([spelt(rank) for rank in range(LEXICON)], dtype=object)
    weights = np.cumsum(1 / np.arange(1, COMMON + 1))
    seen = np.zeros(LEXICON, bool)
    with (folder / "train.en").open("w") as source, (folder / "train.de").open("w") as target:
        for start in range(0, pairs, CHUNK):
            lengths = random.integers(4, 40, min(CHUNK, pairs - start))
            ranks = np.searchsorted(weights, random.random(lengths.sum()) * weights[-1])
            rare = random.random(len(ranks)) < RARE
            ranks[rare] = random.integers(COMMON, LEXICON, rare.sum())
            seen[ranks] = True
            for sentence in np.split(words[ranks], np.cumsum(lengths)[:-1]):
                source.write(" ".join(sentence) + ".\n")
                target.write("n ".join(sentence[::-1]) + "?\n")
    return int(seen.sum())


def spelt(rank: int) -> str:
    """The word of a rank: the rarer, the longer."""
    word = SYLLABLES[rank % 105]
    while rank := rank // 105:
        word += SYLLABLES[rank % 105]
    return word


def measured(command: list[str], variables: dict[str, str]) -> dict[str, float]:
    """What a process prints last, as JSON, and the greatest memory of it and its children together, in MiB."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables) as ran:
        while ran.poll() is None:
            peak = max(peak, sum(map(resident, tree(ran.pid))))
            time.sleep(0.1)
        assert ran.stdout is not None
        printed = ran.stdout.read().splitlines()
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed; run it alone to see why")
    return {**json.loads(printed[-1]), "peak_mib": round(peak / 2**20, 1)}


def tree(process: int) -> list[int]:
    """A process and all that it has started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [process, *(each for child in children for each in tree(int(child)))]


def resident(process: int) -> int:
    """Bytes of memory that a process holds, without pages of files, which the system takes back when it needs them."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def ours(folder: Path) -> None:
    """Prepares what lies in `folder`, and opens it again; prints what it took."""
    from transduce.corpus import DataSpec, Files, open_store, prepare
    from transduce.text.subwords import Bpe

    moments = [time.perf_counter()]

    def say(line: str) -> None:
        if line == "encoding the corpus":
            moments.append(time.perf_counter())

    train = Files(source=str(folder / "train.en"), target=str(folder / "train.de"))
    data, threads = DataSpec(train=(train,), longest=512), os.cpu_count() or 1
    made = prepare(data, Bpe(size=SUBWORDS), folder / "store", threads=threads, say=say)
    moments.append(time.perf_counter())
    open_store(folder / "store")
    moments.append(time.perf_counter())
    prepare(data, Bpe(size=SUBWORDS), folder / "store", threads=threads, say=say)
    moments.append(time.perf_counter())
    learning, cutting, opening, again = np.diff(moments)
    timed = {"learning": learning, "cutting": cutting, "opening": opening, "again": again}
    print(json.dumps({"pairs": len(made.train), "subwords": made.source.size, **timed}))


def main() -> None:
    """A row for each size, the peer's beside it, and the proportions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--work", type=Path, help="where files are written; a temporary folder if not given")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ours:
        return ours(asked.ours)
    print(machine())
    peaks: dict[int, float] = {}
    for pairs in sorted({min(size, asked.pairs) for size in (100_000, 1_000_000, asked.pairs)}):
        with tempfile.TemporaryDirectory(dir=asked.work) as name:
            print(f"{pairs:,} pairs, {write(Path(name), pairs):,} distinct words a side", flush=True)
            found = measured([sys.executable, __file__, "--ours", name], dict(os.environ))
            peaks[pairs] = found["peak_mib"]
            print(row(pairs, found), flush=True)
            if not asked.no_peer:
                command = [str(python_of("datasets")), str(INSIDE / "prepare_datasets.py"), name]
                print(beside(found, measured(command, environment({}) | {"HF_HOME": f"{name}/cache"})), flush=True)
    smallest = min(peaks)
    for pairs in sorted(peaks)[1:]:
        print(f"memory at {pairs:,} pairs: {peaks[pairs] / peaks[smallest]:.2f} times that at {smallest:,}")
    return None


def row(pairs: int, found: dict[str, float]) -> str:
    """What preparing took."""
    return (
        f"  transduce: {pairs / found['cutting']:,.0f} pairs a second cut and written, in {found['cutting']:.1f} s; "
        f"{found['learning']:.1f} s for checksums, sample and learning {found['subwords']:,} subwords; "
        f"opened in {1000 * found['opening']:.0f} ms, found to be done in {1000 * found['again']:.0f} ms; "
        f"{found['peak_mib']:,.0f} MiB"
    )


def beside(found: dict[str, float], theirs: dict[str, float]) -> str:
    """What the peer took for the same ids."""
    return (
        f"  datasets.map: {theirs['pairs'] / theirs['mapping']:,.0f} pairs a second, in {theirs['mapping']:.1f} s; "
        f"{theirs['reading']:.1f} s for reading; {theirs['peak_mib']:,.0f} MiB; "
        f"transduce is {theirs['mapping'] / found['cutting']:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
