"""The `training` section of a recipe."""

import math
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from transduce.corpus.batch_ramp import BatchRamp
from transduce.measure.metric_choice import MetricName, ProgramMetric
from transduce.settings import Spec
from transduce.training.muon import Muon
from transduce.training.objective import RDrop
from transduce.training.optimiser import Adam
from transduce.training.schedule import EndingSchedule, Paper, ScheduleSpec

BatchTokens = Annotated[
    Annotated[int, Field(ge=1), Tag("number")] | Annotated[BatchRamp, Tag("ramp")],
    Discriminator(lambda value: "ramp" if isinstance(value, dict | BatchRamp) else "number"),
]

ValidateBy = Annotated[
    Annotated[MetricName | Literal["f1", "loss"], Tag("name")] | Annotated[ProgramMetric, Tag("program")],
    Discriminator(lambda value: "program" if isinstance(value, dict | ProgramMetric) else "name"),
]

OptimiserSpec = Annotated[Adam | Muon, Field(discriminator="kind")]


class Training(Spec):
    """Settings of the training loop; the defaults are the paper's (section 5)."""

    steps: int | None = Field(default=100_000, ge=1, description="Updates of the weights.")
    epochs: int | None = Field(
        default=None, ge=1, description="Passes over the training data, in which each pair is used `weight` times."
    )
    minutes: float | None = Field(
        default=None,
        gt=0,
        description="Time for training, validating and saving, over all starts; "
        "stops of more than 30 seconds do not count.",
    )
    patience: int | None = Field(
        default=None, ge=1, description="Stops after this many validations without a better score."
    )
    batch_tokens: BatchTokens = Field(
        default=25_000,
        description="Most source positions, and most target positions, a step of all processes; padding counts. "
        "A ramp begins with smaller steps.",
    )
    micro_batches: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="Micro-batches a step; more save memory. auto: one per 4,096 `batch_tokens`; on GPUs what fits.",
    )
    parallel: Literal["replicated", "sharded"] = Field(
        default="replicated", description="The whole model in every process, or sharded (FSDP2)."
    )
    optimiser: OptimiserSpec = Field(default=Adam(), description="Optimiser.")
    schedule: ScheduleSpec = Field(default=Paper(), description="Learning rate.")
    label_smoothing: float = Field(default=0.1, ge=0, lt=1, description="ε of label smoothing.")
    label_smoothing_over: Literal["all", "others"] = Field(
        default="all", description="ε/V for every token, or ε/(V−1) for all but the target (released code)."
    )
    regulariser: RDrop | None = Field(default=None, description="Addition to the loss.")
    clip: float | None = Field(
        default=None, gt=0, description="Largest norm of the gradient; longer ones are scaled down."
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Precision of products; weights are float32. auto: bfloat16 where the hardware multiplies it fast.",
    )
    seed: int = Field(default=1, ge=0, description="Seed of weights, data order and dropout.")
    log_every: int = Field(default=100, ge=1, description="Steps between records of the metrics log.")
    validate_every: int | None = Field(default=500, ge=1, description="Steps between validations.")
    validate_by: ValidateBy = Field(
        default="bleu",
        description="Score for model selection and `patience`: a metric of `transduce measure`, `f1` of trees, `loss`, "
        "or `{command: ...}`, a program that prints a score; of equal scores that with the lower loss is better.",
    )
    save_every: int | str = Field(default=500, description="Steps between checkpoints, or minutes such as `10 min`.")
    keep: int = Field(default=5, ge=1, description="Checkpoints that stay on disk, at least `average`.")
    average: int | None = Field(
        default=5,
        ge=1,
        description="Checkpoints whose mean is published, unless the last or best weights have a better validation; "
        "null: the best weights.",
    )

    @field_validator("save_every")
    @classmethod
    def _steps_or_minutes(cls, value: int | str) -> int | str:
        """Accepts a number of steps or a string like `10 min`; raises ValueError for anything else."""
        if isinstance(value, int) and value >= 1:
            return value
        number, _, unit = str(value).partition(" ")
        if unit != "min" or not number.replace(".", "", 1).isdecimal() or not 0 < float(number) < math.inf:
            raise ValueError('must be a number of steps, or minutes such as "10 min"')
        return value

    @model_validator(mode="after")
    def _check_patience(self) -> "Training":
        if self.patience is not None and self.validate_every is None:
            raise ValueError(
                "`patience` counts validations, and `validate_every: null` makes none: set `validate_every`, or "
                "`patience: null`"
            )
        return self

    @model_validator(mode="after")
    def _check_shards(self) -> "Training":
        if self.parallel == "sharded" and not isinstance(self.optimiser, Adam):
            raise ValueError(
                f"`optimiser: {self.optimiser.kind}` needs whole matrices, and `parallel: sharded` has parts of them: "
                "set `optimiser: {kind: adam}` or `parallel: replicated`"
            )
        return self

    @model_validator(mode="after")
    def _check_end(self) -> "Training":
        """Raises ValueError if the schedule ends but the run has no end."""
        has_no_end = self.steps is None and self.epochs is None and self.minutes is None
        if isinstance(self.schedule, EndingSchedule) and has_no_end:
            raise ValueError(
                f"`schedule: {self.schedule.kind}` reaches zero at the end of the training: set `steps`, `epochs` or "
                "`minutes`, or take `inverse_square_root`"
            )
        return self

    @property
    def max_batch_tokens(self) -> int:
        """`batch_tokens`; if it is a ramp, the number after the ramp."""
        return self.batch_tokens.end if isinstance(self.batch_tokens, BatchRamp) else self.batch_tokens

    @property
    def save_steps(self) -> int | None:
        """Steps between checkpoints; None if they are saved by time."""
        return self.save_every if isinstance(self.save_every, int) else None

    @property
    def save_seconds(self) -> float | None:
        """Seconds between checkpoints; None if they are saved by steps."""
        return None if isinstance(self.save_every, int) else 60 * float(self.save_every.split()[0])

    @property
    def checkpoints_to_keep(self) -> int:
        """Number of checkpoints that stay on disk, enough to average."""
        return max(self.keep, self.average or 1)
