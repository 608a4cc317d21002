"""The fingerprint of a store: a checksum of the settings and of the corpora from which it is made."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transduce.corpus.data import DataSpec
from transduce.corpus.entries import PATHS, CorpusSpec, Embedded, EmbeddedTrees, Hub, files_of, is_folder
from transduce.corpus.readers import open_corpus_file, read_byte_pairs
from transduce.inspection import NEEDS_LANGUAGES, Check
from transduce.settings import Spec
from transduce.text.source_tags import tagged_languages
from transduce.text.subwords import Bpe, WordPiece
from transduce.text.token_vocabulary import TokenVocabulary, tags_of

VERSION: Literal[2] = 2  # of the store

NOT_HELD_OUT = ("weight", "tag", "source_language", "target_language")
"""Settings of a held-out set that do not decide its sources."""


class FileChecksum(NamedTuple):
    """A file's path, size, time of its last change, and checksum."""

    path: str
    size: int
    changed: int
    sha256: str


def fingerprint_of(
    data: DataSpec,
    subwords: Bpe | WordPiece,
    existing_subwords: tuple[TokenVocabulary, TokenVocabulary] | None,
    checksums: Sequence[FileChecksum],
    growth: Spec | None = None,
) -> str:
    """Returns a checksum of a version number, the settings, and the content of the files, wherever they are.

    With `growth` of the existing subwords, it names them as they were before. Where held-out sets decide which pairs
    are dropped, a dot and a checksum of these sets follow.
    """
    sha256 = {checksum.path: checksum.sha256 for checksum in checksums}
    source_tags = data.source_tags if existing_subwords is None else tags_of(existing_subwords[0])
    names_language = bool(tagged_languages(source_tags))
    training = {
        "version": VERSION,
        "data": {
            "longest": data.longest,
            "ratio": data.ratio,
            "temperature": data.temperature,
            "terms": data.terms and data.terms.as_dictionary(),
            "checks": data.checks,
        },
        "subwords": subwords.as_dictionary(),
        "given": growth.as_dictionary() if growth else [side.as_json() for side in existing_subwords or ()],
        "corpora": [
            {
                **_identity(corpus, sha256),
                "tags": data.tags_before(corpus, names_language=names_language),
                # The languages of `data` count where pairs are dropped by their languages.
                "direction": data.direction_of(corpus) if NEEDS_LANGUAGES & data.checks.keys() else None,
            }
            for corpus in data.train
        ],
    }
    held_out = [_identity(corpus, sha256, without=NOT_HELD_OUT) for corpus in _held_out_corpora(data)]
    parts = [training, held_out] if held_out else [training]
    return ".".join(hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for part in parts)


def _identity(corpus: CorpusSpec, sha256: Mapping[str, str], without: Collection[str] = ()) -> dict[str, Any]:
    """Returns what decides the pairs of a corpus: its settings but paths, the checksums of its files, its grammar."""
    is_path = {*PATHS, *(("hub",) if isinstance(corpus, Hub) and is_folder(corpus.hub) else ())}
    settings = {key: value for key, value in corpus.as_dictionary().items() if key not in is_path | {*without}}
    files = [sha256[str(path)] for path in files_of(corpus)]
    return {**settings, "files": files, "grammar": _grammar_version(corpus)}


def have_same_training_data(first: str, second: str) -> bool:
    """Returns whether two fingerprints are of the same training data; the held-out sets may differ."""
    return first.partition(".")[0] == second.partition(".")[0]


def _grammar_version(corpus: CorpusSpec) -> int | None:
    """Returns the version of the grammar that generates the embedded corpus; None for another corpus."""
    if not isinstance(corpus, Embedded | EmbeddedTrees):
        return None
    from transduce.embedded import GRAMMAR_VERSION  # imported here because importing reads its tables

    return GRAMMAR_VERSION


def checksums_of_corpora(data: DataSpec, earlier: Sequence[FileChecksum]) -> list[FileChecksum]:
    """Returns the checksum of each file of the corpora, from `earlier` where path, size and time are the same.

    The first pair of each corpus is read before the checksums, which take long for a large file: ValueError where the
    file is no corpus.
    """
    for corpus in data.train:
        if not isinstance(corpus, Hub):
            next(read_byte_pairs(corpus), None)
    checksums = []
    for path in dict.fromkeys(path for corpus in (*data.train, *_held_out_corpora(data)) for path in files_of(corpus)):
        status = str(path), path.stat().st_size, time_of_change(path)
        same = [checksum for checksum in earlier if checksum[:3] == status]
        checksums.append(same[0] if same else FileChecksum(*status, _checksum(path)))
    return checksums


def _held_out_corpora(data: DataSpec) -> list[CorpusSpec]:
    """Returns the validation and test sets whose content decides which training pairs are dropped."""
    corpora = [*data.validations, *data.test.values()] if data.checks.get(Check.OVERLAP) == "drop" else []
    return [corpus for corpus in corpora if all(path.exists() for path in files_of(corpus))]


def time_of_change(path: Path) -> int:
    """Returns when a file was changed last, in nanoseconds."""
    return path.stat().st_mtime_ns


def _checksum(path: Path) -> str:
    with open_corpus_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(data: DataSpec) -> None:
    """Raises ValueError or OSError where a file of the training or validation corpora cannot be opened."""
    for corpus in (*data.train, *data.validations):
        for path in files_of(corpus):
            open_corpus_file(path).close()
