"""`transduce inspect`: finds the faults of parallel corpora, and prints or draws them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import say
from transduce.commands.corpus_arguments import (
    CORPUS,
    FromLanguageOption,
    ToLanguageOption,
    corpus_of_files,
    is_recipe,
    languages_of,
)
from transduce.commands.options import JsonOption, OverwriteOption
from transduce.commands.output_file import check_writable, write_output
from transduce.runtime.extras import install_command
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.corpus.corpus_inspection import CorpusInspection
    from transduce.corpus.corpus_kinds import CorpusSpec

EXAMPLES, SHOWN_CHARACTERS = 3, 160  # most pairs that are shown for each fault, and most characters of each text
NO_LANGUAGES = f"off: languages are not identified: {install_command('languages')}"


def inspect(
    files: Annotated[list[Path], typer.Argument(metavar=CORPUS, help="Corpus to inspect, or a recipe that names it.")],
    html: Annotated[Path | None, typer.Option(help="Also write the report as a self-contained HTML page.")] = None,
    from_language: FromLanguageOption = None,
    to_language: ToLanguageOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prints, for each training corpus, how many pairs have each fault, their line numbers and examples."""
    from transduce.corpus.corpus_inspection import inspect_corpus, read_held_out
    from transduce.inspection.languages import PairLanguages, load_language_identifier
    from transduce.inspection.line_checks import Check

    check_writable(html, overwrite=overwrite, option="--html")
    corpora, sets = _corpora(files, languages_of(files, from_language, to_language))
    identify = load_language_identifier()
    results = []
    for corpus, codes in corpora:
        languages = PairLanguages(identify, codes) if identify else None
        results.append(inspect_corpus(corpus, list(Check), languages, read_held_out(sets), EXAMPLES))
    notes = [] if identify else [NO_LANGUAGES]
    if html is not None:
        from transduce.pages import render_inspection_page

        write_output(render_inspection_page(results, notes), html)
        say(str(html))
    if as_json:
        print(json_text([_as_object(result) for result in results], indent=2))
        return
    for result in results:
        print("\n".join([*_report(result), *_shown_examples(result)]), end="\n\n")
    for note in notes:
        print(note)


def print_faults(files: list[Path], codes: tuple[str | None, str | None]) -> None:
    """Prints how many pairs of a corpus have each fault, and the command that shows examples."""
    from transduce.corpus.corpus_inspection import inspect_corpus
    from transduce.inspection.languages import PairLanguages, load_language_identifier
    from transduce.inspection.line_checks import Check

    corpus_languages = languages_of(files, *codes)
    identify = load_language_identifier()
    languages = PairLanguages(identify, corpus_languages) if identify else None
    result = inspect_corpus(corpus_of_files(files, corpus_languages), list(Check), languages, examples=0)
    print("\n".join(_report(result)))
    if any(map(len, result.inspection.faults.values())):
        given = [
            part for option, code in zip(("--from", "--to"), codes, strict=True) if code for part in (option, code)
        ]
        print(f"  examples: transduce inspect {shlex.join([*map(str, files), *given])}")


def _corpora(
    files: list[Path], codes: tuple[str | None, str | None]
) -> tuple[list[tuple["CorpusSpec", tuple[str | None, str | None]]], list[tuple[str, "CorpusSpec"]]]:
    """Returns the corpora to inspect, each with its languages, and the validation and test sets, each with a name.

    There are validation and test sets only if `files` is a recipe. Raises ValueError if the corpora are trees.
    """
    if not is_recipe(files):
        return [(corpus_of_files(files, codes), codes)], []
    from transduce.recipe.recipe import load

    data = load(files[0], []).data
    if data.tree_linearisation is not None:
        raise ValueError(f"{files[0]}: its corpora are trees, and inspect reads translations")
    corpora = []
    for corpus in data.train:
        direction = data.direction_of(corpus)
        corpora.append((corpus, (codes[0] or direction.source, codes[1] or direction.target)))
    validations = [("the validation set", corpus) for corpus in data.validations]
    return corpora, [*validations, *((f"the test set {name}", corpus) for name, corpus in data.test.items())]


def _report(result: "CorpusInspection") -> list[str]:
    """Returns the lines of the report on a corpus: the verdicts on the whole corpus, and a table of faults."""
    from transduce.inspection.inspector import first_numbers

    lines = [f"{result.name}: {result.inspection.pairs:,} pairs", *result.verdicts()]
    faults = {check: numbers for check, numbers in result.inspection.faults.items() if len(numbers)}
    width = max(map(len, faults), default=5)
    for check, numbers in faults.items():
        share = f"{result.inspection.share(check):>7.2%}"
        lines.append(f"  {check:{width}}  {len(numbers):>9,}  {share}  lines {first_numbers(numbers)}")
    clean = [check for check, numbers in result.inspection.faults.items() if not len(numbers)]
    if clean:
        lines.append(f"  no pair: {', '.join(clean)}")
    return lines


def _shown_examples(result: "CorpusInspection") -> list[str]:
    """Returns lines that show the first pairs with each fault."""
    lines = []
    for check, pairs in result.examples.items():
        lines.append(f"{check}: pairs {check.phrase}")
        for number, source, target, repeats in pairs:
            origin = f" (repeats line {repeats})" if repeats else ""
            lines += [f"  line {number}{origin}", f"    {_shortened(source)}", f"    {_shortened(target)}"]
    return lines


def _shortened(text: str) -> str:
    """Truncates a line to `SHOWN_CHARACTERS` characters, and escapes those that are not printable."""
    shown = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text[:SHOWN_CHARACTERS])
    return shown + ("…" if len(text) > SHOWN_CHARACTERS else "")


def _as_object(result: "CorpusInspection") -> dict[str, Any]:
    """Returns the faults of a corpus as JSON values; `lines` lists the first 1,000 line numbers with each fault."""
    inspection = result.inspection
    return {
        "corpus": result.name,
        "pairs": inspection.pairs,
        "verdicts": result.verdicts(),
        "out_of_step": result.misalignment and result.misalignment._asdict(),
        "scripts": dict(zip(("source", "target"), inspection.scripts, strict=True)),
        "languages": dict(zip(("source", "target"), inspection.languages, strict=True)),
        "held_out": [
            {"name": text.name, "lines": text.lines, "contained": text.contained} for text in inspection.held_out
        ],
        "checks": {
            check: {
                "pairs": len(numbers),
                "share": inspection.share(check),
                "lines": numbers[:1000].tolist(),
                "examples": [example._asdict() for example in result.examples.get(check, [])],
            }
            for check, numbers in inspection.faults.items()
        },
    }
