"""The store: the training pairs as subwords, on disk; how it is made, and how it is opened.

Preparing reads the corpora of a recipe, learns subwords, and writes the pairs down as ids, once. Memory does not
grow with the corpora: subwords are learnt from a bounded, evenly spread sample, and the pairs pass through in
batches. `store.json` is written last: without it there is no store.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transduce.corpus.checks import Report, name_of, readable_pairs
from transduce.corpus.data import DataSpec
from transduce.corpus.encode import STATE, EncodingState, encode_corpus
from transduce.corpus.entries import PATHS, CorpusSpec, Embedded, Hub, files_of, is_folder
from transduce.corpus.readers import bytes_of_pairs, opened
from transduce.corpus.subword_dropout import SubwordDropout, SubwordDropoutStore
from transduce.corpus.token_store import FILES, OFFSET, SIDES, CorpusPart, TokenStore
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import Checksums, checksums_of_files, find_damage
from transduce.text.subwords import Bpe, Subwords, WordPiece

__all__ = ["Prepared", "TokenStore", "check_files", "open_store", "prepare", "subwords_files", "verify_store"]

VERSION = 2
DESCRIPTION, BEGUN = "store.json", "begun.json"

Pair = tuple[str, str, str]
"""Place, source, target."""

Known = dict[str, Any]
"""A file's path, size, time of its last change, and checksum."""

SAMPLE = 100_000
"""Pairs, at most, from which subwords are learnt: more would change only the rarest, and memory would grow."""


class Prepared(NamedTuple):
    """What preparing gives: the subwords of both sides, the pairs, and what was left out."""

    source: Subwords
    target: Subwords
    train: TokenStore
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
    parts = [CorpusPart(*part) for part in values["parts"]]
    pairs = sum(part.pairs for part in parts)
    if any(files[f"{side}.offsets"].stat().st_size != OFFSET.itemsize * (pairs + 1) for side in SIDES):
        raise _unusable(directory, f"it does not hold the {pairs:,} pairs that it counts")
    dropped = SubwordDropout(source, target, values["dropout"])
    known = files, dtype, parts, values.get("longest")
    store = SubwordDropoutStore(*known, dropped) if dropped.probability else TokenStore(*known)
    return Prepared(source, target, store, Report.from_dictionary(values["report"]), directory, values["fingerprint"])


def verify_store(directory: Path) -> list[str]:
    """Which files of a store are not as they were written, all of them read; none where no store is finished."""
    if not (directory / DESCRIPTION).exists():
        return []
    try:
        return find_damage(directory, _description(directory)["files"])
    except ValueError as error:
        return [str(error)]


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
    in_use: bool = False,
) -> Prepared:
    """Learns subwords for `data.train` and writes its pairs as ids to `directory`; returns at once if it was done.

    Where subwords are `given`, those of another model, none are learnt: `subwords` then says only its dropout.
    A directory made from other data or settings is made anew, or refused where it is `in_use`; one in use keeps the
    subwords that it was given. What was interrupted is gone on with. Nothing in it counts until all is written.
    `threads` are the cores that cut; for learning, those of the first call of a process hold. `ValueError` and
    `OSError` for what is wrong with the files, `RuntimeError` where a process that cuts was killed.
    """
    _limit_threads(threads)
    if subwords.kind == "bpe" and subwords.dropout:
        for side in given or ():
            side.check_merges("the subwords of --from")
    given = given or (_given(directory) if in_use else None)
    sums = _checksums(data, directory)
    fingerprint = _fingerprint(data, subwords, given, sums)
    if done := _done(directory, fingerprint):
        return done
    if in_use:
        _check_unchanged(directory, fingerprint)
    making = directory / "making"
    begun = _begun(making, fingerprint) or _begin(making, fingerprint, data, subwords, given, say)
    sides = _subwords(making, shared=begun.shared)
    say("cutting the corpus into subwords")
    state, dtype = encode_corpus(data, sides, making, begun.pairs, say, threads=threads)
    _require_pairs(data, state, say)
    description = {
        "version": VERSION,
        "dtype": dtype.str,
        "parts": state.parts,
        "longest": state.longest,
        "report": state.report.as_dictionary(),
        "shared": begun.shared,
        "given": given is not None,
        "dropout": subwords.dropout if subwords.kind == "bpe" else 0.0,
        "fingerprint": fingerprint,
        "made_of": sums,
    }
    _publish(making, directory, description)
    prepared = open_store(directory)
    for line in prepared.report.summary():
        say(line)
    return prepared


