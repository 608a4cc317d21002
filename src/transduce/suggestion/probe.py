"""A probe: a short training of a candidate, whose rate ends at zero, and its validation."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transduce.corpus import Prepared
from transduce.recipe import Recipe
from transduce.runtime.device import choose_device, training_numerics
from transduce.runtime.peak_memory import peak_memory
from transduce.trainer.dry_run import Pace
from transduce.trainer.trainer import Trainer

__all__ = ["ProbeResult", "run_probe"]


class ProbeResult(NamedTuple):
    """What a probe has measured."""

    steps: int
    loss: float  # of the validation, smoothed, in nats a token
    score: float  # BLEU of the validation
    signature: str
    pace: Pace
    steps_per_epoch: int
    peak_memory: float  # bytes, of all probes so far


def run_probe(
    recipe: Recipe, prepared: Prepared, minutes: float, device: str, threads: int | None, say: Callable[[str], None]
) -> ProbeResult:
    """Trains `recipe` for `minutes` in a temporary directory and validates the last weights."""
    limits = {"minutes": minutes, "steps": None, "epochs": None, "patience": None, "validate_every": None}
    training = recipe.training.model_copy(update={**limits, "average": None})
    chosen = choose_device(device)
    with tempfile.TemporaryDirectory() as folder, training_numerics(chosen, threads):
        probed = recipe.model_copy(update={"training": training})
        trainer = Trainer(probed, Path(folder), prepared, chosen, lambda line: None)
        assert trainer.validation is not None
        seconds, steps = 0.0, 0
        for record in trainer.train():
            seconds, steps = seconds + record.seconds, record.step
        began = time.monotonic()
        result = trainer.validation(trainer.model)
        assert result.score is not None
        pace = Pace(seconds / steps, time.monotonic() - began)
        planner = trainer.planner
    say(f"  {steps:,} steps, validation loss {result.loss:.3f}, {result.score.label} {result.score.score:.1f}")
    return ProbeResult(
        steps,
        result.loss,
        result.score.score,
        result.score.signature,
        pace,
        planner.steps_per_epoch,
        peak_memory(chosen),
    )
