"""The corpora that a command line names: a recipe, two text files, or one file in TSV or TMX."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec

CORPUS = "RECIPE | SOURCE TARGET | FILE.tsv | FILE.tmx"

FromLanguageOption = Annotated[
    str | None, typer.Option("--from", help="Language of the sources, such as en; that of a file name like text.en.")
]
ToLanguageOption = Annotated[str | None, typer.Option("--to", help="Language of the targets, such as de.")]


def is_recipe(files: Sequence[Path]) -> bool:
    """Whether the files are a recipe."""
    return len(files) == 1 and files[0].suffix in (".yaml", ".yml")


def corpus_of_files(files: list[Path], codes: tuple[str | None, str | None] = (None, None)) -> "CorpusSpec":
    """The corpus in a TSV or TMX file, or in two text files; raises ValueError for other files."""
    from transduce.corpus.corpus_kinds import Files, Tmx, Tsv
    from transduce.text.compressed import plain_name

    if len(files) == 2 and files[0].resolve() == files[1].resolve():
        raise ValueError(f"{files[0]} {files[1]}: source and target are the same file; name both sides")
    if len(files) == 2:
        return Files(source=str(files[0]), target=str(files[1]))
    name = plain_name(files[0])
    if len(files) == 1 and name.endswith(".tsv"):
        return Tsv(tsv=str(files[0]))
    if len(files) == 1 and name.endswith(".tmx"):
        if codes[0] is None or codes[1] is None:
            raise ValueError(f"{files[0]}: a translation memory has several languages; add `--from` and `--to`")
        return Tmx(tmx=str(files[0]), languages=(codes[0], codes[1]))
    shown = " ".join(map(str, files))
    if (files[0] / "recipe.yaml").exists():
        raise ValueError(f"{shown} is a run; did you mean its recipe, `{files[0] / 'recipe.yaml'}`?")
    if name.endswith(".csv"):
        raise ValueError(f"{shown}: CSV is not read; write source, tab, target into a file .tsv")
    raise ValueError(f"{shown}: give a recipe (.yaml), two text files, or one file .tsv or .tmx")


def languages_of(
    files: list[Path], from_language: str | None, to_language: str | None
) -> tuple[str | None, str | None]:
    """The given language codes or, for two text files, the codes at the ends of their names: `text.en`, `text.de`.

    Raises ValueError if a given code is not a language code.
    """
    from transduce.text.compressed import plain_name
    from transduce.text.language_codes import check_language, language_names

    for code in filter(None, (from_language, to_language)):
        check_language(code)
    endings = [plain_name(file).rpartition(".")[2] for file in files]
    if len(files) != 2 or endings[0] == endings[1] or not language_names().keys() >= set(endings):
        return from_language, to_language
    return from_language or endings[0], to_language or endings[1]
