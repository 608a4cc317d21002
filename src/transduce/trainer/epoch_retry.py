"""Waiting until the sentences of an epoch can be written."""

import time
from collections.abc import Sequence

from transduce.corpus import EpochWriteError
from transduce.trainer.metrics_log import MetricsLog

__all__ = ["wait_to_retry"]

RETRY_SECONDS = 60.0


def wait_to_retry(step: int, error: EpochWriteError, log: MetricsLog, signals: Sequence[int]) -> None:
    """Logs after `step` that the next epoch could not be written; returns after a minute, or when a signal arrives."""
    log.log_event(step, f"could not write the next epoch: {error}; trying again in {RETRY_SECONDS:.0f} seconds")
    end = time.monotonic() + RETRY_SECONDS
    while not signals and time.monotonic() < end:
        time.sleep(0.1)
