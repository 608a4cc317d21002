"""Directions: the languages between which corpora translate, and the tags that tell a model about its source."""

import re
from typing import Literal, NamedTuple

from pydantic import Field

from transduce.settings import Spec
from transduce.text.source_tags import NAME

__all__ = ["Direction", "ParallelCorpus", "TaggedCorpus", "is_same_language"]


class Direction(NamedTuple):
    """A source language and a target language; None where a recipe does not name it."""

    source: str | None
    target: str | None

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    def is_same(self, other: "Direction") -> bool:
        """Returns whether both directions have the same languages, whatever the region; a missing code fits any."""
        return all(is_same_language(*codes) for codes in zip(self, other, strict=True))


def is_same_language(one: str | None, other: str | None) -> bool:
    """Returns whether two codes are of one language, whatever the region; a missing code is of any language."""
    codes = [re.split("[-_]", code)[0].lower() for code in (one, other) if code is not None]
    return len(set(codes)) < 2


class TaggedCorpus(Spec):
    """The tag of a corpus, which stands before each of its sources."""

    tag: str | None = Field(
        default=None,
        pattern=NAME,
        description="Kind of text, such as `synthetic`; a token for it stands before each source.",
    )


class ParallelCorpus(TaggedCorpus):
    """The languages of a corpus, and which side is translated into which."""

    source_language: str | None = Field(
        default=None, description="Code of the language of `source`, the first side; null: that of `data`."
    )
    target_language: str | None = Field(
        default=None, description="Code of the language of `target`, the second side; null: that of `data`."
    )
    direction: Literal["forward", "backward", "both"] = Field(
        default="forward",
        description="`forward` translates the first side into the second, `backward` the second into the first, "
        "`both` makes two corpora of one.",
    )

    def languages_or(self, languages: Direction) -> Direction:
        """Returns the languages that this corpus translates between; `languages` are those of sides without a name."""
        sides = self.source_language or languages.source, self.target_language or languages.target
        return Direction(*(sides[::-1] if self.direction == "backward" else sides))
