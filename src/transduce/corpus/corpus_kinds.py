"""The corpora that a recipe can name: the kinds of entry, and the files of each."""

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
"""Most uses of a pair in an epoch."""

Weight = Annotated[
    float, Field(gt=0.0, le=MAX_WEIGHT, description="Uses of each pair an epoch; counts for `train` only.")
]


def _check_languages(value: Any) -> Any:
    """Converts a list from a recipe to the tuple that strict validation expects; raises ValueError for other values."""
    if value is None:
        return None
    codes = value if isinstance(value, list | tuple) else ()
    if len(codes) != 2 or not all(isinstance(code, str) and code for code in codes) or codes[0] == codes[1]:
        raise ValueError("write two codes, that of the source and that of the target, such as [en, de]")
    return tuple(codes)


Languages = Annotated[tuple[LanguageCode, LanguageCode], BeforeValidator(_check_languages)]
"""Codes of the source language and the target language, for example en and de."""

PATHS = ("source", "target", "tsv", "tmx", "trees")
"""The keys that name files; `trees` may name a folder."""


class TaggedCorpus(Spec):
    """The tag of a corpus, which is put before each source of the corpus."""

    tag: str | None = Field(
        default=None,
        pattern=NAME,
        description="Kind of text, such as `synthetic`; a token for it stands before each source.",
    )


class ParallelCorpus(TaggedCorpus):
    """The languages of a corpus, and which side is translated into which."""

    source_language: LanguageCode | None = Field(
        default=None, description="Code of the language of `source`, the first side; null: that of `data`."
    )
    target_language: LanguageCode | None = Field(
        default=None, description="Code of the language of `target`, the second side; null: that of `data`."
    )
    direction: Literal["forward", "backward", "both"] = Field(
        default="forward",
        description="`forward` translates the first side into the second, `backward` the second into the first, "
        "`both` makes two corpora of one.",
    )

    def languages_or(self, languages: Direction) -> Direction:
        """Returns the languages that this corpus translates between; `languages` fills in for sides without one."""
        sides = self.source_language or languages.source, self.target_language or languages.target
        return Direction(*(sides[::-1] if self.direction == "backward" else sides))


class Files(ParallelCorpus):
    """Two text files with the same number of lines, plain or compressed."""

    source: str = Field(description="Text file, one sentence a line.")
    target: str = Field(description="Its translation: line n translates line n of `source`.")
    weight: Weight = 1.0


class Tsv(ParallelCorpus):
    """One file, plain or compressed: source, tab, target; further columns are ignored."""

    tsv: str = Field(description="Text file with source, tab, target on each line; further columns are ignored.")
    weight: Weight = 1.0


class Tmx(ParallelCorpus):
    """A translation memory (TMX 1.4), plain or compressed."""

    tmx: str = Field(description="Translation memory (TMX 1.4).")
    languages: Languages | None = Field(
        default=None, description="Codes of source and target; null: the languages of `data`."
    )
    weight: Weight = 1.0


class Hub(ParallelCorpus):
    """A data set of Hugging Face's hub, or a folder, that the package `datasets` reads."""

    hub: str = Field(min_length=1, description="Name of a data set, or a folder that `datasets` can read.")
    config: str | None = Field(default=None, description="Configuration of the data set, such as `de-en`.")
    split: str = Field(default="train", description="Split of the data set.")
    revision: str | None = Field(
        default=None, description="Version of the data set; with null, changes on the hub are not noticed."
    )
    languages: Languages | None = Field(
        default=None, description="Codes of source and target; null: the languages of `data`."
    )
    weight: Weight = 1.0

    @field_validator("hub")
    @classmethod
    def _refuse_ambiguous_folder(cls, value: str) -> str:
        """Raises ValueError for a folder in the current directory, which `datasets` would mistake for the data set.

        The recipe's own folders are absolute paths at this point.
        """
        if not Path(value).is_absolute() and Path(value).is_dir():
            raise ValueError(
                "is also a folder of the current directory, which is not that of the recipe: write the absolute path "
                "of the folder; or, for the data set of the hub, run the command from another directory"
            )
        return value


class Embedded(ParallelCorpus):
    """A split of the corpus that comes with the package."""

    embedded: Literal["train", "validation", "test", "novel"] = Field(description="Split of the embedded corpus.")
    weight: Weight = 1.0


class Trees(TaggedCorpus):
    """Trees in brackets; their words are the source, and their symbols are the target."""

    trees: str = Field(
        description="File of trees in brackets, plain or compressed, or a folder, in which other files are left out."
    )
    shortest: int = Field(default=1, ge=1, description="Trees with fewer words are left out.")
    without: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = Field(default=(), description="Labels of whole trees that are left out, such as `[HEADING, TITLE]`.")
    linearisation: LinearisationSpec | None = Field(
        default=None, description="Symbols of the trees; null: `linearisation` of `data`."
    )
    weight: Weight = 1.0


class EmbeddedTrees(TaggedCorpus):
    """The English trees of a split of the corpus that comes with the package."""

    embedded_trees: Literal["train", "validation", "test", "novel"] = Field(
        description="Split of the embedded corpus, whose English trees are parsed."
    )
    linearisation: LinearisationSpec | None = Field(
        default=None, description="Symbols of the trees; null: `linearisation` of `data`."
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
"""The class of an entry, by a key that only this class has.

The class name is the tag that pydantic puts into the path of an error; a tag that is also a key would look like a part
of the path.
"""


def _kind(value: Any) -> str | None:
    """Name of the class of an entry; None if the entry has no key of any class."""
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
    """Returns the files from which `corpus` is read, the source's first."""
    if isinstance(corpus, Hub):
        return files_below(Path(corpus.hub)) if is_folder(corpus.hub) else []
    if isinstance(corpus, Trees) and Path(corpus.trees).is_dir():
        tree_files: Callable[[Path], list[Path]] = from_satellite("transduce.parsing.treebank_reader:tree_files")
        return tree_files(Path(corpus.trees))
    values = corpus.model_dump(include=set(PATHS))
    files = [Path(values[key]) for key in PATHS if key in values]
    return files[::-1] if isinstance(corpus, Files) and corpus.direction == "backward" else files


def files_below(folder: Path) -> list[Path]:
    """Returns the files in a folder and its subfolders; links are followed, and each subfolder is entered once."""
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
    """Whether a `hub` key names a folder, that is, is an absolute path; the folder may no longer exist."""
    return Path(hub).is_absolute()


def resolve_corpus(
    corpus: CorpusSpec, languages: Direction, linearisation: TopDown | InOrder | None
) -> list[CorpusSpec]:
    """Fills in the languages and the linearisation that a corpus takes from the section `data`.

    Splits `both` into two corpora.

    For example, with `source_language: en` and `target_language: de` in `data`:

        {tmx: m.tmx, direction: both}    →    {tmx: m.tmx, languages: [en, de], direction: forward},
                                              {tmx: m.tmx, languages: [en, de], direction: backward}
        {trees: wsj}                     →    {trees: wsj, linearisation: {kind: top_down}}

    Raises ValueError for a corpus in several languages if no languages are named, and for languages that contradict
    each other.
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
