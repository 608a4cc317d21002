"""How far a run has come, as its checkpoints remember it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from transduce.corpus import Position
from transduce.training import SkippedSteps

__all__ = ["TrainingState"]


class TrainingState(NamedTuple):
    """What a run remembers besides weights and optimiser."""

    step: int = 0
    position: Position = Position()
    tokens: int = 0  # target words trained on, end symbols included
    elapsed: float = 0.0  # seconds of training, validating and saving, over all starts
    best: float | None = None  # the best validation score so far; higher is better
    best_step: int | None = None
    stale: int = 0  # validations since
    journal: int = 0  # bytes of `metrics.jsonl`
    skips: SkippedSteps = SkippedSteps()

    @classmethod
    def read(cls, step: int, state: Mapping[str, Any]) -> "TrainingState":
        """As a checkpoint of `step` has it."""
        known = {name: state[name] for name in cls._fields if name in state}
        parts = {"position": Position(*state["position"]), "skips": SkippedSteps(*state.get("skips", ()))}
        return cls(**{**known, **parts, "step": step})
