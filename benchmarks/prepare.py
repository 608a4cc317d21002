"""Measures memory and speed of preparing a corpus of the paper's size, beside `datasets.map` with the same subwords.

    python benchmarks/prepare.py --pairs 4500000

writes artificial text with a long-tailed lexicon of more than two million words, and prepares 100,000 pairs of it,
1,000,000 pairs, and all. Memory is the peak of all processes together. The first call installs the peer into `.peers`;
`--no-peer` leaves it out.
"""

import argparse
import json
import logging
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
COMMON, RARE = 100_000, 0.03  # words whose frequency is 1 / rank; share of a text that all other words have together
CHUNK = 50_000  # pairs drawn at a time
SUBWORDS = 37_000


def write_corpus(folder: Path, pairs: int) -> int:
    """Writes `pairs` lines a side, and returns the number of distinct words a side."""
    random, words = np.random.default_rng(1), np.array([spell(rank) for rank in range(LEXICON)], dtype=object)
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


def spell(rank: int) -> str:
    """Returns the word of a rank; rare words are longer."""
    word = SYLLABLES[rank % 105]
    while rank := rank // 105:
        word += SYLLABLES[rank % 105]
    return word


def measure(command: list[str], variables: dict[str, str]) -> dict[str, float]:
    """Runs a command; returns the JSON of its last line, and the peak memory of it and its children in MiB."""
    peak = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
    ) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident_bytes, process_tree(process.pid))))
            time.sleep(0.1)
        assert process.stdout is not None
        printed = process.stdout.read().splitlines()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed; run it alone to see why")
    return {**json.loads(printed[-1]), "peak_mib": round(peak / 2**20, 1)}


def process_tree(process: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [process, *(descendant for child in children for descendant in process_tree(int(child)))]


def resident_bytes(process: int) -> int:
    """Returns the memory of a process in bytes, without pages of files, which the system can drop."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def prepare_with_transduce(folder: Path) -> None:
    """Prepares the corpus in `folder`, opens it, prepares it again, and prints the seconds of each."""
    from transduce.corpus.corpus_kinds import Files
    from transduce.corpus.data_spec import DataSpec
    from transduce.corpus.store.preparation import open_store, prepare
    from transduce.text.subword_training import Bpe

    moments = [time.perf_counter()]

    def note_moment(record: logging.LogRecord) -> bool:
        if record.getMessage() == "encoding the corpus":
            moments.append(time.perf_counter())
        return True

    log = logging.getLogger("transduce")
    log.setLevel(logging.INFO)
    log.addFilter(note_moment)

    train = Files(source=str(folder / "train.en"), target=str(folder / "train.de"))
    data, threads = DataSpec(train=(train,), max_length=512), os.cpu_count() or 1
    prepared = prepare(data, Bpe(size=SUBWORDS), folder / "store", threads=threads)
    moments.append(time.perf_counter())
    open_store(folder / "store")
    moments.append(time.perf_counter())
    prepare(data, Bpe(size=SUBWORDS), folder / "store", threads=threads)
    moments.append(time.perf_counter())
    learning, encoding, opening, again = np.diff(moments)
    timed = {"learning": learning, "encoding": encoding, "opening": opening, "again": again}
    print(json.dumps({"pairs": len(prepared.train), "subwords": prepared.source.size, **timed}))


def main() -> None:
    """Prints the measurements of each size, those of the peer, and the growth of memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--work", type=Path, help="folder for the files; by default a temporary one")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ours:
        return prepare_with_transduce(arguments.ours)
    print(machine())
    peaks: dict[int, float] = {}
    for pairs in sorted({min(size, arguments.pairs) for size in (100_000, 1_000_000, arguments.pairs)}):
        with tempfile.TemporaryDirectory(dir=arguments.work) as name:
            print(f"{pairs:,} pairs, {write_corpus(Path(name), pairs):,} distinct words a side", flush=True)
            times = measure([sys.executable, __file__, "--ours", name], dict(os.environ))
            peaks[pairs] = times["peak_mib"]
            print(describe(pairs, times), flush=True)
            if not arguments.no_peer:
                command = [str(python_of("datasets")), str(INSIDE / "prepare_datasets.py"), name]
                print(compare(times, measure(command, environment({}) | {"HF_HOME": f"{name}/cache"})), flush=True)
    smallest = min(peaks)
    for pairs in sorted(peaks)[1:]:
        print(f"memory at {pairs:,} pairs: {peaks[pairs] / peaks[smallest]:.2f} times that at {smallest:,}")
    return None


def describe(pairs: int, times: dict[str, float]) -> str:
    """Returns a sentence with our measurements."""
    return (
        f"  transduce: {pairs / times['encoding']:,.0f} pairs a second encoded and written, {times['encoding']:.1f} s; "
        f"{times['learning']:.1f} s for checksums, sample and learning {times['subwords']:,} subwords; "
        f"opened in {1000 * times['opening']:.0f} ms, prepared again in {1000 * times['again']:.0f} ms; "
        f"{times['peak_mib']:,.0f} MiB"
    )


def compare(times: dict[str, float], peer: dict[str, float]) -> str:
    """Returns a sentence with the measurements of the peer, which writes the same ids."""
    return (
        f"  datasets.map: {peer['pairs'] / peer['mapping']:,.0f} pairs a second, in {peer['mapping']:.1f} s; "
        f"{peer['reading']:.1f} s for reading; {peer['peak_mib']:,.0f} MiB; "
        f"transduce is {peer['mapping'] / times['encoding']:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
