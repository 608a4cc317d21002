"""When a checkpoint is due, what it contains, and resuming from the newest."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from transduce.runtime.distributed import ProcessGroup
from transduce.storage.checksums import Checksums
from transduce.trainer.checkpoints import Checkpoint, Checkpoints
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.training_state import VERSION, SavedState, TrainingState
from transduce.training import Optimiser, Precision, StepRecord, Training

RETRY = 10  # steps after which a checkpoint that could not be written is tried again

Say = Callable[[str], None]


class TrainingEnvironment(NamedTuple):
    """What a training depends on besides its recipe; every checkpoint records it."""

    environment: dict[str, Any]  # hardware and software on which bit-identical weights depend
    fingerprint: str  # of the training data
    subwords: Checksums  # of the tokenizer files
    scored_by: list[Any]  # the measure of validations, and the checksum of their corpus

    def warning(self, before: Mapping[str, Any]) -> str | None:
        """Returns a warning where the environment differs from the one `before`, else None."""
        changed = [
            f"{name} was {before[name]} and is {value}"
            for name, value in self.environment.items()
            if name in before and before[name] != value
        ]
        if not changed:
            return None
        return f"warning: {'; '.join(changed)}: the weights will not be bit-identical to an uninterrupted training's"


class Checkpointer:
    """Saves and loads weights, optimiser and state of a training; all processes call it, rank zero has the files."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        settings: Training,
        optimiser: Optimiser,
        precision: Precision,
        group: ProcessGroup,
    ) -> None:
        self._checkpoints, self._settings, self._group = checkpoints, settings, group
        self._optimiser, self._precision = optimiser, precision
        self._retry_step: int | None = None  # the step after which a checkpoint that failed is tried again

    def is_due(self, state: TrainingState, since: float, record: StepRecord) -> bool:
        """Returns whether to save after this step, `since` seconds after the last checkpoint.

        A checkpoint that falls on a skipped step is postponed, because its weights may be diverging.
        """
        steps, seconds = self._settings.save_steps, self._settings.save_seconds
        if steps is not None:
            due = state.step % steps == 0 or state.step == self._retry_step
        else:
            due = since >= (seconds or 0) and state.step >= (self._retry_step or 0)
        if not due:
            return False
        # On a GPU the state does not count the skip of this step yet.
        if state.skips.in_a_row or (record.skipped and not record.can_lower_scale):
            self._retry_step = state.step + 1
            return False
        return True

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        environment: TrainingEnvironment,
        log: MetricsLog,
        *,
        is_due: bool,
    ) -> TrainingState:
        """Writes a checkpoint and returns the state in it; raises OSError in all processes where it cannot be written.

        `is_due` is True for checkpoints of the schedule and False for those of a stop, which are not averaged.
        """
        log.report()
        state = state._replace(skips=state.skips._replace(rollbacks=0))
        optimiser = self._optimiser.state()
        extra = {
            "version": VERSION,
            "loss_scale": [self._precision.scale, self._precision.finite_steps],
            "parameters": self._optimiser.layout.parameter_shapes(),
            "is_due": is_due,
            **environment._asdict(),
        }

        def write() -> int:
            size = log.flush()
            saved = {**extra, "training": state._replace(log_bytes=size)._asdict()}
            self._checkpoints.save(Checkpoint(state.step, dict(weights), optimiser, saved))
            return size

        size = self._group.on_rank_zero(write)
        self._retry_step = None
        return state._replace(log_bytes=size)

    def log_failure(self, step: int, error: OSError, log: MetricsLog) -> None:
        """Logs that the checkpoint of `step` could not be written, and makes it due again."""
        self._retry_step = step + RETRY
        saved_steps = self._checkpoints.steps()
        last = f"the last is of step {saved_steps[-1]}" if saved_steps else "there is none yet"
        log.log_event(step, f"could not save: {error}; {last}; trying again after step {self._retry_step}")

    def resume_place(self, state: TrainingState) -> str:
        """Returns from where a training that stops now goes on."""
        if not state.skips.in_a_row:
            return "there"
        # After skipped steps no checkpoint was written, because the weights may be diverging.
        return "its last checkpoint" if self._checkpoints.steps() else "the beginning"

    def load_newest(self, environment: TrainingEnvironment, say: Say) -> SavedState | None:
        """Loads weights and optimiser of the newest undamaged checkpoint; returns its saved state, None without one.

        Raises ValueError where the data, the subwords or the model differ from those of the checkpoint, and OSError
        where it cannot be read.
        """
        loaded: list[Checkpoint] = []

        def read() -> SavedState | None:
            checkpoint = self._checkpoints.load_newest(say)
            if checkpoint is None:
                return None
            place = str(self._checkpoints.state_path(checkpoint.step))
            saved = SavedState.parse(checkpoint.state, place=place)
            self._check_data(saved, environment)
            self._optimiser.layout.check_parameter_shapes(saved.parameters)
            self._optimiser.layout.check_weights(checkpoint.weights)
            self._optimiser.check_state(checkpoint.optimiser)
            self._checkpoints.delete_old()
            loaded.append(checkpoint)
            return saved

        saved = self._group.on_rank_zero(read)
        self._retry_step = None
        if saved is not None:
            self._optimiser.load_weights(loaded[0].weights if loaded else {})
            self._optimiser.load_state(loaded[0].optimiser if loaded else {})
        return saved

    def resume(self, environment: TrainingEnvironment, say: Say) -> TrainingState | None:
        """Loads the newest checkpoint and returns its state; None where there is none. Raises as `load_newest`."""
        saved = self.load_newest(environment, say)
        if saved is None:
            return None
        if warning := environment.warning(saved.environment):
            say(warning)
        if saved.environment.get("precision") == self._precision.name:
            self._precision.scale, self._precision.finite_steps = saved.loss_scale
        state = saved.training
        say(f"going on after step {state.step}")
        if saved.scored_by != environment.scored_by:
            if state.best is not None:
                say("validations have another measure or corpus from here on: the best score is forgotten")
            state = state._replace(best=None, best_step=None, stale=0)
        return state

    def _check_data(self, saved: SavedState, environment: TrainingEnvironment) -> None:
        """Raises ValueError where the subwords or the training data have changed."""
        if saved.fingerprint != environment.fingerprint or saved.subwords != environment.subwords:
            raise ValueError(
                f"the training data of {self._checkpoints.directory.parent} has changed since the run was begun, or it "
                "was begun with another --from; train into another directory, or begin anew with --restart (what is "
                "there is kept)"
            )
