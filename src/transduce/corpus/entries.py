"""How a recipe names a corpus: the forms of an entry, and the files that each is read from."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from transduce.settings import Spec

__all__ = [
    "PATHS",
    "CorpusSpec",
    "Embedded",
    "Files",
    "Hub",
    "Languages",
    "Tmx",
    "Tsv",
    "files_of",
    "is_folder",
    "spoken",
]

Weight = Annotated[float, Field(gt=0.0, le=10_000, description="Uses of each pair an epoch; counts for `train` only.")]


def _as_two(value: Any) -> Any:
    """A recipe has a list, and strict validation takes a tuple."""
    if value is None:
        return None
    two = value if isinstance(value, list | tuple) else ()
    if len(two) != 2 or not all(isinstance(code, str) and code for code in two) or two[0] == two[1]:
        raise ValueError("write two codes, that of the source and that of the target, such as [en, de]")
    return tuple(two)


Languages = Annotated[tuple[str, str], BeforeValidator(_as_two)]
"""Codes of the source's language and the target's, such as en and de."""

PATHS = ("source", "target", "tsv", "tmx")
"""The keys that name files."""


class Files(Spec):
    """Two files of equally many lines, plain or gzipped."""

    source: str = Field(description="Text file, one sentence a line.")
    target: str = Field(description="Its translation: line n translates line n of `source`.")
    weight: Weight = 1.0


class Tsv(Spec):
    """One file, plain or gzipped: source, tab, target; further columns are ignored."""

    tsv: str = Field(description="Text file with source, tab, target on each line; further columns are ignored.")
    weight: Weight = 1.0


class Tmx(Spec):
    """A translation memory (TMX 1.4), plain or gzipped."""

    tmx: str = Field(description="Translation memory (TMX 1.4).")
    languages: Languages | None = Field(
        default=None, description="Codes of source and target; null: the languages of `data`."
    )
    weight: Weight = 1.0


class Hub(Spec):
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
    def _is_not_where_one_stands(cls, value: str) -> str:
        """Folders are looked for beside the recipe, and `datasets` looks in the working directory too."""
        if not Path(value).is_absolute() and Path(value).is_dir():
            raise ValueError(
                "is a folder of the directory where you stand, and the recipe stands elsewhere: write the folder's "
                "whole path; or, for the hub's table, give the command elsewhere"
            )
        return value


class Embedded(Spec):
    """A split of the corpus that comes with the package."""

    embedded: Literal["train", "validation", "test", "novel"] = Field(description="Split of the embedded corpus.")
    weight: Weight = 1.0


FORMS = {"tsv": "table", "tmx": "memory", "hub": "hub", "embedded": "embedded", "source": "files", "target": "files"}
"""What an entry is, by the keys that no other has."""


def _form(value: Any) -> str | None:
    """Which form an entry of a recipe has."""
    keys = value.keys() if isinstance(value, dict) else type(value).model_fields if isinstance(value, Spec) else ()
    return next((form for key, form in FORMS.items() if key in keys), None)


CorpusSpec = Annotated[
    Annotated[Files, Tag("files")]
    | Annotated[Tsv, Tag("table")]
    | Annotated[Tmx, Tag("memory")]
    | Annotated[Hub, Tag("hub")]
    | Annotated[Embedded, Tag("embedded")],
    Discriminator(
        _form,
        custom_error_type="form_of_corpus",
        custom_error_message="a corpus is {source: FILE, target: FILE}, {tsv: FILE}, {tmx: FILE}, {hub: NAME} or "
        "{embedded: SPLIT}",
    ),
]


def files_of(corpus: CorpusSpec) -> list[Path]:
    """The files that `corpus` is read from."""
    if isinstance(corpus, Hub):
        return sorted(path for path in Path(corpus.hub).rglob("*") if path.is_file()) if is_folder(corpus.hub) else []
    values = corpus.model_dump(include=set(PATHS))
    return [Path(values[key]) for key in PATHS if key in values]


def is_folder(hub: str) -> bool:
    """Whether a table is a folder's, whose place a recipe has in full; one that was moved away was one too."""
    return Path(hub).is_absolute()


def spoken(corpus: CorpusSpec, source: str | None, target: str | None) -> CorpusSpec:
    """`corpus`, told which of the languages that it holds are meant; a `ValueError` where nobody says."""
    if not isinstance(corpus, Tmx | Hub) or corpus.languages is not None:
        return corpus
    if source is None or target is None:
        raise ValueError(
            "a corpus {tmx: …} or {hub: …} holds several languages: say `source_language` and `target_language` "
            "in the section `data`, or `languages: [en, de]` beside it"
        )
    return corpus.model_copy(update={"languages": (source, target)})
