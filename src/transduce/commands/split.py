"""`transduce split`: splits a corpus into training, validation and test sets that share no near-duplicates."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from transduce.commands.corpus_arguments import (
    CORPUS,
    FromLanguageOption,
    ToLanguageOption,
    corpus_of_files,
    is_recipe,
    languages_of,
)
from transduce.commands.options import OverwriteOption
from transduce.commands.output_file import check_writable, open_output, write_output

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec
    from transduce.text.directions import Direction

# The default size of the validation and test sets: 500 pairs, or a twentieth of a corpus with fewer than 10,000 pairs.
MOST_PAIRS, SHARE = 500, 20

Write = Callable[[str], None]


def split(
    files: Annotated[list[Path], typer.Argument(metavar=CORPUS, help="Corpus to split, or a recipe that names it.")],
    out: Annotated[Path, typer.Option(help="The directory to write the sets to.")],
    validation: Annotated[
        int | None, typer.Option(min=1, help="Number of validation pairs (default: 500, or a 20th of a small corpus).")
    ] = None,
    test: Annotated[
        int | None,
        typer.Option(min=0, help="Number of test pairs, or 0 for no test set (same default as --validation)."),
    ] = None,
    from_language: FromLanguageOption = None,
    to_language: ToLanguageOption = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed for the choice of pairs.")] = 1,
    overwrite: OverwriteOption = False,
) -> None:
    """Writes training, validation and test sets, and OUT/data.yaml, which describes them for `transduce suggest`."""
    data = split_corpus(files, out, (from_language, to_language), (validation, test), seed=seed, overwrite=overwrite)
    print(f"next: transduce suggest {data} --minutes 60 --out recipe.yaml")


class SplitNames(NamedTuple):
    """The file names of a split corpus, without their folder."""

    parts: Sequence[str]  # train, validation, and test if there is one
    endings: tuple[str, str]  # for source and target

    def sides(self, part: str) -> tuple[str, str]:
        """Returns the names of the source file and the target file of a part."""
        return f"{part}.{self.endings[0]}", f"{part}.{self.endings[1]}"


def split_corpus(
    files: list[Path],
    out: Path,
    codes: tuple[str | None, str | None],
    sizes: tuple[int | None, int | None] = (None, None),
    *,
    seed: int = 1,
    overwrite: bool = False,
) -> Path:
    """Splits a corpus, writes its parts to the folder `out`, and returns the path of the folder's `data.yaml`.

    `codes` are the source and target languages. `sizes` are the sizes, in pairs, of the validation and the test set;
    None chooses the default, and 0 leaves out the test set. Prints the number of pairs in each part. Raises ValueError
    if the corpus cannot be split.
    """
    from transduce.corpus.readers import read_pairs
    from transduce.corpus.splitting import near_duplicate_groups, split_groups

    corpora, languages = _corpora(files, codes)
    endings = (languages.source or "source", languages.target or "target")
    names = SplitNames(
        ["train", "validation", *([] if sizes[1] == 0 else ["test"])],
        endings if endings[0] != endings[1] else ("source", "target"),
    )
    for name in ("data.yaml", *chain.from_iterable(map(names.sides, names.parts))):
        check_writable(out / name, overwrite=overwrite, inputs=files)

    def pairs() -> Iterator[tuple[str, str]]:
        return chain.from_iterable(map(read_pairs, corpora))

    groups = near_duplicate_groups(pairs())
    validation, test = (max(1, min(MOST_PAIRS, len(groups) // SHARE)) if size is None else size for size in sizes)
    result = split_groups(groups, validation, test, seed)
    _write(pairs(), result.parts.tolist(), names, out)
    write_output(_data_yaml(names, languages), out / "data.yaml")
    counts = ", ".join(f"{result.count(part):,} for {part}" for part in names.parts)
    print(f"{out}: {len(groups):,} pairs in {result.groups:,} groups of near-duplicates: {counts}")
    return out / "data.yaml"


def _corpora(files: list[Path], codes: tuple[str | None, str | None]) -> tuple[Sequence["CorpusSpec"], "Direction"]:
    """Returns the corpora to split, and their languages.

    Raises ValueError for a recipe whose corpora are trees, have tags or weights, or differ in direction, and for a
    recipe that already has a validation or test set.
    """
    from transduce.text.directions import Direction

    languages = Direction(*languages_of(files, *codes))
    if not is_recipe(files):
        return [corpus_of_files(files, languages)], languages
    from transduce.recipe.recipe import load

    data = load(files[0], []).data
    if data.tree_linearisation is not None:
        raise ValueError(f"{files[0]}: its corpora are trees, and split reads translations")
    if data.validations or data.test:
        raise ValueError(f"{files[0]} has a validation or test set already; leave it out of the recipe to split anew")
    directions = {data.direction_of(corpus) for corpus in data.train}
    if len(directions) > 1 or any(corpus.tag or corpus.weight != 1 for corpus in data.train):
        raise ValueError(f"{files[0]}: its corpora have several directions, weights or tags; split them one by one")
    return data.train, Direction(*(code or own for code, own in zip(languages, directions.pop(), strict=True)))


def _data_yaml(names: SplitNames, languages: "Direction") -> str:
    """Returns the `data` section of a recipe as YAML; its paths are relative to the folder of the split files."""
    entries = {part: "{{source: {}, target: {}}}".format(*names.sides(part)) for part in names.parts}
    if "test" in entries:
        entries["test"] = f"{{test: {entries['test']}}}"
    sides = zip(("source_language", "target_language"), languages, strict=True)
    entries |= {key: f'"{code}"' for key, code in sides if code is not None}
    return "data:\n" + "".join(f"  {key}: {value}\n" for key, value in entries.items())


def _write(pairs: Iterator[tuple[str, str]], parts: list[int], names: SplitNames, folder: Path) -> None:
    from transduce.corpus.splitting import PARTS

    with ExitStack() as stack:
        files: dict[str, list[list[str]]] = {part: [[], []] for part in names.parts}
        writers: dict[str, list[Write]] = {
            part: [stack.enter_context(open_output(folder / name)) for name in names.sides(part)]
            for part in names.parts
        }
        for index, pair in zip(parts, pairs, strict=True):
            part = PARTS[index]
            for lines, write, text in zip(files[part], writers[part], pair, strict=True):
                lines.append(f"{text}\n")
                if len(lines) == 1000:
                    write("".join(lines))
                    lines.clear()
        for part, sides in files.items():
            for lines, write in zip(sides, writers[part], strict=True):
                write("".join(lines))
