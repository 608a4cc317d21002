"""The kinds of corpus that a recipe can name, and the files that each corpus is read from."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from transduce.settings import Spec, from_satellite
from transduce.text.directions import Direction, is_same_language
from transduce.text.language_codes import LanguageCode
from transduce.text.source_tags import NAME
from transduce.text.tree_linearisation import InOrder, LinearisationSpec, TopDown

MAX_WEIGHT = 10_000.0
"""The maximum number of times that an epoch may use a pair."""

Weight = Annotated[
    float,
    Field(gt=0.0, le=MAX_WEIGHT, description="Number of times that an epoch uses each training pair."),
]


def _check_languages(value: Any) -> Any:
    """Converts a list of two language codes to a tuple, because strict validation accepts only tuples.

    Returns None for None. Raises ValueError if the value does not consist of two different codes.
    """
    if value is None:
        return None
    codes = value if isinstance(value, list | tuple) else ()
    if len(codes) != 2 or not all(isinstance(code, str) and code for code in codes) or codes[0] == codes[1]:
        raise ValueError("write two codes, that of the source and that of the target, such as [en, de]")
    return tuple(codes)


Languages = Annotated[tuple[LanguageCode, LanguageCode], BeforeValidator(_check_languages)]
"""The codes of the source language and the target language, for example `en` and `de`."""

PATHS = ("source", "target", "tsv", "tmx", "trees")
"""The keys whose values are file paths. The value of `trees` may also be the path of a folder."""


class TaggedCorpus(Spec):
    """A corpus with an optional tag."""

    tag: str | None = Field(
        default=None,
        pattern=NAME,
        description="Kind of text, such as `synthetic`; a token that stands for it is prepended to each source.",
    )


class ParallelCorpus(TaggedCorpus):
    """A parallel corpus, with the languages of its two sides and the direction of translation."""

    source_language: LanguageCode | None = Field(
        default=None, description="Language code of the first side; null means `data.source_language`."
    )
    target_language: LanguageCode | None = Field(
        default=None, description="Language code of the second side; null means `data.target_language`."
    )
    direction: Literal["forward", "backward", "both"] = Field(
        default="forward",
        description="`forward` translates the first side into the second, `backward` does the reverse, and `both` "
        "uses the corpus once in each direction.",
    )

    def languages_or(self, languages: Direction) -> Direction:
        """Returns the direction in which this corpus is translated.

        A side that names no language takes it from `languages`.
        """
        sides = self.source_language or languages.source, self.target_language or languages.target
        return Direction(*(sides[::-1] if self.direction == "backward" else sides))


class Files(ParallelCorpus):
    """Two text files that are aligned line by line."""

    source: str = Field(description="Text file with one sentence per line.")
    target: str = Field(description="Text file in which line n is the translation of line n of `source`.")
    weight: Weight = 1.0


class Tsv(ParallelCorpus):
    """A tab-separated text file with the source and the target in its first two columns."""

    tsv: str = Field(description="Text file; columns after the second are ignored.")
    weight: Weight = 1.0


class Tmx(ParallelCorpus):
    """A translation memory in TMX 1.4 format, plain or compressed."""

    tmx: str = Field(description="Path of the translation memory.")
    languages: Languages | None = Field(
        default=None,
        description="Codes of the two languages in the file; null means `source_language` and `target_language`.",
    )
    weight: Weight = 1.0


class Hub(ParallelCorpus):
    """A data set from the Hugging Face Hub, or a local folder, that is read with the package `datasets`."""

    hub: str = Field(min_length=1, description="Name of a data set on the Hub, or path of a folder.")
    config: str | None = Field(default=None, description="Name of the configuration (subset), such as `de-en`.")
    split: str = Field(default="train", description="Name of the split.")
    revision: str | None = Field(
        default=None,
        description="Branch, tag or commit of the data set. null reads the latest version; later changes are not "
        "noticed.",
    )
    languages: Languages | None = Field(
        default=None,
        description="Codes of the two languages in the data set; null means `source_language` and `target_language`.",
    )
    weight: Weight = 1.0

    @field_validator("hub")
    @classmethod
    def _refuse_ambiguous_folder(cls, value: str) -> str:
        """Raises ValueError if the data set has the name of a folder in the current directory.

        In that case, `datasets` would read the folder instead of downloading the data set. A folder that the recipe
        names is not affected, because its path is already absolute when this validator runs.
        """
        if not Path(value).is_absolute() and Path(value).is_dir():
            raise ValueError(
                "is also a folder of the current directory, which is not that of the recipe: write the absolute path "
                "of the folder; or, for the data set of the hub, run the command from another directory"
            )
        return value


class Embedded(ParallelCorpus):
    """A split of the parallel corpus that is included in the package."""

    embedded: Literal["train", "validation", "test", "novel"] = Field(
        description="Name of the split; `novel` contains word pairs that no other split contains."
    )
    weight: Weight = 1.0


class Trees(TaggedCorpus):
    """A treebank in bracket notation. The words of each tree are the source, and its symbols are the target."""

    trees: str = Field(
        description="File of trees in bracket notation, or a folder, in which files without trees are skipped."
    )
    shortest: int = Field(default=1, ge=1, description="Minimum number of words in a tree; shorter trees are skipped.")
    without: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = Field(default=(), description="Root labels of trees to skip, such as `[HEADING, TITLE]`.")
    linearisation: LinearisationSpec | None = Field(
        default=None, description="How trees are written as symbols; null means `data.linearisation`."
    )
    weight: Weight = 1.0


class EmbeddedTrees(TaggedCorpus):
    """The English parse trees of one split of the corpus that is included in the package."""

    embedded_trees: Literal["train", "validation", "test", "novel"] = Field(description="Name of the split.")
    linearisation: LinearisationSpec | None = Field(
        default=None, description="How trees are written as symbols; null means `data.linearisation`."
    )
    weight: Weight = 1.0


KINDS = {
    "tsv": "Tsv",
    "tmx": "Tmx",
    "hub": "Hub",
    "embedded": "Embedded",
    "trees": "Trees",
    "embedded_trees": "EmbeddedTrees",
    "source": "Files",
    "target": "Files",
}
"""Maps each key that identifies a class of corpus to the name of that class.

