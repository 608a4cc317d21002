"""The page that shows where two systems differ: one file without scripts that needs no network."""

from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from transduce.pictures.attention import show_control_characters
from transduce.pictures.html_parts import escape, in_range, section, signed, static_page, table
from transduce.pictures.word_differences import mark_differences
from transduce.storage.result_files import replace_file

if TYPE_CHECKING:
    from transduce.measure import NgramDifference, OutputComparison, SentenceDifference

__all__ = ["METRICS", "draw_comparison", "marked_sentence"]

LEGEND = (
    "<p>Marked are the words that the other system does not have: "
    '<mark class="right">words of the reference</mark> and '
    '<mark class="wrong">words that the reference lacks</mark>.</p>'
)
A, B = '<b class="a">A</b>', '<b class="b">B</b>'
BAR_HEADING = '<span class="better"><b class="a">◂ A</b> <b class="b">B ▸</b></span>'
METRICS = {"bleu": "BLEU", "chrf": "chrF"}

Texts = Sequence[tuple[str, str]]  # of one sentence: source, reference, A and B, each after its name


def draw_comparison(comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Texts], path: Path) -> None:
    """Writes the page of `comparison` to `path`; `names` are the systems, `texts` the texts of each sentence.

    Equal comparisons give equal bytes. A file is replaced atomically. Raises OSError where it cannot be written.
    """
    page = _render(comparison, names, texts)
    replace_file(path, lambda target: target.write_text(page, encoding="utf-8", newline="\n"))


def _render(comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Texts]) -> str:
    folder = resources.files(__package__)
    sections = (_scores(comparison), _by_length(comparison), _by_frequency(comparison), _ngrams(comparison))
    body = Template((folder / "comparison.html").read_text(encoding="utf-8")).substitute(
        name_a=escape(names[0]),
        name_b=escape(names[1]),
        sections="\n".join((*sections, _sentences(comparison, texts))),
    )
    style = (folder / "comparison.css").read_text(encoding="utf-8")
    return static_page(f"{names[0]} and {names[1]}", style, body)


def _scores(comparison: "OutputComparison") -> str:
    rows = []
    for name, (baseline, (difference,)) in comparison.scores.items():
        first, second = baseline, difference.score
        cells = (f"{score.score:.2f} <small>{score.low:.2f} to {score.high:.2f}</small>" for score in (first, second))
        rows.append([METRICS[name], *cells, signed(difference.delta), f"{difference.p:.4f}"])
    ratios = comparison.length_ratios
    rows.append(["length ratio", *map("{:.3f}".format, ratios), signed(ratios[1] - ratios[0], digits=3), ""])
    signatures = (f"{METRICS[name]}: {escape(baseline.signature)}" for name, (baseline, _) in comparison.scores.items())
    return section(
        "scores",
        "Scores",
        table([["metric", A, B, "B − A", "p"], *rows]),
        '<p class="note">Below each score: its 95 % interval by bootstrap. p: paired bootstrap test. Length ratio: '
        f"words of the output by the {comparison.reference_words:,} words of the reference."
        f"<br>{'<br>'.join(signatures)}</p>",
    )


def _by_length(comparison: "OutputComparison") -> str:
    sides = []
    for name, title in METRICS.items():
        pairs = [bucket.bleu if name == "bleu" else bucket.chrf for bucket in comparison.by_length]
        rows = [
            [in_range(bucket.low, bucket.high), f"{bucket.sentences:,}", *_pair(pair), bar]
            for bucket, pair, bar in zip(comparison.by_length, pairs, _bars(pairs), strict=True)
        ]
        sides.append(table([["words", "sentences", f"{title} {A}", B, "B − A", BAR_HEADING], *rows]))
    return section("length", "By words of the reference", f'<div class="sides">{"".join(sides)}</div>')


