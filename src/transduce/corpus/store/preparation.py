"""Prepares, opens and verifies a token store.

To prepare a store, the subwords are learned first, then the pairs are encoded, and finally all files are moved into
place.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from transduce.corpus.check_actions import DroppedPairs, run_checks, warn_of_exchanged_sides
from transduce.corpus.corpus_kinds import files_of
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.epoch_encoding import ReencodedStore, Reencoding
from transduce.corpus.learned_subwords import (
    check_tags,
    check_vocabularies,
    grow_vocabularies,
    learn_subwords,
    limit_threads,
    vocabulary_checksums,
)
from transduce.corpus.mixture import describe_mixture, with_temperature
from transduce.corpus.pair_checks import Report, name_of
from transduce.corpus.readers import read_byte_pairs
from transduce.corpus.store.encoding import STATE, encode_corpus
from transduce.corpus.store.store_description import (
    DESCRIPTION,
    FileChecksum,
    StoreDescription,
    StoredFiles,
    StoredGrowth,
    checksums_of_corpora,
    describe_files,
    earlier_description,
    find_damage_of,
    fingerprint_of,
    have_same_training_data,
    load_given_subwords,
    read_description,
    store_error,
    time_of_change,
)
from transduce.corpus.store.token_store import FILES, Count, TokenStore
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file, remove
from transduce.text.subword_training import SubwordsSpec
from transduce.text.token_vocabulary import TokenVocabulary, load_subwords, share_subwords, subwords_files

_log = logging.getLogger("transduce")

STAGED = "begun.json"
FEW_PAIRS = 1_000  # a warning is logged if fewer pairs are kept


class StagedSubwords(NamedTuple):
    """The subwords of an unfinished store, as recorded in `begun.json`."""

    fingerprint: str  # the store's
    shared: bool
    pairs: Count  # in all corpora, before any is dropped
    files: StoredFiles  # the files of the subwords


class PreparedCorpus(NamedTuple):
    """An open token store, with the subwords of both sides and the report on dropped pairs."""

    source: TokenVocabulary
    target: TokenVocabulary
    train: TokenStore
    report: Report
    directory: Path
    fingerprint: str


def open_store(directory: Path) -> PreparedCorpus:
    """Opens a store that `prepare` wrote, without reading any pairs.

    Raises ValueError if the store is incomplete or has a different version.
    """
    description = read_description(directory)
    for name, file in description.files.items():
        size = (directory / name).stat().st_size if (directory / name).is_file() else None
        if size != file.bytes:
            raise store_error(directory, f"{name} should have {file.bytes:,} bytes, and has {size or 'none'}")
    source, target = load_subwords(directory, shared=description.shared)
    files = {name: directory / name for name in FILES}
    arguments = files, np.dtype(description.dtype), description.parts, description.longest
    if description.dropout or description.noise:
        reencoding = Reencoding(source, target, description.dropout, description.noise)
        store: TokenStore = ReencodedStore(*arguments, reencoding)
    else:
        store = TokenStore(*arguments, (source.size, target.size))
    if fault := store.fault_of_ends():
        raise store_error(directory, fault)
    return PreparedCorpus(source, target, store, description.report, directory, description.fingerprint)


def verify_store(directory: Path) -> list[str]:
    """Reads all files of a store and returns one sentence for each fault.

    The list is empty if there is no finished store in `directory`.
    """
    if not (directory / DESCRIPTION).exists():
        return []
    try:
        return _find_faults(directory, read_description(directory).files)
    except ValueError as error:
        return [str(error)]


def _find_faults(directory: Path, files: StoredFiles) -> list[str]:
    """Returns one sentence for each fault in a store.

    Compares `files` with their checksums and, if they match, reads all tokens. Reads nothing if `files` is empty.
    """
    if (damage := find_damage_of(directory, files)) or not files:
        return damage
    prepared = open_store(directory)
    fault = prepared.train.find_fault((prepared.source.size, prepared.target.size))
    return [fault] if fault else []


def prepare(
    data: DataSpec,
    subwords: SubwordsSpec,
    directory: Path,
    *,
    threads: int,
    existing_subwords: tuple[TokenVocabulary, TokenVocabulary] | None = None,
    growth: int | None = None,
    in_use: bool = False,
) -> PreparedCorpus:
    """Prepares a store for `data` in `directory` and opens it. If the store is already complete, it is only opened.

    The subwords are learned from `data.train`, and its pairs are then written as tokens. If `existing_subwords` from
    another model are given, at most `growth` subwords are added to them, or none if `growth` is None, and `subwords`
    determines only the dropout.

    A store that was built from different data or settings is replaced, unless it is `in_use` by a run. If a store in
    use is damaged, it is rebuilt with the same subwords. If a call is interrupted, the next call resumes it.

    Raises ValueError if a store in use was built from different data or settings. Raises ValueError or OSError if files
    are faulty, and RuntimeError if a worker process was killed.
    """
    dropout = subwords.dropout if subwords.kind == "bpe" else 0.0
    for side in existing_subwords if existing_subwords and dropout else ():
        side.check_can_drop_merges("the subwords of --from")
    limit_threads(threads)
    earlier = earlier_description(directory)
    # Subwords that are not learned: `existing_subwords`, or the subwords that the store in use took from another model.
    existing, stored_growth = existing_subwords, None
    if existing is None:
        growth = None
        if in_use and (existing := load_given_subwords(directory, earlier)) and earlier:
            stored_growth = earlier.growth
    elif growth is not None:
        check_vocabularies(existing)
        stored_growth = StoredGrowth(subwords=growth, before=vocabulary_checksums(existing))
    checksums = checksums_of_corpora(data, earlier.made_of if earlier else ())
    fingerprint = fingerprint_of(data, subwords, existing, checksums, stored_growth)
    if prepared := _open_if_current(directory, fingerprint, in_use):
        return prepared
    _check_unchanged(directory, earlier if in_use else None, fingerprint, checksums, data)
    dropped, staging = run_checks(data), directory / "making"
    # Loading the language identifier takes a third of a second, so it runs in parallel with learning, which releases
    # the GIL.
    with ThreadPoolExecutor(1) as beside:
        beside.submit(warn_of_exchanged_sides, data)
        staged = _stage_subwords(staging, fingerprint, data, subwords, existing, growth, dropped)
    description = _encode_pairs(data, staging, staged, dropped, threads) | {
        "given": existing is not None,
        "growth": stored_growth,
        "dropout": dropout,
        "noise": data.noise,
        "fingerprint": fingerprint,
        "made_of": tuple(checksums),
    }
    _publish(staging, directory, description)
    return open_store(directory)


def _stage_subwords(
    staging: Path,
    fingerprint: str,
    data: DataSpec,
    subwords: SubwordsSpec,
    existing_subwords: tuple[TokenVocabulary, TokenVocabulary] | None,
    growth: int | None,
    dropped: Sequence[DroppedPairs],
) -> StagedSubwords:
    """Writes the subwords to `staging`, learning them first if they do not exist yet.

    If subwords for the same store are already staged, they are kept.
    """
    if staged := _load_staged(staging, fingerprint):
        return staged
    remove(staging)
    staging.mkdir(parents=True)
    if existing_subwords is None:
        if subwords.kind != "sentencepiece" or not subwords.model_files:
            _log.info(f"learning subwords ({subwords.kind}, {subwords.size:,})")
        sides, pairs = learn_subwords(data, subwords, dropped)
    else:
        check_tags(data, existing_subwords[0])
        sides = existing_subwords
        if growth is not None:
            sides = grow_vocabularies(sides, growth, data, dropped)
        pairs = sum(1 for corpus in data.train for _ in read_byte_pairs(corpus))
    shared = share_subwords(sides)
    files = [staging / name for name in subwords_files(shared=shared)]
    for path, side in zip(files, sides, strict=False):
        side.save(path)
    staged = StagedSubwords(fingerprint, shared, pairs, describe_files(files))
    atomic_write_text(staging / STAGED, TypeAdapter(StagedSubwords).dump_json(staged).decode())
    return staged


def _load_staged(staging: Path, fingerprint: str) -> StagedSubwords | None:
    """Loads the subwords that an interrupted call staged for the same store.

    Returns None if they are missing or damaged, or if the fingerprint is different.
    """
    try:
        staged = TypeAdapter(StagedSubwords).validate_json(
            read_regular_file(staging / STAGED, MAX_JSON_BYTES), strict=True
        )
    except (OSError, ValueError):
        return None
    return staged if staged.fingerprint == fingerprint and not find_damage_of(staging, staged.files) else None


def _encode_pairs(
    data: DataSpec,
    staging: Path,
    staged: StagedSubwords,
    dropped: Sequence[DroppedPairs],
    threads: int,
) -> dict[str, Any]:
    """Writes the pairs as tokens to `staging`, and returns the fields of the store's description that depend on them.

    Raises ValueError if there are no pairs to train on.
    """
    subwords = load_subwords(staging, shared=staged.shared)
    _log.info("encoding the corpus")
    state, dtype = encode_corpus(data, subwords, staging, staged.pairs, dropped=dropped, threads=threads)
    if not state.report.read:
        names = ", ".join(map(name_of, data.train))
        raise ValueError(f"{names} is empty: there is nothing to train on; name a text in `data.train`")
    for corpus, part in zip(data.train, state.parts, strict=True):
        if not part.pairs:
            _log.warning(f"warning: {name_of(corpus)}: no pair is kept; the training does not use this corpus")
    if not state.report.kept:
        raise ValueError("data.train: no pair is left to train on; " + "; ".join(state.report.summary()))
    for line in state.report.summary():
        _log.info(line)
    if state.report.kept < FEW_PAIRS:
        _log.warning(
            f"warning: only {state.report.kept:,} pairs; a new model needs thousands to translate other text "
            "(docs/guides/few-texts.md)"
        )
    directions = [data.direction_of(corpus) for corpus in data.train]
    parts = with_temperature(state.parts, directions, data.temperature)
    for line in describe_mixture(parts, data):
        _log.info(line)
    return {
        "dtype": dtype.str,
        "parts": parts,
        "longest": state.longest,
        "report": state.report,
        "shared": staged.shared,
    }


def _check_unchanged(
    directory: Path,
    in_use: StoreDescription | None,
    fingerprint: str,
    checksums: Sequence[FileChecksum],
    data: DataSpec,
) -> None:
    """Raises ValueError if the store in use was built from different training data.

    Replacing this store would delete data that the run still needs.
    """
    if in_use is None or have_same_training_data(in_use.fingerprint, fingerprint):
        return
    before = {checksum.path: checksum.sha256 for checksum in in_use.made_of}
    now = {checksum.path: checksum.sha256 for checksum in checksums}
    files = dict.fromkeys(str(path) for corpus in data.train for path in files_of(corpus))
    changed = [path for path in files if before.get(path, now[path]) != now[path]]
    cause = f" ({', '.join(changed)})" if changed else ", `data` or `subwords` of the recipe, or --from"
    raise ValueError(
        f"the training data{cause} has changed since {directory} was made, and a run has begun with it; choose another "
        "directory, or start anew with --restart (the old run is kept)"
    )


def _open_if_current(directory: Path, fingerprint: str, in_use: bool) -> PreparedCorpus | None:
    """Opens the store if its fingerprint is current and none of its files is damaged, and returns None otherwise.

    A store in use remains current if only the validation or test sets have changed. To open a large store immediately,
    only files with a new modification time are compared with their checksums.
    """
    try:
        prepared = open_store(directory)
        files = read_description(directory).files
        touched = {name: file for name, file in files.items() if time_of_change(directory / name) != file.changed}
        is_same = have_same_training_data if in_use else str.__eq__
        is_current = is_same(prepared.fingerprint, fingerprint) and not _find_faults(directory, touched)
    except ValueError:
        return None
    if is_current and prepared.fingerprint != fingerprint:
        _log.info("validation or test sets have changed: pairs that overlap with the new ones are not dropped")
    return prepared if is_current else None


def _publish(staging: Path, directory: Path, description: dict[str, Any]) -> None:
    """Moves the files of the store into place and writes its description.

    The old description is deleted before the first file is moved, and the new one is written after the last file.
    """
    files = describe_files(sorted(path for path in staging.iterdir() if path.name not in (STAGED, STATE)))
    content = StoreDescription(**description, files=files).as_sealed_json()
    for name in files:
        flush_to_disk(staging / name)
    # Up to this line, an interruption loses no work. This matters because the checksums of a large store take time.
    (staging / STAGED).unlink()
    (staging / STATE).unlink()
    (directory / DESCRIPTION).unlink(missing_ok=True)
    for name in files:
        (staging / name).replace(directory / name)
    flush_to_disk(directory)
    atomic_write_text(directory / DESCRIPTION, content)
    staging.rmdir()
