"""The catalogue: what a corpus consists of, and where it lies; `catalogue.yaml` beside this file, checked."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator
from ruamel.yaml import YAML

from transduce.settings import Spec, validated

__all__ = ["Archive", "Catalogue", "Choice", "Corpus", "Location", "Part", "Section", "Table", "read_catalogue"]

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
GZIPPED = re.compile(r"\.t?gz$")

Mirror = Annotated[str, Field(pattern=r"^https?://")]
Name = Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]
"""A relative path that leads nowhere else."""

File = Annotated[str, Field(pattern=r"^[\w-][\w.-]*$")]


class Archive(Spec):
    """A file that servers have: where, and how to know that it is whole."""

    mirrors: tuple[Mirror, ...] = Field(min_length=1)
    bytes: int | None = Field(default=None, ge=1)
    checksum: str | None = Field(default=None, pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")


class Location(Spec):
    """One side of a text: a member of an archive, or the whole of a gzip file where `member` is None."""

    archive: Name
    member: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        """`archive:member`, or `archive` alone."""
        if not isinstance(value, str):
            return value
        archive, colon, member = value.partition(":")
        return {"archive": archive, "member": member} if colon else {"archive": archive}

    @property
    def file(self) -> str:
        """The path that the text has once the archive is unpacked."""
        return self.member or GZIPPED.sub("", Path(self.archive).name)


Choice = dict[str, Location]
"""The sides of a section, by language."""


class Section(Spec):
    """One of the texts of which a part is put together, and the places that have it, best first."""

    name: str
    choices: tuple[Choice, ...] = Field(min_length=1)


class Table(Spec):
    """The same part as a table of the hub, and the languages that it is asked for in."""

    dataset: str
    config: str | None = None
    split: str
    languages: tuple[str, ...] | None = Field(default=None, description="null: those of the part")


class Part(Spec):
    """Files of equally many lines, one a language, and the sections that fill them one after the other."""

    name: str
    files: dict[str, File] = Field(min_length=2)
    pairs: int | None = Field(default=None, ge=1, description="how many there are, none to be lost; null: cleaned")
    text: int = Field(default=0, ge=0, description="bytes of text, about")
    hub: Table | None = None
    sections: tuple[Section, ...] = Field(min_length=1)


class Corpus(Spec):
    """What one name stands for."""

    parts: tuple[Part, ...] = Field(min_length=1)


class Catalogue(Spec):
    """All archives and corpora."""

    archives: dict[Name, Archive]
    corpora: dict[Name, Corpus]

    @model_validator(mode="after")
    def _whole(self) -> "Catalogue":
        """Every archive can be checked; every place is in a known archive; every choice has its part's languages."""
        for name, archive in self.archives.items():
            if archive.checksum is None and not GZIPPED.search(name):
                raise ValueError(f"{name} has no checksum, and is no gzip file that would have its own")
        for part in (part for corpus in self.corpora.values() for part in corpus.parts):
            for choice in (choice for section in part.sections for choice in section.choices):
                if choice.keys() != part.files.keys():
                    raise ValueError(
                        f"{part.name}: a choice has {', '.join(choice)}, the files {', '.join(part.files)}"
                    )
                if unknown := {place.archive for place in choice.values()} - self.archives.keys():
                    raise ValueError(f"{part.name}: there is no archive {', '.join(sorted(unknown))}")
        return self

    def corpus(self, name: str) -> Corpus:
        """The corpus of that name; a `ValueError` with the nearest one for any other name."""
        if name not in self.corpora:
            near = difflib.get_close_matches(name, self.corpora, n=1)
            hint = f"did you mean `{near[0]}`? " if near else ""
            raise ValueError(f"there is no corpus `{name}`; {hint}corpora: {', '.join(self.corpora)}")
        return self.corpora[name]


def read_catalogue(path: Path | None = None) -> Catalogue:
    """The catalogue in a file, that of the package if none is given; a `ValueError` says what is wrong with it."""
    path = path or CATALOGUE
    return validated(Catalogue, YAML(typ="safe", pure=True).load(path.read_text("utf-8")), place=str(path))
