"""Reads `catalogue.yaml`, which lists the parts of each corpus and the archives that contain them."""

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
    """A file that can be downloaded from any of its mirrors, with the size and the checksum by which it is verified."""

    mirrors: tuple[Mirror, ...] = Field(min_length=1)
    bytes: int | None = Field(default=None, ge=1)
    checksum: str | None = Field(default=None, pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")


class Location(Spec):
    """Where the text of one language is: in a member of an archive or, if `member` is None, in a gzip file."""

    archive: Name
    member: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        """Parses a string of the form `archive:member` or `archive`."""
        if not isinstance(value, str):
            return value
        archive, colon, member = value.partition(":")
        return {"archive": archive, "member": member} if colon else {"archive": archive}

    @property
    def file(self) -> str:
        """The path of the text in a folder in which the archive has been unpacked."""
        return self.member or GZIPPED.sub("", Path(self.archive).name)


Choice = dict[str, Location]
"""The locations of the texts of a section, by language."""


class Section(Spec):
    """One of the texts that are concatenated to form a part.

    `choices` are the alternative archives that contain it, in order of preference.
    """

    name: str
    choices: tuple[Choice, ...] = Field(min_length=1)


class Table(Spec):
    """A table on the Hugging Face hub that contains the text of a part, and the languages to read from it."""

    dataset: str
    config: str | None = None
    split: str
    languages: tuple[str, ...] | None = Field(
        default=None, description="Codes of the languages to read; null means all languages of the part."
    )


class Part(Spec):
    """Parallel files, one for each language, and the sections that are concatenated to create them."""

    name: str
    files: dict[str, File] = Field(min_length=2)
    pairs: int | None = Field(
        default=None,
        ge=1,
        description="Number of sentence pairs according to the publisher; null if it is not published.",
    )
    text_bytes: int = Field(default=0, ge=0, description="Approximate size of the text in bytes.")
    hub: Table | None = None
    sections: tuple[Section, ...] = Field(min_length=1)


class Corpus(Spec):
    """A corpus, which consists of one or more parts."""

    parts: tuple[Part, ...] = Field(min_length=1)


class Catalogue(Spec):
    """All archives and corpora, by their names."""

    archives: dict[Name, Archive]
    corpora: dict[Name, Corpus]

    @model_validator(mode="after")
    def _check(self) -> "Catalogue":
        """Checks that the catalogue is consistent.

        Raises ValueError if an archive cannot be verified by a checksum, if a choice names an archive that is not
        listed, or if its languages are not those of the files.
        """
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
        """Returns the corpus `name`; raises ValueError, with the most similar name, if it does not exist."""
        if name not in self.corpora:
            meant = did_you_mean(name, self.corpora) or ";"
            raise ValueError(f"there is no corpus `{name}`{meant} corpora: {', '.join(self.corpora)}")
        return self.corpora[name]


def read_catalogue(path: Path | None = None) -> Catalogue:
    """Reads a catalogue file, by default the one of this package; raises ValueError if it is invalid."""
    path = path or CATALOGUE
    return validated(Catalogue, YAML(typ="safe", pure=True).load(path.read_text("utf-8")), place=str(path))
