"""What distance costs, in numbers and curves."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from transduce.paper.lengths import LONGEST as SHORT
from transduce.paper.lengths import Scored
from transduce.paper.printed.cells import table, trainings
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.recall import DISTANCES, SYMBOLS, Recalled
from transduce.paper.sequences import BINS, LONGEST, TASKS, SequenceAccuracy, Task

CAPTIONS: dict[Task, str] = {
    "copying": "Copying, share of words that are right, those before them given",
    "agreement": (
        "Agreement, share of sentences whose last word is right, those before it given (one of two words says of which "
        "kind the first was: 50% by chance for who knows that it is due)"
    ),
}


def as_text(recalled: Sequence[Recalled], kept: Sequence[SequenceAccuracy], scored: Sequence[Scored]) -> str:
    """A table for each question."""
    made = trainings([*(each.by for each in kept), *(each.by for each in scored)])
    return "\n\n".join([*_of_mixers(recalled), *_of_families(kept), *_of_positions(scored), *made])


def _of_mixers(recalled: Sequence[Recalled]) -> Iterator[str]:
    """What four layers of one mixer recall, and the gradient that they begin with."""
    yield (
        "The first of D + 1 symbols, asked for at the last: share recalled by four layers of one mixer after the same "
        f"training (by chance {1 / SYMBOLS:.0%})."
    )
    yield _by_distance(recalled, lambda each: f"{each.accuracy:.0%}")
    yield "The gradient of the last state by the first symbol, as a share of that by the last, before training."
    yield _by_distance(recalled, lambda each: f"{each.fresh_gradient:.1e}")
    if recalled:
        yield f"Both by {'; '.join(sorted({each.made for each in recalled}))}."


def _by_distance(recalled: Sequence[Recalled], shown: Callable[[Recalled], str]) -> str:
    """A line a mixer."""
    known = {(each.mixer, each.distance): shown(each) for each in recalled}
    mixers = dict.fromkeys(each.mixer for each in recalled)
    lines = [[mixer, *(known.get((mixer, distance), "") for distance in DISTANCES)] for mixer in mixers]
    return table(["mixer", *(f"D {distance}" for distance in DISTANCES)], lines)


def _of_families(kept: Sequence[SequenceAccuracy]) -> Iterator[str]:
    """How much of a sequence each family keeps."""
    known = {(each.task, each.family, each.shortest, each.longest): f"{each.accuracy:.1%}" for each in kept}
    for task in TASKS:
        families = dict.fromkeys(each.family for each in kept if each.task == task)
        lines = [[family, *(known.get((task, family, *ends), "") for ends in BINS)] for family in families]
        yield f"{CAPTIONS[task]}, by the words of the sentence (at most {LONGEST} in training):"
        yield table(["family", *(f"{first}–{last}" for first, last in BINS)], lines)


def _of_positions(scored: Sequence[Scored]) -> Iterator[str]:
    """BLEU by the length of the source."""
    if not scored:
        return
    signatures = "`, `".join(sorted({each.signature for each in scored}))
    yield f"BLEU by the subwords of the source, trained on at most {SHORT} a side (`{signatures}`):"
    lines = [
        [
            each.positions,
            f"{each.shortest}–{each.longest}",
            str(each.sentences),
            f"{each.bleu:.2f} [{each.low:.2f}, {each.high:.2f}]",
        ]
        for each in scored
    ]
    yield table(["positions", "subwords", "sentences", "BLEU"], lines)


def draw(recalled: Sequence[Recalled], kept: Sequence[SequenceAccuracy], scored: Sequence[Scored], path: Path) -> None:
    """Five panels."""
    titles = [
        "mixers alone: recalled over D",
        "gradient over D, before training; none beyond",
        "BLEU by subwords of the source",
        "families: words copied",
        "families: last words that agree",
    ]
    with panels(path, titles, columns=3, height=3.8) as (recall, gradient, bleu, copying, agreement):
        _draw_mixers(recalled, recall, gradient)
        _draw_families(kept, (copying, agreement))
        _draw_positions(scored, bleu)
        if recalled:
            recall.legend(frameon=False, loc="center right", fontsize=7)
        bleu.legend(frameon=False, loc="upper right")
        families = agreement.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1))
        families.set_in_layout(False)  # in the empty corner it takes no room from others


def _draw_mixers(recalled: Sequence[Recalled], recall: Any, gradient: Any) -> None:
    """What is recalled, and the gradient before training, over the distance."""
    for number, (mixer, group) in enumerate(groupby(recalled, lambda each: each.mixer)):
        each, style = list(group), STYLES[number % len(STYLES)]
        recall.plot([one.distance for one in each], [one.accuracy for one in each], style, label=mixer)
        heard = [one for one in each if one.fresh_gradient]  # beyond, there is no way at all
        gradient.plot([one.distance for one in heard], [one.fresh_gradient for one in heard], style)
    for panel in (recall, gradient):
        panel.set(xscale="log", xlabel="distance D", xticks=DISTANCES, xticklabels=DISTANCES)
        panel.minorticks_off()
    recall.set(ylim=(0, 1.03))
    gradient.set(yscale="log")


def _draw_families(kept: Sequence[SequenceAccuracy], panels_of_tasks: Sequence[Any]) -> None:
    """How much is kept, over the length."""
    for task, panel in zip(TASKS, panels_of_tasks, strict=True):
        families = groupby([one for one in kept if one.task == task], lambda each: each.family)
        for number, (family, found) in enumerate(families):
            known = list(found)
            middles = [(one.shortest + one.longest) / 2 for one in known]
            panel.plot(middles, [one.accuracy for one in known], STYLES[number % len(STYLES)], label=family)
        panel.axvline(LONGEST + 0.5, color="grey", linestyle=":")
        panel.set(xlabel="words (dotted: the longest in training)", ylim=(0, 1.03))


def _draw_positions(scored: Sequence[Scored], bleu: Any) -> None:
    """BLEU over the length."""
    for positions, rows in groupby(scored, lambda each: each.positions):
        line = list(rows)
        middles = [(one.shortest + one.longest) / 2 for one in line]
        errors = [[one.bleu - one.low for one in line], [one.high - one.bleu for one in line]]
        bleu.errorbar(middles, [one.bleu for one in line], yerr=errors, fmt="o-", capsize=3, label=positions)
    bleu.axvline(SHORT + 0.5, color="grey", linestyle=":")
    bleu.set(xlabel="subwords (dotted: the longest in training)", ylim=(0, None))