The class name is the tag that pydantic inserts into the path of a validation error. The keys themselves are not used as
tags, because a tag with the name of a key would look like a part of the path.
"""


def _kind(value: Any) -> str | None:
    """Returns the name of the class for a corpus entry, or None if the entry has no key that identifies a class."""
    keys = value.keys() if isinstance(value, dict) else type(value).model_fields if isinstance(value, Spec) else ()
    return next((kind for key, kind in KINDS.items() if key in keys), None)


CorpusSpec = Annotated[
    Annotated[Files, Tag("Files")]
    | Annotated[Tsv, Tag("Tsv")]
    | Annotated[Tmx, Tag("Tmx")]
    | Annotated[Hub, Tag("Hub")]
    | Annotated[Embedded, Tag("Embedded")]
    | Annotated[Trees, Tag("Trees")]
    | Annotated[EmbeddedTrees, Tag("EmbeddedTrees")],
    Discriminator(
        _kind,
        custom_error_type="kind_of_corpus",
        custom_error_message="a corpus is {source: FILE, target: FILE}, {tsv: FILE}, {tmx: FILE}, {hub: NAME}, "
        "{embedded: SPLIT}, {trees: FILE} or {embedded_trees: SPLIT}",
    ),
]


def files_of(corpus: CorpusSpec) -> list[Path]:
    """Returns the files that `corpus` is read from.

    If it consists of two files, the file with the sources comes first, even if `direction` is `backward`. The list is
    empty for embedded corpora and for data sets on the Hub.
    """
    if isinstance(corpus, Hub):
        return files_below(Path(corpus.hub)) if is_folder(corpus.hub) else []
    if isinstance(corpus, Trees) and Path(corpus.trees).is_dir():
        tree_files: Callable[[Path], list[Path]] = from_satellite("transduce.parsing.treebank_reader:tree_files")
        return tree_files(Path(corpus.trees))
    values = corpus.model_dump(include=set(PATHS))
    files = [Path(values[key]) for key in PATHS if key in values]
    return files[::-1] if isinstance(corpus, Files) and corpus.direction == "backward" else files


def files_below(folder: Path) -> list[Path]:
    """Returns all files in a folder and its subfolders, sorted by path.

    Symbolic links are followed, but each folder is entered only once, so that a link to a parent folder does not lead
    to an endless loop.
    """
    files, entered = list[Path](), set[str]()
    for current, subfolders, names in os.walk(folder, followlinks=True):
        if (place := os.path.realpath(current)) in entered:
            subfolders.clear()
            continue
        entered.add(place)
        subfolders.sort()
        files += (Path(current, name) for name in names)
    return sorted(path for path in files if path.is_file())


def is_folder(hub: str) -> bool:
    """Returns True if the value of the key `hub` names a folder, that is, if it is an absolute path.

    The folder itself may no longer exist.
    """
    return Path(hub).is_absolute()


def resolve_corpus(
    corpus: CorpusSpec, languages: Direction, linearisation: TopDown | InOrder | None
) -> list[CorpusSpec]:
    """Fills in the languages or the linearisation that a corpus takes from the section `data`.

    A corpus with `direction: both` is split into two. For example, with `source_language: en` and `target_language: de`
    in `data`:

        {tmx: m.tmx, direction: both}    →    {tmx: m.tmx, languages: [en, de], direction: forward},
                                              {tmx: m.tmx, languages: [en, de], direction: backward}
        {trees: wsj}                     →    {trees: wsj, linearisation: {kind: top_down}}

    Raises ValueError if the languages of a TMX file or a Hugging Face data set are not specified, or if `languages`
    names them in the opposite order to `source_language` and `target_language`.
    """
    if isinstance(corpus, Trees | EmbeddedTrees):
        return [corpus.replaced(linearisation=corpus.linearisation or linearisation or TopDown())]
    if isinstance(corpus, Tmx | Hub):
        source, target = corpus.source_language or languages.source, corpus.target_language or languages.target
        if corpus.languages is not None:
            codes = corpus.languages
            is_exchanged = is_same_language(codes[0], target) and is_same_language(codes[1], source)
            if source is not None and target is not None and is_exchanged and not is_same_language(source, target):
                raise ValueError(
                    f"by `languages` the corpus translates {codes[0]}-{codes[1]}, and by `source_language` and "
                    f"`target_language` {source}-{target}: exchange one of them, or give the corpus both keys of its "
                    "own"
                )
        elif source is None or target is None:
            raise ValueError(
                "a corpus {tmx: …} or {hub: …} holds several languages: set `source_language` and `target_language` "
                "in the section `data`, or `languages: [en, de]` of the corpus"
            )
        else:
            corpus = corpus.replaced(languages=(source, target))
    if corpus.direction != "both":
        return [corpus]
    return [corpus.replaced(direction=direction) for direction in ("forward", "backward")]
