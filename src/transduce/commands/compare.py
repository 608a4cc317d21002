"""`transduce compare`: shows where two systems' outputs of one test set differ."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.options import JsonOption, OverwriteOption
from transduce.commands.output import check_writable
from transduce.commands.paired_texts import check_paired
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure import OutputComparison

__all__ = ["compare"]


def compare(
    system_a: Annotated[str, typer.Argument(metavar="SYSTEM_A", help="Output of the baseline; - is standard input.")],
    system_b: Annotated[str, typer.Argument(metavar="SYSTEM_B", help="Output of the other system.")],
    *,
    reference: Annotated[str, typer.Option(metavar="FILE", help="The reference of each line.")],
    source: Annotated[str | None, typer.Option(metavar="FILE", help="The source, shown beside sentences.")] = None,
    train: Annotated[
        str | None, typer.Option(metavar="FILE", help="Training text in which words are counted; else the reference.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the outputs, such as de; zh, ja and ko have tokenisers.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Most n-grams and sentences of each direction.")] = 10,
    bootstrap: Annotated[int, typer.Option(min=2, help="Resamples of the paired test.")] = 1000,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one self-contained page too.")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compares two systems: scores with a paired test, by length, by word frequency, n-grams and sentences."""
    from transduce.measure import compare_systems
    from transduce.text.lines import read_texts

    check_writable(html, overwrite=overwrite, option="--html")
    paths = [path for path in (system_a, system_b, reference, source, train) if path is not None]
    texts = dict(zip(paths, read_texts(*paths), strict=True))
    systems, expected = (texts[system_a], texts[system_b]), texts[reference]
    sources = None if source is None else texts[source]
    paired = [path for path in (reference, system_a, system_b, source) if path is not None]
    check_paired(paired, [texts[path] for path in paired])
    words = None if train is None else texts[train]
    comparison = compare_systems(systems, expected, train=words, language=language, bootstrap=bootstrap, top=top)
    names, sentences = (system_a, system_b), _sentence_texts(systems, expected, sources)
    if html is not None:
        from transduce.pictures import draw_comparison

        draw_comparison(comparison, names, sentences, html)
    _print(comparison, names, sentences, as_json=as_json)


def _sentence_texts(
    systems: tuple[list[str], list[str]], reference: list[str], source: list[str] | None
) -> list[list[tuple[str, str]]]:
    """Returns for each sentence its source, its reference and both outputs, each text after its name."""
    named = {"source": source, "reference": reference, "A": systems[0], "B": systems[1]}
    columns = [[(name, text) for text in texts] for name, texts in named.items() if texts is not None]
    return [list(row) for row in zip(*columns, strict=True)]


def _print(
    comparison: "OutputComparison", names: tuple[str, str], sentences: list[list[tuple[str, str]]], *, as_json: bool
) -> None:
    """Prints the tables, or a JSON object with the texts of each sentence that is listed."""
    if not as_json:
        from transduce.commands.comparison_table import comparison_text

        print(comparison_text(comparison, names, sentences))
        return
    print(json_text(_as_object(comparison, names, sentences), indent=2))


def _as_object(
    comparison: "OutputComparison", names: tuple[str, str], sentences: list[list[tuple[str, str]]]
) -> dict[str, Any]:
    """Returns the comparison as JSON; the keys of each part are its fields."""
    scores = {
        name: {"a": baseline._asdict(), "b": difference.score._asdict(), "delta": difference.delta, "p": difference.p}
        for name, (baseline, (difference,)) in comparison.scores.items()
    }
    return {
        "systems": names,
        "scores": scores,
        "words": comparison.words,
        "reference_words": comparison.reference_words,
        "length_ratios": comparison.length_ratios,
        "by_length": [bucket._asdict() for bucket in comparison.by_length],
        "by_frequency": [bucket._asdict() for bucket in comparison.by_frequency],
        "ngrams": {
            letter: [each._asdict() for each in side] for letter, side in zip("ab", comparison.ngrams, strict=True)
        },
        "sentences": {
            letter: [each._asdict() | {name.lower(): text for name, text in sentences[each.line - 1]} for each in side]
            for letter, side in zip("ab", comparison.sentences, strict=True)
        },
    }
