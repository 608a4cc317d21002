"""The catalogue: the parts of each corpus and the archives that contain them, read from `catalogue.yaml`."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator
from ruamel.yaml import YAML

from transduce.settings import Spec, did_you_mean, validated

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
GZIPPED = re.compile(r"\.t?gz$")

Mirror = Annotated[str, Field(pattern=r"^https?://")]
Name = Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]
"""A relative path without `..`."""

File = Annotated[str, Field(pattern=r"^[\w-][\w.-]*$")]


class Archive(Spec):
    """A file that can be downloaded: its mirrors, and the size and checksum that verify it."""

    mirrors: tuple[Mirror, ...] = Field(min_length=1)
    bytes: int | None = Field(default=None, ge=1)
    checksum: str | None = Field(default=None, pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")


class Location(Spec):
    """The text of one language: a member of an archive, or a whole gzip file if `member` is None."""

    archive: Name
    member: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        """Parses `archive:member`, or `archive` alone."""
        if not isinstance(value, str):
            return value
        archive, colon, member = value.partition(":")
        return {"archive": archive, "member": member} if colon else {"archive": archive}

    @property
    def file(self) -> str:
        """The path of the text after `tar` has unpacked the archive."""
        return self.member or GZIPPED.sub("", Path(self.archive).name)


Choice = dict[str, Location]
"""The texts of a section, by language."""


class Section(Spec):
    """One of the texts that make up a part, and the alternative archives that contain it, best first."""

    name: str
    choices: tuple[Choice, ...] = Field(min_length=1)


class Table(Spec):
    """A table on the Hugging Face hub that contains the same part, and the languages to read from it."""

    dataset: str
    config: str | None = None
    split: str
    languages: tuple[str, ...] | None = Field(default=None, description="null: all of the part")


class Part(Spec):
    """Parallel files, one per language, and the sections that are concatenated to make them."""

    name: str
    files: dict[str, File] = Field(min_length=2)
    pairs: int | None = Field(default=None, ge=1, description="published number of pairs; null: not published")
    text_bytes: int = Field(default=0, ge=0, description="approximate bytes of text")
    hub: Table | None = None
    sections: tuple[Section, ...] = Field(min_length=1)


class Corpus(Spec):
    """A corpus, in parts."""

    parts: tuple[Part, ...] = Field(min_length=1)


class Catalogue(Spec):
    """All archives and corpora."""

    archives: dict[Name, Archive]
    corpora: dict[Name, Corpus]

    @model_validator(mode="after")
    def _check(self) -> "Catalogue":
        """Raises ValueError if an archive has no checksum or is not listed, or if a choice has the wrong languages."""
        for name, archive in self.archives.items():
            if archive.checksum is None and not GZIPPED.search(name):
                raise ValueError(f"{name} has no checksum, and is not a gzip file, which contains one")
        for part in (part for corpus in self.corpora.values() for part in corpus.parts):
            for choice in (choice for section in part.sections for choice in section.choices):
                if choice.keys() != part.files.keys():
                    languages, expected = ", ".join(choice), ", ".join(part.files)
                    raise ValueError(f"{part.name}: a choice has the languages {languages}, the files {expected}")
                if unknown := {location.archive for location in choice.values()} - self.archives.keys():
                    raise ValueError(f"{part.name}: there is no archive {', '.join(sorted(unknown))}")
        return self

    def find(self, name: str) -> Corpus:
        """Finds a corpus by its name; raises ValueError with the nearest name if there is none."""
        if name not in self.corpora:
            meant = did_you_mean(name, self.corpora) or ";"
            raise ValueError(f"there is no corpus `{name}`{meant} corpora: {', '.join(self.corpora)}")
        return self.corpora[name]


def read_catalogue(path: Path | None = None) -> Catalogue:
    """Reads the catalogue of a file, by default the package's; raises ValueError if it is invalid."""
    path = path or CATALOGUE
    return validated(Catalogue, YAML(typ="safe", pure=True).load(path.read_text("utf-8")), place=str(path))
