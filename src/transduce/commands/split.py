"""`transduce split`: takes validation and test sets out of a corpus without near-duplicates across."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.inspect import corpus_of_files
from transduce.commands.options import OverwriteOption
from transduce.commands.output_file import check_writable, open_output

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec
    from transduce.corpus.splitting import CorpusSplit

Write = Callable[[str], None]


def split(
    files: Annotated[list[Path], typer.Argument(metavar="SOURCE TARGET | FILE.tsv", help="The corpus to split.")],
    validation: Annotated[int, typer.Option(min=1, help="Pairs of the validation set.")],
    test: Annotated[int, typer.Option(min=0, help="Pairs of the test set.")],
    out: Annotated[Path, typer.Option(help="The directory to write into.")],
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Another seed takes other pairs.")] = 1,
    overwrite: OverwriteOption = False,
) -> None:
    """Writes train, validation and test as text files, source and target; prints their sizes and a recipe's `data`."""
    from transduce.corpus.corpus_kinds import Tmx
    from transduce.corpus.readers import read_pairs
    from transduce.corpus.splitting import near_duplicate_groups, split_groups

    if files[0].suffix in (".yaml", ".yml"):
        raise ValueError(f"{files[0]} is a recipe: name the files of its corpus, SOURCE TARGET or FILE.tsv")
    corpus = corpus_of_files(files)
    if isinstance(corpus, Tmx):
        raise ValueError(f"{files[0]}: split takes two text files or a file .tsv")
    parts = ["train", "validation", *(["test"] if test else [])]
    names = {part: (out / f"{part}.source", out / f"{part}.target") for part in parts}
    for path in (path for pair in names.values() for path in pair):
        check_writable(path, overwrite=overwrite)
    groups = near_duplicate_groups(read_pairs(corpus))
    result = split_groups(groups, validation, test, seed)
    _write(corpus, result, names)
    print(f"{len(groups):,} pairs in {result.groups:,} groups of near-duplicates")
    print("data:")
    for part, (source, target) in names.items():
        entry = f"{{source: {_quoted(source)}, target: {_quoted(target)}}}"
        entry = f"{{test: {entry}}}" if part == "test" else entry
        print(f"  {part}: {entry}  # {result.count(part):,} pairs")


def _write(corpus: "CorpusSpec", result: "CorpusSplit", names: dict[str, tuple[Path, Path]]) -> None:
    """Reads the corpus again and writes each pair to the files of its part."""
    from transduce.corpus.readers import read_pairs
    from transduce.corpus.splitting import PARTS

    with ExitStack() as stack:
        files: dict[str, list[list[str]]] = {part: [[], []] for part in names}
        writers: dict[str, list[Write]] = {
            part: [stack.enter_context(open_output(path)) for path in paths] for part, paths in names.items()
        }
        for part, pair in zip(result.parts, read_pairs(corpus), strict=True):
            for lines, write, text in zip(files[PARTS[part]], writers[PARTS[part]], pair, strict=True):
                lines.append(f"{text}\n")
                if len(lines) == 1000:
                    write("".join(lines))
                    lines.clear()
        for part, sides in files.items():
            for lines, write in zip(sides, writers[part], strict=True):
                write("".join(lines))


def _quoted(path: Path) -> str:
    """Returns an absolute path as a string of YAML."""
    return "'" + str(path.resolve()).replace("'", "''") + "'"
