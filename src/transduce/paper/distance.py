"""What distance costs (sections 4 and 3.5): recall by mixers, artificial sequences, and BLEU by sentence length."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.paper.lengths import POSITIONS, run_lengths
from transduce.paper.recall import RecallResult, run_recall
from transduce.paper.scales import Scale
from transduce.paper.sequences import SYSTEMS, run_sequences
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
