"""The store: the training pairs as tokens on disk; preparing, opening and verifying it.

`prepare` reads the corpora of a recipe, learns subwords, and writes each pair once. Memory does not grow with the
corpora: subwords are learnt from a bounded, evenly spread sample, and the pairs are encoded in batches. Files are
written in the folder `making` and then moved into place, `store.json` last: without it there is no store.
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
from transduce.corpus.encoding import STATE, EncodingState, encode_corpus
from transduce.corpus.entries import files_of
from transduce.corpus.fingerprint import VERSION, checksums_of_corpora, fingerprint_of, time_of_change
from transduce.corpus.learning import learn_subwords, limit_threads
from transduce.corpus.readers import open_corpus_file, read_byte_pairs
from transduce.corpus.subword_dropout import SubwordDropout, SubwordDropoutStore
from transduce.corpus.token_store import FILES, OFFSET, SIDES, CorpusPart, TokenStore
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import Checksums, checksums_of_files, find_damage
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.subwords import Bpe, Subwords, WordPiece

__all__ = ["Prepared", "check_files", "open_store", "prepare", "subwords_files", "verify_store"]

DESCRIPTION, STAGED = "store.json", "begun.json"


class Prepared(NamedTuple):
    """An open store: the subwords of both sides, the pairs, and the report of dropped pairs."""

    source: Subwords
    target: Subwords
    train: TokenStore
    report: Report
    directory: Path
    fingerprint: str


class StagedSubwords(NamedTuple):
    """The subwords of an unfinished store, as `begun.json` describes them."""

    fingerprint: str  # of the store
    shared: bool
    pairs: int  # of all corpora, before any is dropped
    files: Checksums  # of the subwords


def open_store(directory: Path) -> Prepared:
    """Opens what `prepare` wrote, reading no pair; raises ValueError for an incomplete store or another version."""
    values = _read_description(directory)
    for name, checksum in values["files"].items():
        size = (directory / name).stat().st_size if (directory / name).is_file() else None
        if size != checksum["bytes"]:
            raise _store_error(directory, f"{name} should have {checksum['bytes']:,} bytes, and has {size or 'none'}")
    source, target = _load_subwords(directory, shared=values["shared"])
    files, dtype = {name: directory / name for name in FILES}, np.dtype(values["dtype"])
    parts = [CorpusPart(*part) for part in values["parts"]]
    pairs = sum(part.pairs for part in parts)
    if any(files[f"{side}.offsets"].stat().st_size != OFFSET.itemsize * (pairs + 1) for side in SIDES):
        raise _store_error(directory, f"it does not hold the {pairs:,} pairs that it counts")
    dropout = SubwordDropout(source, target, values["dropout"])
    arguments = files, dtype, parts, values.get("longest")
    store = SubwordDropoutStore(*arguments, dropout) if dropout.probability else TokenStore(*arguments)
    return Prepared(source, target, store, Report.from_dictionary(values["report"]), directory, values["fingerprint"])


def verify_store(directory: Path) -> list[str]:
    """Reads all files of a store and returns their faults, a sentence each; none where no store is finished."""
    if not (directory / DESCRIPTION).exists():
        return []
    try:
        return find_damage(directory, _read_description(directory)["files"])
    except ValueError as error:
        return [str(error)]


def _read_description(directory: Path) -> dict[str, Any]:
    """Returns the values of `store.json`; raises ValueError where it is missing, damaged or of another version."""
    if not (directory / DESCRIPTION).is_file():
        raise ValueError(f"{directory} holds no complete store; make one with `transduce prepare`")
    try:
        values: dict[str, Any] = json.loads(read_regular_file(directory / DESCRIPTION, MAX_JSON_BYTES))
        version, seal = values["version"], values.pop("seal", None)
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise _store_error(directory, f"{DESCRIPTION} cannot be read ({error})") from None
    if version != VERSION:
        raise _store_error(directory, f"it has version {version}, this program reads {VERSION}")
    if seal != _seal(values):
        raise _store_error(directory, f"{DESCRIPTION} has changed since it was written")
    return values


def _seal(values: Mapping[str, Any]) -> str:
    """Returns a checksum of the description."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def subwords_files(*, shared: bool) -> tuple[str, str]:
    """Returns the names of the files with the subwords of source and target."""
    return ("tokenizer.json",) * 2 if shared else ("source.tokenizer.json", "target.tokenizer.json")


