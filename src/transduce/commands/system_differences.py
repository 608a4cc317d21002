"""Implements `transduce measure --differences`, which shows where two outputs for the same test set differ."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.commands.paired_texts import check_paired
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.pages.system_comparison import NgramDifference, OutputComparison, SentenceDifference, SystemScores

TOP = 10  # number of n-grams and of sentences that are shown for each system, at most
Texts = Sequence[tuple[str, str]]  # the texts of one sentence as pairs of a name and a text


def show_differences(
    system_paths: tuple[str, str],
    reference_path: str,
    source_path: str | None,
    train_path: str | None,
    *,
    language: str | None,
    bootstrap: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """Prints how the outputs of two systems differ.

    The report contains the scores with a paired bootstrap test, the scores by sentence length and by word frequency,
    and the n-grams and sentences that differ most. It is printed as JSON if `as_json` is true, and also written as a
    page if `html` names a file. Raises ValueError if the outputs, the reference and the source have different numbers
    of lines.
    """
    from transduce.pages.system_comparison import compare_systems
    from transduce.text.lines import read_texts

    paired = [path for path in (reference_path, *system_paths, source_path) if path is not None]
    paths = paired if train_path is None else [*paired, train_path]
    texts = dict(zip(paths, read_texts(*paths), strict=True))
    check_paired(paired, [texts[path] for path in paired])
    systems, expected = (texts[system_paths[0]], texts[system_paths[1]]), texts[reference_path]
    sources = None if source_path is None else texts[source_path]
    words = None if train_path is None else texts[train_path]
    comparison = compare_systems(systems, expected, train=words, language=language, bootstrap=bootstrap, top=TOP)
    sentences = _sentence_texts(systems, expected, sources)
    if html is not None:
        from transduce.pages import draw_comparison

        draw_comparison(comparison, system_paths, sentences, html)
    if as_json:
        print(json_text(_as_object(comparison, system_paths, sentences), indent=2))
    else:
        print(_comparison_text(comparison, system_paths, sentences))


def _sentence_texts(
    systems: tuple[list[str], list[str]], reference: list[str], source: list[str] | None
) -> list[list[tuple[str, str]]]:
    """Returns the texts of each sentence as pairs of a name and a text: source (if given), reference, A and B."""
    named = {"source": source, "reference": reference, "A": systems[0], "B": systems[1]}
    columns = [[(name, text) for text in texts] for name, texts in named.items() if texts is not None]
    return [list(row) for row in zip(*columns, strict=True)]


def _as_object(
    comparison: "OutputComparison", names: tuple[str, str], sentences: list[list[tuple[str, str]]]
) -> dict[str, Any]:
    """Converts the comparison to a dictionary of JSON values, with the names of the fields as keys."""
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
    """Formats the comparison as text; `names` are the files of the systems, and `texts` the texts of each sentence."""
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
    """Formats the table of corpus scores, followed by the signature of each metric."""
    rows = [["Scores", "A", "B", "B - A", "p"]]
    for name, (baseline, (difference,)) in systems.scores.items():
        rows.append(
            [
                name,
                *_pair(baseline.score, difference.score.score),
                "none" if difference.p is None else f"{difference.p:.4f}",
            ]
        )
    first, second = systems.length_ratios
    rows.append(["words / words of the reference", f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}", ""])
    signatures = [f"{name}  {baseline.signature}" for name, (baseline, _) in systems.scores.items()]
    return "\n".join((_columns(rows), *signatures))


def _ngrams(title: str, ngrams: Sequence["NgramDifference"]) -> str:
    """Formats a table of n-grams and their counts; the n-grams are in the last column because their widths differ."""
    if not ngrams:
        return f"{title}\nnone"
    rows = [["in reference", "A", "B", "odds ratio"]]
    rows += [[f"{total:,}", f"{a:,}", f"{b:,}", f"{odds:,.1f}"] for _, total, (a, b), odds in ngrams]
    table = _columns(rows, first_is_text=False).split("\n")
    texts = ["n-gram", *(ngram.ngram for ngram in ngrams)]
    return "\n".join((title, *(f"{row}  {text}" for row, text in zip(table, texts, strict=True))))


def _sentence_lines(sentences: Sequence["SentenceDifference"], texts: Sequence[Texts]) -> Iterator[str]:
    """Yields, for each sentence, one line with its scores and then one line for each of its texts."""
    for line, (first, second) in sentences:
        yield f"line {line:,}: A {first:.1f}, B {second:.1f}"
        width = max(len(name) for name, _ in texts[line - 1])
        yield from (f"  {name:{width}}  {text}" for name, text in texts[line - 1])


def _pair(first: float, second: float) -> tuple[str, str, str]:
    return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"


def _columns(rows: Sequence[Sequence[str]], *, first_is_text: bool = True) -> str:
    """Formats rows as right-aligned columns; the first column is left-aligned if it contains text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if first_is_text:
            cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
