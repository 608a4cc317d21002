"""A corpus as text, such as a validation or test set."""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec, Files, Hub, Tmx, Tsv, files_of
from transduce.corpus.pair_checks import name_of
from transduce.corpus.readers import read_pairs
from transduce.storage.checksums import checksum_of
from transduce.text.lines import refuse_markup


class ParallelText(NamedTuple):
    """Lines of source and target text, aligned by number."""

    source: Sequence[str]
    target: Sequence[str]

    @property
    def checksum(self) -> str:
        """A checksum of the text of both sides."""
        sums = [checksum_of("\n".join(side).encode())["sha256"] for side in self]
        return "-".join(sums)


def read_parallel_text(spec: CorpusSpec) -> ParallelText:
    """Reads a corpus as text; raises ValueError where it has no pair, or where a file of it is markup.

    Pairs of TMX files and of data sets of the Hub that lack a side are left out, because they cannot be measured.
    """
    lines = list(read_pairs(spec))
    if isinstance(spec, Tmx | Hub):
        lines = [pair for pair in lines if all(side.strip() for side in pair)]
    if not lines:
        raise ValueError(f"{name_of(spec)}: there is no line to validate or test on")
    corpus = ParallelText([source for source, _ in lines], [target for _, target in lines])
    if isinstance(spec, Files | Tsv):
        files = files_of(spec)
        for side, path in zip(corpus, (files[0], files[-1]), strict=True):
            refuse_markup(side, str(path))
    return corpus
