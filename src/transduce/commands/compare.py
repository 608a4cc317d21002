"""`transduce compare`: shows where two systems' outputs of one test set differ."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.options import JsonOption, OverwriteOption
from transduce.commands.output_file import check_writable
from transduce.commands.paired_texts import check_paired
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.measure.system_comparison import NgramDifference, OutputComparison, SentenceDifference, SystemScores

Texts = Sequence[tuple[str, str]]  # of one sentence: what a text is, and the text


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
    from transduce.measure.system_comparison import compare_systems
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
        from transduce.pages import draw_comparison

        draw_comparison(comparison, names, sentences, html)
    if as_json:
        print(json_text(_as_object(comparison, names, sentences), indent=2))
    else:
        print(_comparison_text(comparison, names, sentences))


def _sentence_texts(
    systems: tuple[list[str], list[str]], reference: list[str], source: list[str] | None
) -> list[list[tuple[str, str]]]:
    """Returns for each sentence its source, its reference and both outputs, each text after its name."""
    named = {"source": source, "reference": reference, "A": systems[0], "B": systems[1]}
    columns = [[(name, text) for text in texts] for name, texts in named.items() if texts is not None]
    return [list(row) for row in zip(*columns, strict=True)]


def _as_object(
    comparison: "OutputComparison", names: tuple[str, str], sentences: list[list[tuple[str, str]]]
) -> dict[str, Any]:
    """Returns the comparison as JSON; the keys of each part are its fields."""
    systems = comparison.systems
    scores = {
        name: {"a": baseline._asdict(), "b": difference.score._asdict(), "delta": difference.delta, "p": difference.p}
        for name, (baseline, (difference,)) in systems.scores.items()
    }
    return {
        "systems": names,
        "scores": scores,
        "words": systems.words,
        "reference_words": systems.reference_words,
        "length_ratios": systems.length_ratios,
        "by_length": [bucket._asdict() for bucket in systems.by_length],
        "by_frequency": [bucket._asdict() for bucket in systems.by_frequency],
        "ngrams": {
            letter: [each._asdict() for each in side] for letter, side in zip("ab", comparison.ngrams, strict=True)
        },
        "sentences": {
            letter: [each._asdict() | {name.lower(): text for name, text in sentences[each.line - 1]} for each in side]
            for letter, side in zip("ab", comparison.sentences, strict=True)
        },
    }


def _comparison_text(comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Texts]) -> str:
    """Returns all tables; `names` are the files of the systems, `texts` the texts of each sentence in their order."""
    systems = comparison.systems
    lengths = [
        ["By words of the reference", "sentences", "bleu A", "B", "B - A", "chrf A", "B", "B - A"],
        *(
            [bucket.range, f"{bucket.sentences:,}", *_pair(*bucket.bleu), *_pair(*bucket.chrf)]
            for bucket in systems.by_length
        ),
    ]
    frequencies = [
        ["By frequency of the word", "words", "F1 A", "B", "B - A"],
        *([bucket.range, f"{bucket.words:,}", *_pair(*bucket.f1)] for bucket in systems.by_frequency),
    ]
    sections = [
        "\n".join(f"{letter}: {name}" for letter, name in zip("AB", names, strict=True)),
        _scores(systems),
        _columns(lengths),
        _columns(frequencies),
    ]
    for letter, other, ngrams in zip("AB", "BA", comparison.ngrams, strict=True):
        sections.append(_ngrams(f"N-grams of the reference that {letter} has more often than {other}", ngrams))
    for letter, other, side in zip("AB", "BA", comparison.sentences, strict=True):
        lines = list(_sentence_lines(side, texts)) or ["none"]
        sections.append("\n".join((f"Sentences where {letter} is better than {other}, by chrF", *lines)))
    return "\n\n".join(sections)


def _scores(systems: "SystemScores") -> str:
    """Returns the table of corpus scores, with the signature of each metric below it."""
    rows = [["Scores", "A", "B", "B - A", "p"]]
    for name, (baseline, (difference,)) in systems.scores.items():
        rows.append([name, *_pair(baseline.score, difference.score.score), f"{difference.p:.4f}"])
    first, second = systems.length_ratios
    rows.append(["words / words of the reference", f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}", ""])
    signatures = [f"{name}  {baseline.signature}" for name, (baseline, _) in systems.scores.items()]
    return "\n".join((_columns(rows), *signatures))


def _ngrams(title: str, ngrams: Sequence["NgramDifference"]) -> str:
    """Returns the n-grams behind their counts, because their widths differ."""
    if not ngrams:
        return f"{title}\nnone"
    rows = [["in reference", "A", "B", "odds ratio"]]
    rows += [[f"{total:,}", f"{a:,}", f"{b:,}", f"{odds:,.1f}"] for _, total, (a, b), odds in ngrams]
    table = _columns(rows, first_is_text=False).split("\n")
    texts = ["n-gram", *(ngram.ngram for ngram in ngrams)]
    return "\n".join((title, *(f"{row}  {text}" for row, text in zip(table, texts, strict=True))))


def _sentence_lines(sentences: Sequence["SentenceDifference"], texts: Sequence[Texts]) -> Iterator[str]:
    """Yields for each sentence a line with its scores, and a line for each of its texts."""
    for line, (first, second) in sentences:
        yield f"line {line:,}: A {first:.1f}, B {second:.1f}"
        width = max(len(name) for name, _ in texts[line - 1])
        yield from (f"  {name:{width}}  {text}" for name, text in texts[line - 1])


def _pair(first: float, second: float) -> tuple[str, str, str]:
    """Returns two scores and their difference."""
    return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"


def _columns(rows: Sequence[Sequence[str]], *, first_is_text: bool = True) -> str:
    """Returns rows in columns that are aligned to the right; the first one to the left if it is text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if first_is_text:
            cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
