"""The settings in the `training` section of a recipe."""

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
    """Settings of the training loop. The defaults are those of the paper (section 5)."""

    steps: int | None = Field(default=100_000, ge=1, description="Maximum number of training steps (weight updates).")
    epochs: int | None = Field(default=None, ge=1, description="Maximum number of passes over the training data.")
    minutes: float | None = Field(
        default=None,
        gt=0,
        description="Maximum time in minutes for training, validating and saving, summed over all starts; pauses of "
        "more than 30 seconds do not count.",
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="Number of consecutive validations without a better score after which training stops.",
    )
    batch_tokens: BatchTokens = Field(
        default=25_000,
        description="Maximum number of tokens per side in a step, including padding, summed over all processes. A "
        "ramp begins with smaller steps.",
    )
    micro_batches: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="Number of micro-batches per step (gradient accumulation); more of them need less memory. `auto`: "
        "one per 4,096 `batch_tokens`, on GPUs as few as fit.",
    )
    parallel: Literal["replicated", "sharded"] = Field(
        default="replicated", description="Whether each process holds the whole model, or a shard of it (FSDP2)."
    )
    optimiser: OptimiserSpec = Field(default=Adam(), description="Optimisation algorithm.")
    schedule: ScheduleSpec = Field(default=Paper(), description="Learning rate schedule.")
    label_smoothing: float = Field(
        default=0.1, ge=0, lt=1, description="Amount of label smoothing, ε; 0 means no smoothing."
    )
    label_smoothing_over: Literal["all", "others"] = Field(
        default="all",
        description="Tokens over which ε is spread: all V tokens of the vocabulary, or the V−1 `others` than the "
        "target (released code).",
    )
    regulariser: RDrop | None = Field(default=None, description="Regularisation term added to the loss.")
    clip: float | None = Field(
        default=None, gt=0, description="Maximum norm of the gradient; larger gradients are scaled down to it."
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Precision of matrix multiplications; weights stay in float32. `auto`: bfloat16 on hardware that "
        "is fast at it, float32 elsewhere.",
    )
    seed: int = Field(default=1, ge=0, description="Random seed for initial weights, data order and dropout.")
    log_every: int = Field(default=100, ge=1, description="Number of steps between records in the metrics log.")
    validate_every: int | None = Field(default=500, ge=1, description="Number of steps between validations.")
    validate_by: ValidateBy = Field(
        default="bleu",
        description="Score that selects the weights and that `patience` watches: a metric of `transduce measure`, "
        "`f1` for trees, `loss`, or a program. If scores are equal, the lower loss wins.",
    )
    save_every: int | str = Field(
        default=500, description="Number of steps between checkpoints, or a time, such as `10 min`."
    )
    keep: int = Field(default=5, ge=1, description="Number of checkpoints kept on disk, at least `average`.")
    average: int | None = Field(
        default=5,
        ge=1,
        description="Number of last checkpoints whose average is published at the end, unless the last or best "
        "weights validate better; null publishes the best weights.",
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
        """Raises ValueError if the schedule decays to zero at the end of the run, but no setting ends the run."""
        has_no_end = self.steps is None and self.epochs is None and self.minutes is None
        if isinstance(self.schedule, EndingSchedule) and has_no_end:
            raise ValueError(
                f"`schedule: {self.schedule.kind}` reaches zero at the end of the training: set `steps`, `epochs` or "
                "`minutes`, or take `inverse_square_root`"
            )
        return self

    @property
    def max_batch_tokens(self) -> int:
        """The number of tokens in `batch_tokens` or, if that is a ramp, the number after the ramp."""
        return self.batch_tokens.end if isinstance(self.batch_tokens, BatchRamp) else self.batch_tokens

    @property
    def save_steps(self) -> int | None:
        """The number of steps between checkpoints, or None if they are saved at time intervals."""
        return self.save_every if isinstance(self.save_every, int) else None

    @property
    def save_seconds(self) -> float | None:
        """The number of seconds between checkpoints, or None if they are saved at step intervals."""
        return None if isinstance(self.save_every, int) else 60 * float(self.save_every.split()[0])

    @property
    def checkpoints_to_keep(self) -> int:
        """The number of checkpoints that are kept on disk, which is at least the number to average."""
        return max(self.keep, self.average or 1)
