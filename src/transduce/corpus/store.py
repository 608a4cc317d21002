"""The store: the training pairs as subwords, on disk; how it is made, and how it is opened.

Preparing reads the corpora of a recipe, learns subwords, and writes the pairs down as ids, once. Memory does not
grow with the corpora: subwords are learnt from a bounded, evenly spread sample, and the pairs pass through in
batches. `store.json` is written last: without it there is no store.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import transduce
from transduce.corpus.checks import Fault, Report, readable_pairs
from transduce.corpus.data import DataSpec
from transduce.corpus.dropout import Dropout, DroppingStore
from transduce.corpus.readers import CorpusSpec, files_of, opened
from transduce.corpus.sentences import FILES, SIDES, Part, Store, StoreWriter
from transduce.durable import flush
from transduce.manifest import entries, faults
from transduce.text.subwords import Bpe, Subwords, WordPiece

__all__ = ["Prepared", "Store", "open_store", "prepare", "subwords_files"]

VERSION = 2
DESCRIPTION = "store.json"

Pair = tuple[str, str, str]
"""Place, source, target."""

SAMPLE = 100_000
"""Pairs, at most, from which subwords are learnt: more would change only the rarest, and memory would grow."""

BATCH = 2_000
"""Pairs that are cut into subwords at a time."""


class Prepared(NamedTuple):
    """What preparing gives: the subwords of both sides, the pairs, and what was left out."""

    source: Subwords
    target: Subwords
    train: Store
    report: Report
    directory: Path
    fingerprint: str


def open_store(directory: Path) -> Prepared:
    """Opens what `prepare` wrote, reading no pair; `ValueError` where it is incomplete or of another version."""
    values = _description(directory)
    for name, known in values["files"].items():
        found = (directory / name).stat().st_size if (directory / name).is_file() else None
        if found != known["bytes"]:
            raise _unusable(directory, f"{name} should have {known['bytes']:,} bytes, and has {found or 'none'}")
    source, target = _subwords(directory, shared=values["shared"])
    files, dtype = {name: directory / name for name in FILES}, np.dtype(values["dtype"])
    parts = [Part(*part) for part in values["parts"]]
    dropped = Dropout(source, target, values["dropout"])
    store = DroppingStore(files, dtype, parts, dropped) if dropped.probability else Store(files, dtype, parts)
    return Prepared(source, target, store, Report.from_dictionary(values["report"]), directory, values["fingerprint"])


def _description(directory: Path) -> dict[str, Any]:
    """What `store.json` says, which is believed where it is as it was written."""
    if not (directory / DESCRIPTION).is_file():
        raise ValueError(f"{directory} holds no complete store; make one with `transduce prepare`")
    try:
        values: dict[str, Any] = json.loads((directory / DESCRIPTION).read_bytes())
        version, seal = values["version"], values.pop("seal", None)
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise _unusable(directory, f"{DESCRIPTION} cannot be read ({error})") from None
    if version != VERSION:
        raise _unusable(directory, f"it has version {version}, this program reads {VERSION}")
    if seal != _seal(values):
        raise _unusable(directory, f"{DESCRIPTION} has changed since it was written")
    return values


def _seal(values: Mapping[str, Any]) -> str:
    """A checksum of the description."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def subwords_files(*, shared: bool) -> tuple[str, str]:
    """The names of the files with the subwords of source and target."""
    return ("tokenizer.json",) * 2 if shared else ("source.tokenizer.json", "target.tokenizer.json")


def _subwords(directory: Path, *, shared: bool) -> tuple[Subwords, Subwords]:
    source, target = (directory / name for name in subwords_files(shared=shared))
    loaded = Subwords.load(source)
    return loaded, loaded if shared else Subwords.load(target)


def _unusable(directory: Path, reason: str) -> ValueError:
    return ValueError(f"the store in {directory} cannot be used: {reason}; delete the directory and prepare again")


def prepare(
    data: DataSpec,
    subwords: Bpe | WordPiece,
    directory: Path,
    *,
    threads: int,
    say: Callable[[str], None],
    given: tuple[Subwords, Subwords] | None = None,
) -> Prepared:
    """Learns subwords for `data.train` and writes its pairs as ids to `directory`; returns at once if it was done.

    Where subwords are `given`, those of another model, none are learnt: `subwords` then says only its dropout.
    A directory made from other data or settings is made anew. Nothing in it counts until all is written.
    `threads` takes effect at the first call of a process. `ValueError` and `OSError` for what is wrong with the
    files.
    """
    _limit_threads(threads)
    fingerprint = _fingerprint(data, subwords, given)
    if done := _done(directory, fingerprint):
        return done
    making = directory / "making"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    if given is None:
        say(f"learning subwords ({subwords.kind}, {subwords.size:,})")
    sides = given or _learn(data, subwords)
    shared = sides[0] is sides[1]
    for name, side in zip(subwords_files(shared=shared), sides):
        side.save(making / name)
    say("cutting the corpus into subwords")
    description = _write(data, sides, making)
    dropout = subwords.dropout if subwords.kind == "bpe" else 0.0
    made_of = {"shared": shared, "dropout": dropout, "fingerprint": fingerprint}
    _publish(making, directory, description | made_of)
    prepared = open_store(directory)
    for line in prepared.report.summary():
        say(line)
    return prepared