def _by_frequency(comparison: "OutputComparison") -> str:
    bars = _bars([bucket.f1 for bucket in comparison.by_frequency])
    rows = [
        [in_range(bucket.low, bucket.high), f"{bucket.words:,}", *_pair(bucket.f1), bar]
        for bucket, bar in zip(comparison.by_frequency, bars, strict=True)
    ]
    return section(
        "frequency",
        "By frequency of the word",
        "<p>F1 in per cent: how well the words of the reference are found, by how often the training text, or else the "
        "reference, has them.</p>",
        table([["frequency", "words", f"F1 {A}", B, "B − A", BAR_HEADING], *rows]),
    )


def _ngrams(comparison: "OutputComparison") -> str:
    sides = (
        f"<div><h3>{better} has more often than {other}</h3>{_ngram_table(side)}</div>"
        for better, other, side in zip((A, B), (B, A), comparison.ngrams, strict=True)
    )
    return section(
        "ngrams",
        "N-grams of the reference",
        "<p>How often each system has an n-gram where the reference has it; the highest ratio of odds first.</p>",
        f'<div class="sides">{"".join(sides)}</div>',
    )


def _ngram_table(ngrams: Sequence["NgramDifference"]) -> str:
    if not ngrams:
        return '<p class="note">none</p>'
    rows = [
        [
            f'<bdi lang="" translate="no">{escape(each.ngram)}</bdi>',
            *map("{:,}".format, (*each.matches, each.in_reference)),
        ]
        for each in ngrams
    ]
    return table([["n-gram", A, B, "reference"], *rows])


def _sentences(comparison: "OutputComparison", texts: Sequence[Texts]) -> str:
    parts = [LEGEND]
    for better, other, side in zip((A, B), (B, A), comparison.sentences, strict=True):
        parts.append(f"<h3>{better} is better than {other} by chrF</h3>")
        parts += [marked_sentence(each, texts[each.line - 1]) for each in side] or ['<p class="note">none</p>']
    return section("sentences", "Sentences that differ most", *parts)


def marked_sentence(difference: "SentenceDifference", texts: Texts) -> str:
    """Returns a sentence with its scores and its texts, in which the words of each output are marked."""
    shown = {name: show_control_characters(text) for name, text in texts}
    first, second = difference.chrf
    heading = f"<span>line {difference.line:,}</span><span>{A} {first:.1f}</span><span>{B} {second:.1f}</span>"
    rows = []
    for name, text in shown.items():
        title, content = name, escape(text)
        if name in ("A", "B"):
            title = A if name == "A" else B
            content = _marked(text, shown["B" if name == "A" else "A"], shown["reference"])
        rows.append(f'<dt>{title}</dt><dd lang="" dir="auto" translate="no">{content}</dd>')
    return f"<article><h4>{heading}</h4><dl>{''.join(rows)}</dl></article>"


def _marked(output: str, other: str, reference: str) -> str:
    """Returns an output as HTML in which the words that the other system lacks are marked."""
    pieces = mark_differences(output, other, reference)
    return "".join(
        f'<mark class="{piece.mark}">{escape(piece.text)}</mark>' if piece.mark else escape(piece.text)
        for piece in pieces
    )


def _bars(pairs: Iterable[tuple[float, ...]]) -> list[str]:
    """Returns a bar for each pair of scores; the largest difference fills its half."""
    differences = [second - first for first, second in pairs]
    largest = max(map(abs, differences), default=0.0) or 1.0
    return [_bar("b" if each > 0 else "a", 50 * abs(each) / largest) for each in differences]


def _bar(side: str, width: float) -> str:
    """Returns a bar on the side of a system; `width` is in per cent."""
    return f'<div class="bar"><i class="{side}" style="width:{width:.1f}%"></i></div>'


def _pair(scores: tuple[float, ...]) -> tuple[str, str, str]:
    """Returns two scores and their difference."""
    first, second = scores
    return f"{first:.2f}", f"{second:.2f}", signed(second - first)
