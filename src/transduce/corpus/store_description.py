"""The description of a store, `store.json`: one strict record, and a seal that shows whether it has changed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from transduce.corpus.checks import Report
from transduce.corpus.fingerprint import VERSION, FileChecksum, time_of_change
from transduce.corpus.token_store import FILES, OFFSET, SIDES, CorpusPart, Count
from transduce.settings import Spec
from transduce.storage.checksums import checksums_of_files, find_damage
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.token_vocabulary import TokenVocabulary, load_subwords, subwords_files

DESCRIPTION = "store.json"


class StoredGrowth(Spec):
    """The growth of the vocabularies of another model: subwords added a side at most, and checksums from before."""

    subwords: int = Field(ge=1)
    before: tuple[str, ...]


class StoredFile(Spec):
    """Size, checksum and time of last change (in nanoseconds) of a file of the store."""

    bytes: int = Field(gt=0)
    sha256: str
    changed: int


StoredFiles = dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], StoredFile]


class StoreDescription(Spec):
    """The content of `store.json`.

    Raises ValueError where `files` lacks a file of the store, or the size of a file of offsets does not fit the pairs.
    """

    version: Literal[2] = VERSION
    dtype: Literal["<u2", "<u4"]
    parts: tuple[CorpusPart, ...]
    longest: Count  # tokens of the longest sentence of either side
    report: Report
    shared: bool  # whether both sides have the same subwords
    given: bool  # whether the subwords are those of another model
    growth: StoredGrowth | None  # of the subwords of another model
    dropout: float = Field(ge=0.0, lt=1.0)
    fingerprint: str
    made_of: tuple[FileChecksum, ...]
    files: StoredFiles

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return sum(part.pairs for part in self.parts)

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if missing := {*FILES, *subwords_files(shared=self.shared)} - self.files.keys():
            raise ValueError(f"{', '.join(sorted(missing))} is missing")
        if any(self.files[f"{side}.offsets"].bytes != OFFSET.itemsize * (self.pairs + 1) for side in SIDES):
            raise ValueError(f"it does not hold the {self.pairs:,} pairs that it counts")
        return self

    def as_sealed_json(self) -> str:
        """Returns the content of `store.json`."""
        values = self.as_dictionary()
        return json.dumps({**values, "seal": _seal(values)}, indent=2)


def read_description(directory: Path) -> StoreDescription:
    """Reads `store.json`; raises ValueError where it is missing, damaged, or of another version."""
    if not (directory / DESCRIPTION).is_file():
        raise ValueError(f"{directory} holds no complete store; make one with `transduce prepare`")
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
    """Returns a checksum of the description."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def earlier_description(directory: Path) -> StoreDescription | None:
    """Returns the description of a complete store in `directory`; None where there is none."""
    try:
        return read_description(directory)
    except ValueError:
        return None


def store_error(directory: Path, reason: str) -> ValueError:
    """Returns the error for a store that cannot be used."""
    return ValueError(f"the store in {directory} cannot be used: {reason}; delete the directory and prepare again")


def load_given_subwords(
    directory: Path, earlier: StoreDescription | None
) -> tuple[TokenVocabulary, TokenVocabulary] | None:
    """Returns the subwords of the earlier store where they were those of another model; None where they were learned.

    Raises ValueError where they are damaged.
    """
    try:
        return load_subwords(directory, shared=earlier.shared) if earlier and earlier.given else None
    except (ValueError, OSError) as error:
        raise store_error(directory, str(error)) from None


def find_damage_of(directory: Path, files: StoredFiles) -> list[str]:
    """Compares `files` with their checksums."""
    return find_damage(directory, {name: file.as_dictionary() for name, file in files.items()})


def describe_files(paths: Sequence[Path]) -> StoredFiles:
    """Reads files and returns the size, checksum and time of last change of each."""
    checksums = checksums_of_files(paths)
    return {path.name: StoredFile(**checksums[path.name], changed=time_of_change(path)) for path in paths}
