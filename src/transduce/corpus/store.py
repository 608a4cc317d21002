"""The store: the training pairs as subwords, on disk; how it is made, and how it is opened.

Preparing reads the corpora of a recipe, learns subwords, and writes the pairs down as ids, once. Memory does not
grow with the corpora: subwords are learnt from a bounded, evenly spread sample, and the pairs pass through in
batches. `store.json` is written last: without it there is no store.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transduce.corpus.checks import Report, name_of
from transduce.corpus.data import DataSpec
from transduce.corpus.encode import STATE, EncodingState, encode_corpus
from transduce.corpus.entries import files_of
from transduce.corpus.fingerprint import VERSION, checksums_of_corpora, fingerprint_of, time_of_change
from transduce.corpus.learning import learn_subwords, limit_threads
from transduce.corpus.readers import bytes_of_pairs, opened
from transduce.corpus.subword_dropout import SubwordDropout, SubwordDropoutStore
from transduce.corpus.token_store import FILES, OFFSET, SIDES, CorpusPart, TokenStore
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import Checksums, checksums_of_files, find_damage
from transduce.text.subwords import Bpe, Subwords, WordPiece

__all__ = ["Prepared", "TokenStore", "check_files", "open_store", "prepare", "subwords_files", "verify_store"]

DESCRIPTION, BEGUN = "store.json", "begun.json"


class Prepared(NamedTuple):
    """What preparing gives: the subwords of both sides, the pairs, and what was left out."""

    source: Subwords
    target: Subwords
    train: TokenStore
    report: Report
    directory: Path
    fingerprint: str


class Begun(NamedTuple):
    """The subwords of an unfinished store, and the number of pairs to encode with them."""

    fingerprint: str
    shared: bool
    pairs: int  # of all corpora, before any is dropped
    files: Checksums  # of the subwords


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
    """Learns subwords for `data.train` and writes its pairs as ids to `directory`; opens a store that is complete.

    With `given` subwords of another model none are learnt; `subwords` sets only the dropout. A store made from other
    data or settings is replaced; one `in_use` is refused, or keeps its subwords. An interrupted preparation is resumed.
    Raises ValueError or OSError for faults of the files, RuntimeError where one of the `threads` processes was killed.
    """
    limit_threads(threads)
    if subwords.kind == "bpe" and subwords.dropout:
        for side in given or ():
            side.check_merges("the subwords of --from")
    given = given or (_given(directory) if in_use else None)
    sums = checksums_of_corpora(data, _earlier_checksums(directory))
    fingerprint = fingerprint_of(data, subwords, given, sums)
    if done := _done(directory, fingerprint):
        return done
    if in_use:
        _check_unchanged(directory, fingerprint)
    making = directory / "making"
    begun = _begun(making, fingerprint) or _begin(making, fingerprint, data, subwords, given, say)
    description = _encode_pairs(data, making, begun, threads, say) | {
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


def _encode_pairs(
    data: DataSpec, making: Path, begun: Begun, threads: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Writes the pairs as ids into `making`; returns their part of the store's description."""
    sides = _subwords(making, shared=begun.shared)
    say("cutting the corpus into subwords")
    state, dtype = encode_corpus(data, sides, making, begun.pairs, say, threads=threads)
    _require_pairs(data, state, say)
    return {
        "version": VERSION,
        "dtype": dtype.str,
        "parts": state.parts,
        "longest": state.longest,
        "report": state.report.as_dictionary(),
        "shared": begun.shared,
    }


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
        sides, pairs = learn_subwords(data, subwords)
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


def _earlier_checksums(directory: Path) -> list[dict[str, Any]]:
    """Returns the checksums of the corpora from which the store was made; none where no store is complete."""
    try:
        checksums: list[dict[str, Any]] = _description(directory)["made_of"]
    except ValueError:
        return []
    return checksums


def _done(directory: Path, fingerprint: str) -> Prepared | None:
    """The store that is there, if it was made from the same things and is as it was written.

    Only files that somebody has touched since are read: a large store is opened at once.
    """
    try:
        prepared = open_store(directory)
        files = _description(directory)["files"]
        touched = {name: known for name, known in files.items() if time_of_change(directory / name) != known["changed"]}
        whole = prepared.fingerprint == fingerprint and not find_damage(directory, touched)
    except ValueError:
        return None
    return prepared if whole else None


def _publish(making: Path, directory: Path, description: dict[str, Any]) -> None:
    """Moves what was made into place; the description goes first where there is an old one, and comes last."""
    files = checksums_of_files(sorted(path for path in making.iterdir() if path.name not in (BEGUN, STATE)))
    for name, known in files.items():
        known["changed"] = time_of_change(making / name)
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
