"""What distance costs (sections 4 and 3.5): recall by mixers, artificial sequences, and BLEU by sentence length."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from transduce.paper.lengths import LONGEST as LONGEST_SUBWORDS
from transduce.paper.lengths import POSITIONS, LengthScore, length_scores, run_lengths
from transduce.paper.printing import STYLES, describe_trainings, markdown_table, panels
from transduce.paper.recall import DISTANCES, SYMBOLS, RecallResult, run_recall
from transduce.paper.scales import Scale
from transduce.paper.sequences import (
    BINS,
    LONGEST,
    SYSTEMS,
    TASKS,
    SequenceAccuracy,
    Task,
    run_sequences,
    sequence_accuracies,
)
from transduce.paper.trials import Say, TrialResult
from transduce.runtime.device import choose_device
from transduce.trainer.train import TrainOptions

MIXERS = "mixers"  # the row of all mixers
NAMES = [MIXERS, *(system.name for system in SYSTEMS), *POSITIONS]


class DistanceResults(NamedTuple):
    """The results of mixers, of systems on artificial sequences, and of positions."""

    mixers: list[RecallResult]
    systems: list[TrialResult]
    positions: list[TrialResult]


def run_distance(
    scale: Scale, names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> DistanceResults:
    """Trains the rows in `names`, and returns the recorded results of all rows."""

    def run(names: Sequence[str]) -> DistanceResults:
        return DistanceResults(
            run_recall(work, MIXERS in names, choose_device(options.device), say),
            run_sequences(names, minutes, work / "sequences", options, say),
            run_lengths(scale, names, minutes, work / "lengths", options, say),
        )

    run(names)
    return run([])  # trains nothing and reads the results that other processes have written meanwhile


CAPTIONS: dict[Task, str] = {
    "copying": "Copying, share of words that are right after the reference words before them",
    "agreement": (
        "Agreement, share of sentences whose last word is right after the reference words before it (one of two words "
        "names the class of the first word: guessing between the two gives 50%)"
    ),
}


def as_text(results: DistanceResults) -> str:
    """Returns the tables of mixers, of systems and of positions."""
    return "\n\n".join(
        [
            *_mixers_as_text(results.mixers),
            *_systems_as_text(sequence_accuracies(results.systems)),
            *_positions_as_text(length_scores(results.positions)),
            *describe_trainings([*results.systems, *results.positions]),
        ]
    )


def _mixers_as_text(mixers: Sequence[RecallResult]) -> Iterator[str]:
    yield (
        "The first of D + 1 symbols, to be named at the last: share recalled by four layers of one mixer, all trained "
        f"alike (guessing gives {1 / SYMBOLS:.0%})."
    )
    yield _table_by_distance(mixers, lambda result: f"{result.accuracy:.0%}")
    yield "The gradient of the last state by the first symbol, as a share of that by the last, before training."
    yield _table_by_distance(mixers, lambda result: f"{result.fresh_gradient:.1e}")
    if mixers:
        yield f"Both by {'; '.join(sorted({result.made_by for result in mixers}))}."


def _table_by_distance(mixers: Sequence[RecallResult], cell: Callable[[RecallResult], str]) -> str:
    """Returns a table with a row for each mixer and a column for each distance."""
    cells = {(result.mixer, result.distance): cell(result) for result in mixers}
    names = dict.fromkeys(result.mixer for result in mixers)
    rows = [[name, *(cells.get((name, distance), "") for distance in DISTANCES)] for name in names]
    return markdown_table(["mixer", *(f"D {distance}" for distance in DISTANCES)], rows)


def _systems_as_text(accuracies: Sequence[SequenceAccuracy]) -> Iterator[str]:
    cells = {
        (accuracy.task, accuracy.system, accuracy.shortest, accuracy.longest): f"{accuracy.accuracy:.1%}"
        for accuracy in accuracies
    }
    for task in TASKS:
        systems = dict.fromkeys(accuracy.system for accuracy in accuracies if accuracy.task == task)
        rows = [[system, *(cells.get((task, system, *bounds), "") for bounds in BINS)] for system in systems]
        yield f"{CAPTIONS[task]}, by the words of the sentence (at most {LONGEST} in training):"
        yield markdown_table(["system", *(f"{shortest}–{longest}" for shortest, longest in BINS)], rows)


def _positions_as_text(scores: Sequence[LengthScore]) -> Iterator[str]:
    if not scores:
        return
    signatures = "`, `".join(sorted({score.signature for score in scores}))
    yield f"BLEU by the subwords of the source, trained on at most {LONGEST_SUBWORDS} a side (`{signatures}`):"
    rows = [
        [
            score.positions,
            f"{score.shortest}–{score.longest}",
            str(score.sentences),
            f"{score.bleu:.2f} [{score.low:.2f}, {score.high:.2f}]",
        ]
        for score in scores
    ]
    yield markdown_table(["positions", "subwords", "sentences", "BLEU"], rows)


def draw(results: DistanceResults, path: Path) -> None:
    """Draws accuracy and gradient of the mixers, accuracy of the systems, and BLEU of the positions."""
    titles = [
        "mixers alone: recalled over D",
        "gradient over D, before training; none beyond",
        "BLEU by subwords of the source",
        "systems: words copied",
        "systems: last words that agree",
    ]
    with panels(path, titles, columns=3, height=3.8) as (recall, gradient, bleu, copying, agreement):
        _draw_mixers(results.mixers, recall, gradient)
        _draw_systems(sequence_accuracies(results.systems), (copying, agreement))
        _draw_positions(length_scores(results.positions), bleu)
        if results.mixers:
            recall.legend(frameon=False, loc="center right", fontsize=7)
        bleu.legend(frameon=False, loc="upper right")
        systems = agreement.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1))
        systems.set_in_layout(False)  # it lies in the empty sixth panel


def _draw_mixers(mixers: Sequence[RecallResult], recall: Any, gradient: Any) -> None:
    for number, (name, group) in enumerate(groupby(mixers, lambda result: result.mixer)):
        results, style = list(group), STYLES[number % len(STYLES)]
        recall.plot([result.distance for result in results], [result.accuracy for result in results], style, label=name)
        connected = [result for result in results if result.fresh_gradient]  # at larger distances there is no path
        gradient.plot([result.distance for result in connected], [result.fresh_gradient for result in connected], style)
    for panel in (recall, gradient):
        panel.set(xscale="log", xlabel="distance D", xticks=DISTANCES, xticklabels=DISTANCES)
        panel.minorticks_off()
    recall.set(ylim=(0, 1.03))
    gradient.set(yscale="log")


def _draw_systems(accuracies: Sequence[SequenceAccuracy], panels_of_tasks: Sequence[Any]) -> None:
    for task, panel in zip(TASKS, panels_of_tasks, strict=True):
        of_task = [accuracy for accuracy in accuracies if accuracy.task == task]
        for number, (system, group) in enumerate(groupby(of_task, lambda accuracy: accuracy.system)):
            bins = list(group)
            middles = [(accuracy.shortest + accuracy.longest) / 2 for accuracy in bins]
            style = STYLES[number % len(STYLES)]
            panel.plot(middles, [accuracy.accuracy for accuracy in bins], style, label=system)
        panel.axvline(LONGEST + 0.5, color="grey", linestyle=":")
        panel.set(xlabel="words (dotted: the longest in training)", ylim=(0, 1.03))


def _draw_positions(scores: Sequence[LengthScore], bleu: Any) -> None:
    for positions, group in groupby(scores, lambda score: score.positions):
        bins = list(group)
        middles = [(score.shortest + score.longest) / 2 for score in bins]
        errors = [[score.bleu - score.low for score in bins], [score.high - score.bleu for score in bins]]
        bleu.errorbar(middles, [score.bleu for score in bins], yerr=errors, fmt="o-", capsize=3, label=positions)
    bleu.axvline(LONGEST_SUBWORDS + 0.5, color="grey", linestyle=":")
    bleu.set(xlabel="subwords (dotted: the longest in training)", ylim=(0, None))
