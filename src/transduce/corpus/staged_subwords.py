"""The subwords of an unfinished store: learned once, and kept where its preparation is interrupted."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from transduce.corpus.check_actions import DroppedPairs
from transduce.corpus.data import DataSpec
from transduce.corpus.growth import grow_vocabularies
from transduce.corpus.learning import check_tags, learn_subwords
from transduce.corpus.readers import read_byte_pairs
from transduce.corpus.store_description import StoredFiles, describe_files, find_damage_of
from transduce.corpus.token_store import Count
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file, remove
from transduce.text.subwords import Bpe, WordPiece
from transduce.text.token_vocabulary import TokenVocabulary, subwords_files

STAGED = "begun.json"


class StagedSubwords(NamedTuple):
    """The subwords of an unfinished store, as `begun.json` describes them."""

    fingerprint: str  # of the store
    shared: bool
    pairs: Count  # of all corpora, before any is dropped
    files: StoredFiles  # of the subwords


def stage_subwords(
    staging: Path,
    fingerprint: str,
    data: DataSpec,
    subwords: Bpe | WordPiece,
    existing_subwords: tuple[TokenVocabulary, TokenVocabulary] | None,
    growth: int | None,
    dropped: Sequence[DroppedPairs],
    say: Callable[[str], None],
) -> StagedSubwords:
    """Writes the subwords to `staging`, learning those that do not exist; keeps those already staged."""
    if staged := _load_staged(staging, fingerprint):
        return staged
    remove(staging)
    staging.mkdir(parents=True)
    if existing_subwords is None:
        say(f"learning subwords ({subwords.kind}, {subwords.size:,})")
        sides, pairs = learn_subwords(data, subwords, dropped)
    else:
        check_tags(data, existing_subwords[0])
        sides = existing_subwords
        if growth is not None:
            sides = grow_vocabularies(sides, growth, data, dropped, say)
        pairs = sum(1 for corpus in data.train for _ in read_byte_pairs(corpus))
    shared = sides[0] is sides[1]
    files = [staging / name for name in subwords_files(shared=shared)]
    for path, side in zip(files, sides, strict=False):
        side.save(path)
    staged = StagedSubwords(fingerprint, shared, pairs, describe_files(files))
    atomic_write_text(staging / STAGED, TypeAdapter(StagedSubwords).dump_json(staged).decode())
    return staged


def _load_staged(staging: Path, fingerprint: str) -> StagedSubwords | None:
    """Returns what an interrupted preparation of the same store staged; None where it staged none or a file differs."""
    try:
        staged = TypeAdapter(StagedSubwords).validate_json(
            read_regular_file(staging / STAGED, MAX_JSON_BYTES), strict=True
        )
    except (OSError, ValueError):
        return None
    return staged if staged.fingerprint == fingerprint and not find_damage_of(staging, staged.files) else None
