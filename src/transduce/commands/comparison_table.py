"""The comparison of two systems in text, as `transduce compare` prints it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.measure import NgramDifference, OutputComparison, SentenceDifference

__all__ = ["comparison_text"]

Texts = Sequence[tuple[str, str]]  # of one sentence: what a text is, and the text


def comparison_text(comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Texts]) -> str:
    """Returns all tables; `names` are the files of the systems, `texts` the texts of each sentence in their order."""
    sections = [
        "\n".join(f"{letter}: {name}" for letter, name in zip("AB", names, strict=True)),
        _scores(comparison),
        _by_length(comparison),
        _by_frequency(comparison),
    ]
    for letter, other, ngrams in zip("AB", "BA", comparison.ngrams, strict=True):
        sections.append(_ngrams(f"N-grams of the reference that {letter} has more often than {other}", ngrams))
    for letter, other, sentences in zip("AB", "BA", comparison.sentences, strict=True):
        sections.append(_sentences(f"Sentences where {letter} is better than {other}, by chrF", sentences, texts))
    return "\n\n".join(sections)


def _scores(comparison: "OutputComparison") -> str:
    """Returns the table of corpus scores, with the signature of each metric below it."""
    rows = [["Scores", "A", "B", "B - A", "p"]]
    for name, (baseline, (difference,)) in comparison.scores.items():
        pair = baseline.score, difference.score.score
        rows.append([name, *_pair(*pair), f"{difference.p:.4f}"])
    first, second = comparison.length_ratios
    rows.append(["words / words of the reference", f"{first:.3f}", f"{second:.3f}", f"{second - first:+.3f}", ""])
    signatures = [f"{name}  {baseline.signature}" for name, (baseline, _) in comparison.scores.items()]
    return "\n".join((_columns(rows), *signatures))


def _by_length(comparison: "OutputComparison") -> str:
    rows = [["By words of the reference", "sentences", "bleu A", "B", "B - A", "chrf A", "B", "B - A"]]
    for low, high, sentences, bleu, chrf in comparison.by_length:
        rows.append([_range(low, high), f"{sentences:,}", *_pair(*bleu), *_pair(*chrf)])
    return _columns(rows)


def _by_frequency(comparison: "OutputComparison") -> str:
    rows = [["By frequency of the word", "words", "F1 A", "B", "B - A"]]
    for low, high, words, f1 in comparison.by_frequency:
        rows.append([_range(low, high), f"{words:,}", *_pair(*f1)])
    return _columns(rows)


def _ngrams(title: str, ngrams: Sequence["NgramDifference"]) -> str:
    """Returns the n-grams behind their counts, because their widths differ."""
    if not ngrams:
        return f"{title}\nnone"
    rows = [["in reference", "A", "B", "odds ratio"]]
    rows += [[f"{total:,}", f"{a:,}", f"{b:,}", f"{odds:,.1f}"] for _, total, (a, b), odds in ngrams]
    table = _columns(rows, first_is_text=False).split("\n")
    texts = ["n-gram", *(ngram.ngram for ngram in ngrams)]
    return "\n".join((title, *(f"{row}  {text}" for row, text in zip(table, texts, strict=True))))


def _sentences(title: str, sentences: Sequence["SentenceDifference"], texts: Sequence[Texts]) -> str:
    return "\n".join((title, *(_sentence_lines(sentences, texts) if sentences else ("none",))))


def _sentence_lines(sentences: Sequence["SentenceDifference"], texts: Sequence[Texts]) -> Iterator[str]:
    """Yields for each sentence a line with its scores, and a line for each of its texts."""
    for line, (first, second) in sentences:
        yield f"line {line:,}: A {first:.1f}, B {second:.1f}"
        width = max(len(name) for name, _ in texts[line - 1])
        yield from (f"  {name:{width}}  {text}" for name, text in texts[line - 1])


def _pair(first: float, second: float) -> tuple[str, str, str]:
    """Returns two scores and their difference."""
    return f"{first:.2f}", f"{second:.2f}", f"{second - first:+.2f}"


def _range(low: int, high: int | None) -> str:
    """Returns the numbers from `low` to `high`."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


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