def _limit_threads(threads: int) -> None:
    """The library reads both variables when it first works."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")


def _fingerprint(data: DataSpec, subwords: Bpe | WordPiece, given: tuple[Subwords, Subwords] | None) -> str:
    """A checksum of everything the store depends on: the settings and the files' bytes, wherever they lie."""
    corpora = [
        {**corpus.as_dictionary(), **_checksums(corpus), "program": None if files_of(corpus) else transduce.__version__}
        for corpus in data.train
    ]
    settings = {"longest": data.longest, "ratio": data.ratio, "subwords": subwords.as_dictionary(), "version": VERSION}
    sides = [side.as_json() for side in given or ()]
    whole = json.dumps({**settings, "corpora": corpora, "given": sides}, sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _checksums(corpus: CorpusSpec) -> dict[str, str]:
    """Checksums in the place of paths."""
    sums = {}
    for key in ("source", "target", "tsv"):
        if path := getattr(corpus, key, None):
            with opened(Path(path)) as file:
                sums[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _done(directory: Path, fingerprint: str) -> Prepared | None:
    """The store that is there, if it was made from the same things and is as it was written."""
    try:
        prepared = open_store(directory)
        whole = prepared.fingerprint == fingerprint and not faults(directory, _description(directory)["files"])
    except ValueError:
        return None
    return prepared if whole else None


def _learn(data: DataSpec, spec: Bpe | WordPiece) -> tuple[Subwords, Subwords]:
    sample = _sample(data.train, data.longest)
    if spec.shared:
        both = Subwords.learn((side for _, *pair in sample for side in pair), spec)
        return both, both
    return (
        Subwords.learn((source for _, source, _ in sample), spec),
        Subwords.learn((target for _, _, target in sample), spec),
    )


def _sample(corpora: Sequence[CorpusSpec], longest: int) -> list[Pair]:
    """Every pair, or every second, fourth, eighth…, so that at most `SAMPLE` are held."""
    sample: list[Pair] = []
    stride = 1
    everything = (pair for corpus in corpora for pair in readable_pairs(corpus, Report(), longest))
    for number, pair in enumerate(everything):
        if number % stride == 0:
            sample.append(pair)
        if len(sample) > SAMPLE:
            del sample[1::2]
            stride *= 2
    return sample


def _write(data: DataSpec, sides: tuple[Subwords, Subwords], making: Path) -> dict[str, Any]:
    """Writes the pairs of all corpora; what `store.json` says of them."""
    dtype = np.dtype("<u2" if max(side.size for side in sides) <= 1 << 16 else "<u4")
    report, parts = Report(), []
    with ExitStack() as stack:
        writer = StoreWriter({name: stack.enter_context((making / name).open("wb")) for name in FILES}, dtype)
        for corpus in data.train:
            before = report.kept
            for pairs in _batches(readable_pairs(corpus, report, data.longest)):
                _write_batch(pairs, sides, data, report, writer)
            parts.append(Part(report.kept - before, corpus.weight))
    if not report.kept:
        raise ValueError("data.train: no pair is left to train on; " + "; ".join(report.summary()))
    return {"version": VERSION, "dtype": dtype.str, "parts": parts, "report": report.as_dictionary()}


def _write_batch(
    pairs: list[Pair], sides: tuple[Subwords, Subwords], data: DataSpec, report: Report, writer: StoreWriter
) -> None:
    places, *texts = zip(*pairs)
    source, target = (side.encode(text) for side, text in zip(sides, texts))
    kept = []
    for number, place in enumerate(places):
        if fault := _fault_of_length(len(source[number]), len(target[number]), data):
            report.note(fault, place)
        else:
            kept.append(number)
    report.kept += len(kept)
    for side, ids in zip(SIDES, (source, target)):
        writer.append(side, [ids[number] for number in kept])


def _fault_of_length(source: int, target: int, data: DataSpec) -> Fault | None:
    """Lengths without and proportions with the end symbol, which is gentle with the shortest pairs."""
    if max(source, target) > data.longest:
        return Fault.LONG
    if data.ratio is not None and max(source, target) + 1 > data.ratio * (min(source, target) + 1):
        return Fault.PROPORTION
    return None


def _batches(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while batch := list(islice(pairs, BATCH)):
        yield batch


def _publish(making: Path, directory: Path, description: dict[str, Any]) -> None:
    """Moves what was made into place; the description goes first where there is an old one, and comes last."""
    (directory / DESCRIPTION).unlink(missing_ok=True)
    files = entries(sorted(making.iterdir()))
    for name in files:
        flush(making / name)
        (making / name).replace(directory / name)
    aside = making / DESCRIPTION
    whole = json.loads(json.dumps(description | {"files": files}))
    aside.write_text(json.dumps(whole | {"seal": _seal(whole)}, indent=2), encoding="utf-8")
    flush(aside)
    flush(directory)
    aside.replace(directory / DESCRIPTION)
    flush(directory)
    making.rmdir()
