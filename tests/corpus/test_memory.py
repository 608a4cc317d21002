"""The memory of preparing does not grow with the corpus."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, resource, sys
from pathlib import Path
from transduce.corpus import learned_subwords
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.corpus_kinds import Tsv
from transduce.corpus.store import encoding
from transduce.corpus.store.preparation import prepare
from transduce.text import subwords
from transduce.text.subword_training import Bpe

learned_subwords.SAMPLE, encoding.BATCH, subwords.CACHE_SIZE = 400, 100, 400
train = Tsv(tsv=sys.argv[1])
made = prepare(DataSpec(train=(train,)), Bpe(size=400), Path(sys.argv[1] + ".store"), threads=1)
print(json.dumps([len(made.train), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def peak(folder: Path, pairs: int) -> int:
    """Returns the peak memory in KiB of a process that prepares `pairs` pairs."""
    path = folder / str(pairs)
    path.write_text("".join(f"{number} has {number**5}\t{number**4} hat {number**3}\n" for number in range(pairs)))
    run = [sys.executable, "-c", SCRIPT, str(path)]
    done = subprocess.run(run, check=True, capture_output=True, timeout=200)
    kept, kibibytes = json.loads(done.stdout)
    assert kept == pairs
    return int(kibibytes)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    # The pairs as text or as lists of ids would take 12 MB and more; so would their distinct words.
    # The library's own cache of words is full after 10,000.
    assert peak(tmp_path, 40_000) < 1.05 * peak(tmp_path, 10_000)
