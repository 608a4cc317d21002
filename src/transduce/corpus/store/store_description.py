"""The description of a store, `store.json`, and the fingerprint of the corpora and settings from which it is made.

The description is validated strictly and has a seal, which shows whether it was changed after it was written.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from transduce.corpus.corpus_kinds import PATHS, CorpusSpec, Embedded, EmbeddedTrees, Hub, files_of, is_folder
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.noise import Noise
from transduce.corpus.pair_checks import Report
from transduce.corpus.readers import open_corpus_file, read_byte_pairs
from transduce.corpus.store.token_store import FILES, OFFSET, SIDES, CorpusPart, Count
from transduce.inspection.line_checks import NEEDS_LANGUAGES, Check
from transduce.settings import Spec, from_satellite
from transduce.storage.checksums import checksums_of_files, find_damage
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.source_tags import tagged_languages
from transduce.text.subword_training import SubwordsSpec
from transduce.text.token_vocabulary import TokenVocabulary, load_subwords, subwords_files, tags_of

DESCRIPTION = "store.json"

VERSION: Literal[3] = 3  # of the format of a store

NOT_HELD_OUT = ("weight", "tag", "source_language", "target_language")
"""The settings of a validation or test set that do not affect its sources."""


class FileChecksum(NamedTuple):
    """The path, size, modification time (in nanoseconds) and SHA-256 checksum of a file."""

    path: str
    size: int
    changed: int
    sha256: str


class StoredGrowth(Spec):
    """Describes how the vocabularies of another model have grown.

    `subwords` is the maximum number of subwords added to each side, and `before` contains the checksums of the
    vocabularies before they grew.
    """

    subwords: int = Field(ge=1)
    before: tuple[str, ...]


class StoredFile(Spec):
    """The size, checksum and modification time (in nanoseconds) of a file in the store."""

    bytes: int = Field(gt=0)
    sha256: str
    changed: int


StoredFiles = dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], StoredFile]


class StoreDescription(Spec):
    """The content of `store.json`.

    Raises ValueError if `files` lacks a file of the store, or if the size of an offsets file does not match the number
    of pairs.
    """

    version: Literal[3] = VERSION
    dtype: Literal["<u2", "<u4"]
    parts: tuple[CorpusPart, ...]
    longest: Count  # tokens of the longest sentence of either side
    report: Report
    shared: bool  # whether both sides have the same subwords
    given: bool  # whether the subwords come from another model
    growth: StoredGrowth | None  # how the subwords of another model have grown
    dropout: float = Field(ge=0.0, lt=1.0)
    noise: Noise | None
    fingerprint: str
    made_of: tuple[FileChecksum, ...]
    files: StoredFiles

    @property
    def pairs(self) -> int:
        """The number of pairs in all parts."""
        return sum(part.pairs for part in self.parts)

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if missing := {*FILES, *subwords_files(shared=self.shared)} - self.files.keys():
            raise ValueError(f"{', '.join(sorted(missing))} is missing")
        if any(self.files[f"{side}.offsets"].bytes != OFFSET.itemsize * (self.pairs + 1) for side in SIDES):
            raise ValueError(f"it does not hold the {self.pairs:,} pairs that it counts")
        return self

    def as_sealed_json(self) -> str:
        """Returns the content of `store.json`, including the seal."""
        values = self.as_dictionary()
        return json.dumps({**values, "seal": _seal(values)}, indent=2)


def read_description(directory: Path) -> StoreDescription:
    """Reads `store.json`. Raises ValueError if it is missing, damaged or of a different version."""
    if not (directory / DESCRIPTION).is_file():
        raise ValueError(f"{directory} holds no complete store; make one with `transduce train --prepare`")
    try:
        values = json.loads(read_regular_file(directory / DESCRIPTION, MAX_JSON_BYTES))
        version, seal = values["version"], values.pop("seal", None)
        is_sealed = seal == _seal(values)
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise store_error(directory, f"{DESCRIPTION} cannot be read ({error})") from None
    if version != VERSION:
        raise store_error(directory, f"it has version {version}, this program reads {VERSION}")
    if not is_sealed:
        raise store_error(directory, f"{DESCRIPTION} has changed since it was written")
    try:
        return StoreDescription.model_validate_json(json.dumps(values))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"]))
        raise store_error(directory, f"{DESCRIPTION}: {f'`{key}`: ' if key else ''}{fault['msg']}") from None


def _seal(values: Mapping[str, Any]) -> str:
    """Returns the checksum that is used to detect changes to a description."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def earlier_description(directory: Path) -> StoreDescription | None:
    """Returns the description of the store in `directory`, or None if there is no complete store."""
    try:
        return read_description(directory)
    except ValueError:
        return None


def store_error(directory: Path, reason: str) -> ValueError:
    """Builds the error for a store that cannot be used."""
    return ValueError(f"the store in {directory} cannot be used: {reason}; delete the directory and prepare again")


