"""Arguments that name a corpus on the command line: a recipe, two text files, or a TSV or TMX file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec

CORPUS = "RECIPE | SOURCE TARGET | FILE.tsv | FILE.tmx"

FromLanguageOption = Annotated[
    str | None, typer.Option("--from", help="Source language, such as en (default: from a file name such as text.en).")
]
ToLanguageOption = Annotated[
    str | None, typer.Option("--to", help="Target language, such as de (default: from the file name).")
]


def is_recipe(files: Sequence[Path]) -> bool:
    """Returns True if `files` is a single YAML file, which is taken to be a recipe."""
    return len(files) == 1 and files[0].suffix in (".yaml", ".yml")


def corpus_of_files(files: list[Path], codes: tuple[str | None, str | None] = (None, None)) -> "CorpusSpec":
    """Returns the corpus in a TSV file, a TMX file or two text files.

    Raises ValueError for any other files, and for a TMX file unless `codes` names both languages.
    """
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
    """Returns the codes of the source and the target language; None stands for an unknown language.

    A code that is not given is taken from the names of two text files, for example from `text.en` and `text.de`. Raises
    ValueError if a given code is not a language code.
    """
    from transduce.text.compressed import plain_name
    from transduce.text.language_codes import check_language, language_names

    for code in filter(None, (from_language, to_language)):
        check_language(code)
    endings = [plain_name(file).rpartition(".")[2] for file in files]
    if len(files) != 2 or endings[0] == endings[1] or not language_names().keys() >= set(endings):
        return from_language, to_language
    return from_language or endings[0], to_language or endings[1]