def _load_subwords(directory: Path, *, shared: bool) -> tuple[Subwords, Subwords]:
    source, target = (directory / name for name in subwords_files(shared=shared))
    loaded = Subwords.load(source)
    return loaded, loaded if shared else Subwords.load(target)


def _store_error(directory: Path, reason: str) -> ValueError:
    return ValueError(f"the store in {directory} cannot be used: {reason}; delete the directory and prepare again")


def prepare(
    data: DataSpec,
    subwords: Bpe | WordPiece,
    directory: Path,
    *,
    threads: int,
    say: Callable[[str], None],
    existing_subwords: tuple[Subwords, Subwords] | None = None,
    in_use: bool = False,
) -> Prepared:
    """Learns subwords for `data.train` and writes its pairs as tokens to `directory`; opens a store that is complete.

    With `existing_subwords`, those of another model, none are learnt; `subwords` sets only the dropout. A store made
    from other data or settings is replaced; one `in_use` is refused, or keeps its subwords. An interrupted preparation
    is resumed. Raises ValueError or OSError for faults of the files, RuntimeError where a worker process was killed.
    """
    limit_threads(threads)
    if subwords.kind == "bpe" and subwords.dropout:
        for side in existing_subwords or ():
            side.check_merges("the subwords of --from")
    earlier = _earlier_description(directory)
    existing_subwords = existing_subwords or (_load_existing_subwords(directory, earlier) if in_use else None)
    checksums = checksums_of_corpora(data, earlier.get("made_of", []))
    fingerprint = fingerprint_of(data, subwords, existing_subwords, checksums)
    if prepared := _open_if_current(directory, fingerprint):
        return prepared
    if in_use:
        _check_unchanged(directory, earlier, fingerprint)
    staging = directory / "making"
    staged = _stage_subwords(staging, fingerprint, data, subwords, existing_subwords, say)
    description = _encode_pairs(data, staging, staged, threads, say) | {
        "given": existing_subwords is not None,
        "dropout": subwords.dropout if subwords.kind == "bpe" else 0.0,
        "fingerprint": fingerprint,
        "made_of": checksums,
    }
    _publish(staging, directory, description)
    return open_store(directory)