def load_given_subwords(
    directory: Path, earlier: StoreDescription | None
) -> tuple[TokenVocabulary, TokenVocabulary] | None:
    """Loads the subwords of the earlier store if they came from another model. Returns None if they were learned.

    Raises ValueError if the subwords are damaged.
    """
    try:
        return load_subwords(directory, shared=earlier.shared) if earlier and earlier.given else None
    except (ValueError, OSError) as error:
        raise store_error(directory, str(error)) from None


def find_damage_of(directory: Path, files: StoredFiles) -> list[str]:
    """Returns one sentence for each of `files` that is missing or does not match its checksum."""
    return find_damage(directory, {name: file.as_dictionary() for name, file in files.items()})


def describe_files(paths: Sequence[Path]) -> StoredFiles:
    """Returns the size, checksum and modification time of each file by name."""
    checksums = checksums_of_files(paths)
    return {path.name: StoredFile(**checksums[path.name], changed=time_of_change(path)) for path in paths}


def fingerprint_of(
    data: DataSpec,
    subwords: SubwordsSpec,
    existing_subwords: tuple[TokenVocabulary, TokenVocabulary] | None,
    checksums: Sequence[FileChecksum],
    growth: Spec | None = None,
) -> str:
    """Returns the fingerprint of a store: a checksum of its version, its settings and the content of its files.

    The paths of the files do not matter. If the existing subwords have grown, as described by `growth`, the checksum
    covers the subwords before they grew. If validation and test sets determine which pairs are dropped, a dot and a
    checksum of these sets are appended.
    """
    sha256 = {checksum.path: checksum.sha256 for checksum in checksums}
    source_tags = data.source_tags if existing_subwords is None else tags_of(existing_subwords[0])
    names_language = bool(tagged_languages(source_tags))
    training = {
        "version": VERSION,
        "data": {
            "max_length": data.max_length,
            "ratio": data.ratio,
            "temperature": data.temperature,
            "checks": data.checks,
            "noise": data.noise.as_dictionary() if data.noise else None,
        },
        "subwords": _subwords_identity(subwords),
        "given": growth.as_dictionary() if growth else [side.as_json() for side in existing_subwords or ()],
        "corpora": [
            {
                **_identity(corpus, sha256),
                "tags": data.tags_before(corpus, names_language=names_language),
                # The languages of `data` matter if pairs are dropped because of their language.
                "direction": data.direction_of(corpus) if NEEDS_LANGUAGES & data.checks.keys() else None,
            }
            for corpus in data.train
        ],
    }
    held_out = [_identity(corpus, sha256, without=NOT_HELD_OUT) for corpus in _held_out_corpora(data)]
    parts = [training, held_out] if held_out else [training]
    return ".".join(hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for part in parts)


def _subwords_identity(subwords: SubwordsSpec) -> dict[str, Any]:
    """Returns everything that determines the subwords.

    This includes their settings and the checksums of the files that the settings name.
    """
    if subwords.kind != "sentencepiece":
        return subwords.as_dictionary()
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in subwords.model_files]
    nameless = subwords.replaced(model=None)
    return {**nameless.as_dictionary(), "files": files}


def _identity(corpus: CorpusSpec, sha256: Mapping[str, str], without: Collection[str] = ()) -> dict[str, Any]:
    """Returns everything that determines the pairs of a corpus.

    This includes its settings except paths, the checksums of its files and, for an embedded corpus, the version of its
    grammar.
    """
    is_path = {*PATHS, *(("hub",) if isinstance(corpus, Hub) and is_folder(corpus.hub) else ())}
    settings = {key: value for key, value in corpus.as_dictionary().items() if key not in is_path | {*without}}
    files = [sha256[str(path)] for path in files_of(corpus)]
    is_embedded = isinstance(corpus, Embedded | EmbeddedTrees)
    grammar = from_satellite("transduce.embedded:GRAMMAR_VERSION") if is_embedded else None
    return {**settings, "files": files, "grammar": grammar}


def have_same_training_data(first: str, second: str) -> bool:
    """Returns True if two fingerprints belong to the same training data. The validation and test sets may differ."""
    return first.partition(".")[0] == second.partition(".")[0]


def checksums_of_corpora(data: DataSpec, earlier: Sequence[FileChecksum]) -> list[FileChecksum]:
    """Returns the checksum of each corpus file.

    A checksum in `earlier` is reused if the path, size and modification time of the file are the same. The first pair
    of each corpus is read before any checksum is computed, so that a file that is not a corpus raises ValueError right
    away. Computing the checksums of large files first would take a long time.
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
    """Returns the validation and test sets that determine which training pairs are dropped.

    The list is empty unless the recipe has `checks: {overlap: drop}`. Sets whose files do not exist are left out.
    """
    corpora = [*data.validations, *data.test.values()] if data.checks.get(Check.OVERLAP) == "drop" else []
    return [corpus for corpus in corpora if all(path.exists() for path in files_of(corpus))]


def time_of_change(path: Path) -> int:
    """Returns the modification time of a file in nanoseconds."""
    return path.stat().st_mtime_ns


def _checksum(path: Path) -> str:
    with open_corpus_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
