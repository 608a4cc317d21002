"""Measures how distance affects different kinds of models (sections 3.5 and 4).

The experiment measures how well single kinds of mixers recall a symbol over a distance, how well whole models solve two
artificial tasks, and how BLEU depends on the length of sentences.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from transduce.paper import bleu_by_length
from transduce.paper.artificial_tasks import BINS, LONGEST, SYSTEMS, TASKS, Task, accuracy_of, run_sequences
from transduce.paper.experiment_scales import ExperimentOptions, scale_named
from transduce.paper.printing import STYLES, panels, render_page
from transduce.paper.recall_by_distance import DISTANCES, SYMBOLS, RecallResult, run_recall
from transduce.paper.trials import TrialResult
from transduce.runtime.device import choose_device

MIXERS = "mixers"  # the name of the row that consists of all mixers
NAMES = [MIXERS, *(system.name for system in SYSTEMS), *bleu_by_length.POSITIONS]


class DistanceResults(NamedTuple):
    """The results of the mixers, of the systems on artificial sequences, and of the models with different positions."""

    mixers: list[RecallResult]
    systems: list[TrialResult]
    positions: list[TrialResult]


def run_distance(options: ExperimentOptions) -> tuple[str, DistanceResults]:
    """Trains the selected rows; returns a description of the corpus and the recorded results of all rows."""
    scale, work, minutes, training = scale_named(options.scale), options.work, options.minutes, options.training
    # The second pass trains nothing; it only reads the results that other processes have written in the meantime.
    for names in (options.select_rows(NAMES), []):
        results = DistanceResults(
            run_recall(work, MIXERS in names, choose_device(training.device)),
            run_sequences(names, minutes, work / "sequences", training),
            bleu_by_length.run_lengths(scale, names, minutes, work / "lengths", training),
        )
    return scale.corpus, results


CAPTIONS: dict[Task, str] = {
    "copying": "Copying, share of words that are right after the reference words before them",
    "agreement": (
        "Agreement, share of sentences whose last word is right after the reference words before it (one of two words "
        "names the class of the first word: guessing between the two gives 50%)"
    ),
}


def as_text(results: DistanceResults) -> str:
    """Renders the tables of the mixers, of the systems and of the positions."""
    mixers: dict[str, dict[int, RecallResult]] = {}
    for result in results.mixers:
        mixers.setdefault(result.mixer, {})[result.distance] = result
    return render_page(
        "distance.md.jinja",
        mixers=mixers,
        distances=DISTANCES,
        accuracy=lambda result: f"{result.accuracy:.0%}",
        gradient=lambda result: f"{result.fresh_gradient:.1e}",
        makers=sorted({result.made_by for result in results.mixers}),
        symbols=SYMBOLS,
        tasks=TASKS,
        captions=CAPTIONS,
        longest=LONGEST,
        bins=BINS,
        systems=results.systems,
        accuracy_of=accuracy_of,
        scores=_scores_by_length(results.positions),
        longest_subwords=bleu_by_length.LONGEST,
        trainings=[*results.systems, *results.positions],
    )


def _scores_by_length(
    positions: Sequence[TrialResult],
) -> list[tuple[str, tuple[int, int], bleu_by_length.LengthScore]]:
    """Returns the kind of positions, the bounds and the score of each bin that was measured."""
    return [
        (result.trial, bounds, score)
        for result in positions
        for bounds in bleu_by_length.BINS
        if (score := bleu_by_length.score_of(result, bounds))
    ]


def draw(results: DistanceResults, path: Path) -> None:
    """Plots accuracy and gradient of the mixers, accuracy of the systems, and BLEU with each kind of positions."""
    titles = [
        "mixers alone: recalled over D",
        "gradient over D, before training; none beyond",
        "BLEU by subwords of the source",
        "systems: words copied",
        "systems: last words that agree",
    ]
    with panels(path, titles, columns=3, height=3.8) as (recall, gradient, bleu, copying, agreement):
        for number, (name, group) in enumerate(groupby(results.mixers, lambda result: result.mixer)):
            recalled, style = list(group), STYLES[number % len(STYLES)]
            distances = [result.distance for result in recalled]
            recall.plot(distances, [result.accuracy for result in recalled], style, label=name)
            connected = [result for result in recalled if result.fresh_gradient]  # at larger distances there is no path
            distances = [result.distance for result in connected]
            gradient.plot(distances, [result.fresh_gradient for result in connected], style)
        for panel in (recall, gradient):
            panel.set(xscale="log", xlabel="distance D", xticks=DISTANCES, xticklabels=DISTANCES)
            panel.minorticks_off()
        recall.set(ylim=(0, 1.03))
        gradient.set(yscale="log")
        for task, panel in zip(TASKS, (copying, agreement), strict=True):
            for number, result in enumerate(results.systems):
                accuracies = [accuracy_of(result, task, bounds) for bounds in BINS]
                middles = [sum(bounds) / 2 for bounds in BINS]
                panel.plot(middles, accuracies, STYLES[number % len(STYLES)], label=result.trial)
            panel.axvline(LONGEST + 0.5, color="grey", linestyle=":")
            panel.set(xlabel="words (dotted: the longest in training)", ylim=(0, 1.03))
        for name, rows in groupby(_scores_by_length(results.positions), lambda row: row[0]):
            bins = list(rows)
            middles = [sum(bounds) / 2 for _, bounds, _ in bins]
            scores = [score for _, _, score in bins]
            errors = [[score.bleu - score.low for score in scores], [score.high - score.bleu for score in scores]]
            bleu.errorbar(middles, [score.bleu for score in scores], yerr=errors, fmt="o-", capsize=3, label=name)
        bleu.axvline(bleu_by_length.LONGEST + 0.5, color="grey", linestyle=":")
        bleu.set(xlabel="subwords (dotted: the longest in training)", ylim=(0, None))
        if results.mixers:
            recall.legend(frameon=False, loc="center right", fontsize=7)
        bleu.legend(frameon=False, loc="upper right")
        systems = agreement.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1))
        systems.set_in_layout(False)  # it lies in the empty sixth panel