def _encode_pairs(
    data: DataSpec, staging: Path, staged: StagedSubwords, threads: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Writes the pairs as tokens into `staging`; returns their part of the store's description."""
    subwords = _load_subwords(staging, shared=staged.shared)
    say("encoding the corpus")
    state, dtype = encode_corpus(data, subwords, staging, staged.pairs, say, threads=threads)
    _require_pairs(data, state, say)
    for line in state.report.summary():
        say(line)
    return {
        "version": VERSION,
        "dtype": dtype.str,
        "parts": state.parts,
        "longest": state.longest,
        "report": state.report.as_dictionary(),
        "shared": staged.shared,
    }


def _earlier_description(directory: Path) -> dict[str, Any]:
    """Returns the description of a complete store in `directory`; an empty one where there is none."""
    try:
        return _read_description(directory)
    except ValueError:
        return {}


def _load_existing_subwords(directory: Path, earlier: dict[str, Any]) -> tuple[Subwords, Subwords] | None:
    """Returns the subwords of the earlier store where they were those of another model; None where they were learnt."""
    try:
        return _load_subwords(directory, shared=earlier["shared"]) if earlier.get("given") else None
    except (ValueError, OSError):
        return None


def check_files(data: DataSpec) -> None:
    """Raises ValueError or OSError where a file of the training or validation corpora cannot be opened."""
    for corpus in (*data.train, *([data.validation] if data.validation else [])):
        for path in files_of(corpus):
            open_corpus_file(path).close()


def _check_unchanged(directory: Path, earlier: dict[str, Any], fingerprint: str) -> None:
    """Raises ValueError where the earlier store has another fingerprint: replacing it would lose what a run needs."""
    if earlier and earlier["fingerprint"] != fingerprint:
        raise ValueError(
            f"the training data, `data` or `subwords` of the recipe, or --from has changed since {directory} was made, "
            "and a run has begun with it; choose another directory, or start anew with --restart (the old run is kept)"
        )


def _require_pairs(data: DataSpec, state: EncodingState, say: Callable[[str], None]) -> None:
    """Warns of corpora without a kept pair; raises ValueError where no corpus has one."""
    for corpus, part in zip(data.train, state.parts, strict=True):
        if not part.pairs:
            say(f"warning: {name_of(corpus)}: no pair is kept; the training does not use this corpus")
    if not state.report.kept:
        raise ValueError("data.train: no pair is left to train on; " + "; ".join(state.report.summary()))


def _load_staged(staging: Path, fingerprint: str) -> StagedSubwords | None:
    """Returns what an interrupted preparation of the same store staged; None where it staged none or a file differs."""
    try:
        staged = StagedSubwords(**json.loads(read_regular_file(staging / STAGED, MAX_JSON_BYTES)))
    except (OSError, ValueError, TypeError):
        return None
    return staged if staged.fingerprint == fingerprint and not find_damage(staging, staged.files) else None


def _stage_subwords(
    staging: Path,
    fingerprint: str,
    data: DataSpec,
    subwords: Bpe | WordPiece,
    existing_subwords: tuple[Subwords, Subwords] | None,
    say: Callable[[str], None],
) -> StagedSubwords:
    """Writes the subwords to `staging`, learning them unless there are existing ones; keeps those already staged."""
    if staged := _load_staged(staging, fingerprint):
        return staged
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    if existing_subwords is None:
        say(f"learning subwords ({subwords.kind}, {subwords.size:,})")
        sides, pairs = learn_subwords(data, subwords)
    else:
        sides, pairs = existing_subwords, sum(1 for corpus in data.train for _ in read_byte_pairs(corpus))
    shared = sides[0] is sides[1]
    files = [staging / name for name in subwords_files(shared=shared)]
    for path, side in zip(files, sides):
        side.save(path)
        flush_to_disk(path)
    staged = StagedSubwords(fingerprint, shared, pairs, checksums_of_files(files))
    atomic_write_text(staging / STAGED, json.dumps(staged._asdict()))
    return staged


def _open_if_current(directory: Path, fingerprint: str) -> Prepared | None:
    """Opens the store where it has this fingerprint and no damage; returns None otherwise.

    Only files with another time of change are read, so that a large store opens at once.
    """
    try:
        prepared = open_store(directory)
        files = _read_description(directory)["files"]
        touched = {name: file for name, file in files.items() if time_of_change(directory / name) != file["changed"]}
        is_current = prepared.fingerprint == fingerprint and not find_damage(directory, touched)
    except ValueError:
        return None
    return prepared if is_current else None


def _publish(staging: Path, directory: Path, description: dict[str, Any]) -> None:
    """Moves the files into place; deletes an old description before the first and writes the new one after the last."""
    files = checksums_of_files(sorted(path for path in staging.iterdir() if path.name not in (STAGED, STATE)))
    for name, checksum in files.items():
        checksum["changed"] = time_of_change(staging / name)
        flush_to_disk(staging / name)
    # An interruption before this line loses nothing; the checksums take long for a large corpus.
    (staging / STAGED).unlink()
    (staging / STATE).unlink()
    (directory / DESCRIPTION).unlink(missing_ok=True)
    for name in files:
        (staging / name).replace(directory / name)
    aside = staging / DESCRIPTION
    values = json.loads(json.dumps(description | {"files": files}))
    aside.write_text(json.dumps(values | {"seal": _seal(values)}, indent=2), encoding="utf-8")
    flush_to_disk(aside)
    flush_to_disk(directory)
    aside.replace(directory / DESCRIPTION)
    flush_to_disk(directory)
    staging.rmdir()
