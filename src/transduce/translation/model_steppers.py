"""The stepper that searches with the models of a translator, and follows changes of their weights."""

import logging
from collections.abc import Sequence

from transduce.model import TranslationModel
from transduce.model.cpu_stepper import WeightsRecord, cpu_stepper, is_compiled
from transduce.search import Ensemble, Stepper
from transduce.search.ahead_of_time import compile_search

__all__ = ["ModelSteppers"]

_log = logging.getLogger("transduce")


class ModelSteppers:
    """Makes the stepper of a model, or of several as an ensemble, and makes it again after their weights have changed.

    Several translators with the same models share one.
    """

    def __init__(self, models: Sequence[TranslationModel], *, int8: bool) -> None:
        self._models, self._int8 = models, int8
        self.current, self._records = self._make()

    def follow_changes(self) -> None:
        """Makes the stepper again if the weights have changed since it was made."""
        if not all(record.is_current() for record in self._records):
            self.current, self._records = self._make()

    def _make(self) -> tuple[tuple[Stepper, bool], list[WeightsRecord]]:
        """Returns the stepper and whether it is compiled, and a record of each model whose weights it has packed."""
        steppers = [cpu_stepper(model, int8=self._int8, report=_log.warning) for model in self._models]
        pairs = zip(self._models, steppers, strict=True)
        records = [WeightsRecord(model) for model, stepper in pairs if stepper is not model]
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        compiled = all(map(is_compiled, steppers))
        if compiled:
            compile_search(stepper, self._models[0].spec.symbols, _log.warning)
        return (stepper, compiled), records
