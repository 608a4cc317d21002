"""The section `training` of a fine-tuning, where its recipe does not say otherwise.

The rate is constant after a short warm-up, at a tenth of the rate with which the model's training ended. For a model of
the paper's base size after 100,000 steps that is 1.4e-5, about the 2e-5 that Hugging Face's course takes for OPUS-MT
models. A few passes over the data and early stopping are usual (Luong and Manning 2015; Miceli Barone et al. 2017).
"""

from collections.abc import Mapping
from typing import Any

from transduce.model_directory import Config
from transduce.settings import validated
from transduce.training import Training
from transduce.training.schedule import Constant, EndingSchedule

__all__ = ["PATIENCE", "gentle_training"]

GENTLE = 0.1  # of the rate with which the model's training ended

# Smaller batches than the model's make more updates of little text. The noise of an update grows with rate / batch
# (Smith and Le 2018), which stays below that of the model's training for batches of up to ten times as many tokens.
BATCH_TOKENS = 4096

DEFAULTS = {
    "steps": None,
    "epochs": 10,
    "validate_every": 100,
    "save_every": 100,
    "average": None,
}
"""Keys of `training` for fine-tuning."""

PATIENCE = 10
"""`training.patience` for fine-tuning, where the recipe validates."""

INHERITED = ("optimiser", "label_smoothing", "label_smoothing_over", "clip", "precision")
"""Keys of `training` that a fine-tuning takes from the model's recipe."""


def gentle_training(section: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Returns the section `training` of a fine-tuning; `section` is that of the model's recipe, empty without one."""
    training = validated(Training, section, place="training")
    values = training.as_dictionary()
    batch_tokens = min(training.max_batch_tokens, BATCH_TOKENS)
    is_parser = config.linearisation is not None
    return {
        **Training().as_dictionary(),
        **{key: values[key] for key in INHERITED},
        **DEFAULTS,
        "validate_by": values["validate_by"] if section else "f1" if is_parser else "bleu",
        "batch_tokens": batch_tokens,
        "micro_batches": values["micro_batches"] if batch_tokens == training.max_batch_tokens else "auto",
        "schedule": Constant(peak=_gentle_rate(training, config, has_recipe=bool(section))).as_dictionary(),
    }


def _gentle_rate(training: Training, config: Config, *, has_recipe: bool) -> float:
    """Returns the rate of a fine-tuning, in two digits.

    That is a tenth of the rate at the last step of the model's weights; of a model that was fine-tuned its own rate.
    Of a schedule that ends at zero it is a tenth of half of the peak. Without a recipe the model counts as trained with
    the defaults.
    """
    if isinstance(training.schedule, Constant):
        return training.schedule.peak
    if isinstance(training.schedule, EndingSchedule):
        return float(f"{GENTLE * training.schedule.peak / 2:.2g}")
    step = config.weights.steps[-1] if has_recipe and config.weights.steps else training.steps
    return float(f"{GENTLE * training.schedule.rate(max(step or 1, 1), config.model.d_model):.2g}")