def _given(directory: Path) -> tuple[Subwords, Subwords] | None:
    """The subwords of another model that a whole store was made with, if it was."""
    try:
        values = _description(directory)
        return _subwords(directory, shared=values["shared"]) if values.get("given") else None
    except (ValueError, OSError):
        return None


def check_files(data: DataSpec) -> None:
    """A `ValueError` or an `OSError` where a file of the corpora of training or of validation cannot be read."""
    for corpus in (*data.train, *([data.validation] if data.validation else [])):
        for path in files_of(corpus):
            opened(path).close()


def _check_unchanged(directory: Path, fingerprint: str) -> None:
    """A `ValueError` where a whole store was made of something else: making it anew would lose it."""
    try:
        known = _description(directory)["fingerprint"]
    except ValueError:
        return
    if known != fingerprint:
        raise ValueError(
            f"the training data, or `data` or `subwords` of the recipe, has changed since {directory} was made, and a "
            "run has begun on that, or the run was begun with another --from; choose another directory, or begin a "
            "run anew with --restart (what is there is kept)"
        )


def _require_pairs(data: DataSpec, state: EncodingState, say: Callable[[str], None]) -> None:
    """Tells the corpora of which nothing is kept; a `ValueError` where these are all."""
    for corpus, part in zip(data.train, state.parts, strict=True):
        if not part.pairs:
            say(f"warning: {name_of(corpus)}: no pair is kept, nothing is trained on it")
    if not state.report.kept:
        raise ValueError("data.train: no pair is left to train on; " + "; ".join(state.report.summary()))


class Begun(NamedTuple):
    """What is known when the subwords are."""

    fingerprint: str
    shared: bool
    pairs: int  # of all corpora, before any is dropped
    files: Checksums  # of the subwords


