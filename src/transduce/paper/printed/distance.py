"""What distance costs, in numbers and curves."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from transduce.paper.lengths import LONGEST as SHORT
from transduce.paper.lengths import Scored
from transduce.paper.printed.cells import table
from transduce.paper.printed.plots import panels
from transduce.paper.recall import DISTANCES, SYMBOLS, Recalled
from transduce.paper.sequences import BINS, LONGEST, TASKS, Kept


def as_text(recalled: Sequence[Recalled], kept: Sequence[Kept], scored: Sequence[Scored]) -> str:
    """A table for each question."""
    parts = [
        "The first of D + 1 symbols, asked for at the last: share recalled by four layers of one mixer after the same "
        f"training (by chance {1 / SYMBOLS:.0%}).",
        table(["mixer", *(f"D {distance}" for distance in DISTANCES)], list(_recalled(recalled, "accuracy", "{:.0%}"))),
        "The gradient of the last state by the first symbol, as a share of that by the last, before training.",
        table(
            ["mixer", *(f"D {distance}" for distance in DISTANCES)],
            list(_recalled(recalled, "fresh_gradient", "{:.1e}")),
        ),
    ]
    for task in TASKS:
        mine = [each for each in kept if each.task == task]
        lines = [
            [family, *(f"{each.accuracy:.1%}" for each in group)]
            for family, group in groupby(mine, lambda each: each.family)
        ]
        parts += [
            f"{task.capitalize()}, share of right words by the words of the sentence (at most {LONGEST} in training):",
            table(["family", *(f"{first}–{last}" for first, last in BINS)], lines),
        ]
    lines = [
        [
            each.positions,
            f"{each.shortest}–{each.longest}",
            str(each.sentences),
            f"{each.bleu:.2f} [{each.low:.2f}, {each.high:.2f}]",
        ]
        for each in scored
    ]
    parts += [
        f"BLEU by the subwords of the source, trained on at most {SHORT} a side"
        + (f" (`{scored[0].signature}`):" if scored else ":"),
        table(["positions", "subwords", "sentences", "BLEU"], lines),
    ]
    return "\n\n".join(parts)


def _recalled(recalled: Sequence[Recalled], what: str, shape: str) -> list[list[str]]:
    """A line a mixer."""
    return [
        [mixer, *(shape.format(getattr(each, what)) for each in group)]
        for mixer, group in groupby(recalled, lambda each: each.mixer)
    ]


def draw(recalled: Sequence[Recalled], kept: Sequence[Kept], scored: Sequence[Scored], path: Path) -> None:
    """Five panels."""
    titles = [
        "mixers alone: recalled over D",
        "gradient over D, before training",
        "families: words copied",
        "families: agreement",
        "BLEU by subwords of the source",
    ]
    with panels(path, titles, height=4.2) as (recall, gradient, copying, agreement, bleu):
        for mixer, group in groupby(recalled, lambda each: each.mixer):
            each = list(group)
            recall.plot([one.distance for one in each], [one.accuracy for one in each], "o-", label=mixer)
            gradient.plot([one.distance for one in each], [max(one.fresh_gradient, 1e-12) for one in each], "o-")
        for task, panel in zip(TASKS, (copying, agreement), strict=True):
            for family, found in groupby([one for one in kept if one.task == task], lambda each: each.family):
                known = list(found)
                middles = [(one.shortest + one.longest) / 2 for one in known]
                panel.plot(middles, [one.accuracy for one in known], "o-", label=family)
            panel.axvline(LONGEST + 0.5, color="grey", linestyle=":")
            panel.set(xlabel="words (dotted: the longest in training)", ylim=(0, 1.03))
        for positions, rows in groupby(scored, lambda each: each.positions):
            line = list(rows)
            middles = [(one.shortest + one.longest) / 2 for one in line]
            errors = [[one.bleu - one.low for one in line], [one.high - one.bleu for one in line]]
            bleu.errorbar(middles, [one.bleu for one in line], yerr=errors, fmt="o-", capsize=3, label=positions)
        bleu.axvline(SHORT + 0.5, color="grey", linestyle=":")
        bleu.set(xlabel="subwords (dotted: the longest in training)", ylim=(0, None))
        recall.set(xscale="log", xlabel="distance D", ylim=(0, 1.03), xticks=DISTANCES, xticklabels=DISTANCES)
        gradient.set(xscale="log", yscale="log", xlabel="distance D", xticks=DISTANCES, xticklabels=DISTANCES)
        for panel in (recall, gradient):
            panel.minorticks_off()
        for panel in (recall, copying, bleu):
            panel.legend(frameon=False, fontsize=7)
