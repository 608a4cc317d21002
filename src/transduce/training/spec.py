"""The recipe's `training` section."""

import math
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from transduce.settings import Spec
from transduce.training.optimiser import Adam
from transduce.training.schedule import Paper, ScheduleSpec


class Training(Spec):
    """How long, in what batches, at what rate, and what is kept; the defaults are section 5's."""

    steps: int | None = Field(default=100_000, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    patience: int | None = Field(default=None, ge=1)
    batch_tokens: int = Field(default=25_000, ge=1)
    micro_batches: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    parallel: Literal["replicated", "sharded"] = "replicated"
    optimiser: Adam = Adam()
    schedule: ScheduleSpec = Paper()
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    label_smoothing_over: Literal["all", "others"] = "all"
    clip: float | None = Field(default=None, gt=0)
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    seed: int = Field(default=1, ge=0)
    log_every: int = Field(default=100, ge=1)
    validate_every: int | None = Field(default=500, ge=1)
    validate_by: Literal["bleu", "loss"] = "bleu"
    save_every: int | str = 500
    keep: int = Field(default=5, ge=1)
    average: int | None = Field(default=5, ge=1)

    @field_validator("save_every")
    @classmethod
    def _steps_or_minutes(cls, value: int | str) -> int | str:
        """Steps, or a text such as `10 min`."""
        if isinstance(value, int) and value >= 1:
            return value
        number, _, unit = str(value).partition(" ")
        if unit != "min" or not number.replace(".", "", 1).isdecimal() or not 0 < float(number) < math.inf:
            raise ValueError('must be a number of steps, or minutes such as "10 min"')
        return value

    @model_validator(mode="after")
    def _patience_counts_something(self) -> "Training":
        if self.patience is not None and self.validate_every is None:
            raise ValueError("`patience` counts validations, and `validate_every: null` makes none: set either")
        return self

    @property
    def save_steps(self) -> int | None:
        """Steps between checkpoints; None where they are saved by the clock."""
        return self.save_every if isinstance(self.save_every, int) else None

    @property
    def save_seconds(self) -> float | None:
        """Seconds between checkpoints; None where they are saved by steps."""
        return None if isinstance(self.save_every, int) else 60 * float(self.save_every.split()[0])

    @property
    def kept(self) -> int:
        """How many checkpoints stay on disk: enough to average."""
        return max(self.keep, self.average or 1)
