"""The metrics of a training in Weights & Biases and in MLflow, whose libraries are extras."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.settings import flat

__all__ = ["MlflowTracker", "WandbTracker"]

PARAMETER_LENGTH = 250  # characters of a parameter, the least that versions of MLflow take
PARAMETERS_AT_ONCE = 100  # MLflow's limit of a request


class WandbTracker:
    """A run of Weights & Biases. The environment says where and whether: `WANDB_MODE=offline`, `WANDB_API_KEY`."""

    def __init__(self, project: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._project, self._folder, self._settings = project, folder, settings
        self._run: Any = None

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new one; returns its id."""
        import wandb

        # Without a terminal the library asks no questions: a training in the background could not answer them.
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True, init_timeout=30)
        self._run = wandb.init(
            project=self._project,
            id=run,
            name=self._folder.parent.name,
            dir=os.environ.get("WANDB_DIR", self._folder),
            config=dict(self._settings),
            resume="allow",
            settings=quiet,
        )
        identifier: str = self._run.id
        return identifier

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the values of a step; the service keeps one value of a name and a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Ends this start of the run; a later start goes on with it."""
        self._run.finish()


class MlflowTracker:
    """A run of MLflow. The environment says where: `MLFLOW_TRACKING_URI`."""

    def __init__(self, experiment: str, name: str, settings: Mapping[str, Any]) -> None:
        self._experiment, self._name, self._settings = experiment, name, settings
        self._client: Any = None
        self._run = ""
        self._may_have_values = False  # of the step that comes first: an earlier start may have sent them

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new one with the settings as parameters; returns its id."""
        from mlflow import MlflowClient

        self._client = MlflowClient()
        if run is not None:
            self._run, self._may_have_values = run, True
            self._client.set_terminated(run, "RUNNING")
            return run
        experiment = self._client.get_experiment_by_name(self._experiment)
        identifier = (
            self._client.create_experiment(self._experiment) if experiment is None else experiment.experiment_id
        )
        self._run = self._client.create_run(identifier, run_name=self._name).info.run_id
        self._log_settings()
        return self._run

    def _log_settings(self) -> None:
        from mlflow.entities import Param

        parameters = [Param(name, str(value)[:PARAMETER_LENGTH]) for name, value in flat(self._settings)]
        for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._run, params=parameters[start : start + PARAMETERS_AT_ONCE])

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the values of a step."""
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        if self._may_have_values:
            metrics = [metric for metric in metrics if not self._has(metric.key, step)]
            self._may_have_values = False
        if metrics:
            self._client.log_batch(self._run, metrics=metrics)

    def _has(self, name: str, step: int) -> bool:
        """Returns whether the run has a value of this name and step."""
        return any(metric.step == step for metric in self._client.get_metric_history(self._run, name))

    def close(self) -> None:
        """Marks the run as finished; a later start goes on with it."""
        self._client.set_terminated(self._run, "FINISHED")