def _begun(making: Path, fingerprint: str) -> Begun | None:
    """What an interrupted process has begun, if it was for the same store."""
    try:
        begun = Begun(**json.loads((making / BEGUN).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return begun if begun.fingerprint == fingerprint and not find_damage(making, begun.files) else None


def _begin(
    making: Path,
    fingerprint: str,
    data: DataSpec,
    subwords: Bpe | WordPiece,
    given: tuple[Subwords, Subwords] | None,
    say: Callable[[str], None],
) -> Begun:
    """Learns the subwords, and writes them down."""
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    if given is None:
        say(f"learning subwords ({subwords.kind}, {subwords.size:,})")
        sides, pairs = _learn(data, subwords)
    else:
        sides, pairs = given, sum(1 for corpus in data.train for _ in bytes_of_pairs(corpus))
    shared = sides[0] is sides[1]
    files = [making / name for name in subwords_files(shared=shared)]
    for path, side in zip(files, sides):
        side.save(path)
        flush_to_disk(path)
    begun = Begun(fingerprint, shared, pairs, checksums_of_files(files))
    atomic_write_text(making / BEGUN, json.dumps(begun._asdict()))
    return begun


def _limit_threads(threads: int) -> None:
    """The library reads both variables when it first works."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")


def _fingerprint(
    data: DataSpec, subwords: Bpe | WordPiece, given: tuple[Subwords, Subwords] | None, sums: Sequence[Known]
) -> str:
    """A checksum of everything the store depends on: the settings and the files' bytes, wherever they lie."""
    known = {each["path"]: each["sha256"] for each in sums}
    corpora = []
    for corpus in data.train:
        values = corpus.as_dictionary()
        content: dict[str, Any] = {key: known[str(Path(value))] for key, value in values.items() if key in PATHS}
        if isinstance(corpus, Hub) and is_folder(corpus.hub):
            content["hub"] = [known[str(path)] for path in files_of(corpus)]
        corpora.append({**values, **content, "program": _grammar(corpus)})
    settings = {"longest": data.longest, "ratio": data.ratio, "subwords": subwords.as_dictionary(), "version": VERSION}
    sides = [side.as_json() for side in given or ()]
    whole = json.dumps({**settings, "corpora": corpora, "given": sides}, sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _grammar(corpus: CorpusSpec) -> int | None:
    """The version of what writes the embedded corpus."""
    if not isinstance(corpus, Embedded):
        return None
    from transduce.embedded import GRAMMAR  # here, because it reads its tables

    return GRAMMAR


def _checksums(data: DataSpec, directory: Path) -> list[Known]:
    """The checksum of each file of the corpora; one whose size and time are those of the store's making is not read."""
    try:
        before = _description(directory)["made_of"]
    except ValueError:
        before = []
    found = []
    for path in (path for corpus in data.train for path in files_of(corpus)):
        known: Known = {"path": str(path), "size": path.stat().st_size, "changed": _changed(path)}
        same = [each for each in before if known.items() <= each.items()]
        found.append(same[0] if same else {**known, "sha256": _checksum(path)})
    return found


def _changed(path: Path) -> int:
    """When a file was changed last, in nanoseconds."""
    return path.stat().st_mtime_ns


def _checksum(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _done(directory: Path, fingerprint: str) -> Prepared | None:
    """The store that is there, if it was made from the same things and is as it was written.

    Only files that somebody has touched since are read: a large store is opened at once.
    """
    try:
        prepared = open_store(directory)
        files = _description(directory)["files"]
        touched = {name: known for name, known in files.items() if _changed(directory / name) != known["changed"]}
        whole = prepared.fingerprint == fingerprint and not find_damage(directory, touched)
    except ValueError:
        return None
    return prepared if whole else None


def _learn(data: DataSpec, spec: Bpe | WordPiece) -> tuple[tuple[Subwords, Subwords], int]:
    """The subwords of both sides, and the number of all pairs."""
    sample, pairs = _sample(data.train, data.longest)
    if spec.shared:
        both = Subwords.learn((side for _, *pair in sample for side in pair), spec)
        return (both, both), pairs
    source, target = (Subwords.learn((pair[place] for pair in sample), spec) for place in (1, 2))
    return (source, target), pairs


def _sample(corpora: Sequence[CorpusSpec], longest: int) -> tuple[list[Pair], int]:
    """Every pair, or every second, fourth, eighth…, so that at most `SAMPLE` are held; and how many there are."""
    sample: list[Pair] = []
    stride, report = 1, Report()
    everything = (pair for corpus in corpora for pair in readable_pairs(corpus, report, longest))
    for number, pair in enumerate(everything):
        if number % stride == 0:
            sample.append(pair)
        if len(sample) > SAMPLE:
            del sample[1::2]
            stride *= 2
    return sample, report.read


def _publish(making: Path, directory: Path, description: dict[str, Any]) -> None:
    """Moves what was made into place; the description goes first where there is an old one, and comes last."""
    files = checksums_of_files(sorted(path for path in making.iterdir() if path.name not in (BEGUN, STATE)))
    for name, known in files.items():
        known["changed"] = _changed(making / name)
        flush_to_disk(making / name)
    # Until here, which takes long for a large corpus, an interruption loses nothing.
    (making / BEGUN).unlink()
    (making / STATE).unlink()
    (directory / DESCRIPTION).unlink(missing_ok=True)
    for name in files:
        (making / name).replace(directory / name)
    aside = making / DESCRIPTION
    whole = json.loads(json.dumps(description | {"files": files}))
    aside.write_text(json.dumps(whole | {"seal": _seal(whole)}, indent=2), encoding="utf-8")
    flush_to_disk(aside)
    flush_to_disk(directory)
    aside.replace(directory / DESCRIPTION)
    flush_to_disk(directory)
    making.rmdir()
