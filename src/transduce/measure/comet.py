"""COMET, a neural metric that works with a reference (Rei et al. 2020) or without one (Rei et al. 2022).

The metric is computed by unbabel-comet, which must be installed separately (the extra `comet`) because it needs NumPy
1.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.measure.bootstrap import INTERVAL, check_resamples, p_value, resample
from transduce.measure.scoring import Comparison, Difference, Score
from transduce.runtime.extras import install_command

COMET_MODELS = {"comet": "Unbabel/wmt22-comet-da", "comet-qe": "Unbabel/wmt22-cometkiwi-da"}  # by metric
SENTENCES_AT_ONCE = 16


class Comet(NamedTuple):
    """A loaded COMET model."""

    model: Any
    signature: str
    gpus: int

    def sentence_scores(
        self, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str] | None
    ) -> NDArray[np.float64]:
        """Returns the model's score for each sentence, multiplied by 100.

        `references` must be None for a model that does not use references.
        """
        samples = [{"src": source, "mt": output} for source, output in zip(sources, outputs, strict=True)]
        if references is not None:
            samples = [{**sample, "ref": line} for sample, line in zip(samples, references, strict=True)]
        result = self.model.predict(samples, batch_size=SENTENCES_AT_ONCE, gpus=self.gpus, progress_bar=False)
        return 100 * np.array(result.scores, dtype=np.float64)


def load_comet(metric: str, model: str | None = None, gpus: int = 0) -> Comet:
    """Loads the model of a metric, which is either `comet` or `comet-qe`.

    `model` is the name of a model on the Hugging Face Hub or the path of a checkpoint file; by default, the metric's
    model in `COMET_MODELS` is loaded. `gpus` is 0 to run the model on the CPU and 1 to run it on a GPU.

    Raises ValueError if the library or the model is missing, if the checkpoint contains more than weights and settings,
    or if the model needs references and the metric does not use them, or vice versa.
    """
    library = _import_library(metric)
    name = model or COMET_MODELS[metric]
    try:
        path = name if Path(name).is_file() else str(library.download_model(name))
    except KeyError as error:  # the library raises it for every reason
        raise ValueError(
            f"--model {name}: there is no such file, and no such model can be downloaded ({error.args[0]}). Some "
            "models need their licence accepted on the hub, and `hf auth login`"
        ) from None
    try:
        with _weights_only():
            loaded = library.load_from_checkpoint(path)
    except UnpicklingError:
        raise ValueError(f"{path} holds more than weights and settings: nothing else is unpickled") from None
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{path} is not a checkpoint of COMET: {error}") from None
    if loaded.requires_references() != (metric == "comet"):
        other = "comet-qe" if metric == "comet" else "comet"
        needs = "needs no reference" if metric == "comet" else "needs references"
        raise ValueError(f"--model {name}: this model {needs}; use --metric {other}")
    label = Path(name).resolve().parents[1].name if Path(name).is_file() else name
    signature = f"model:{label}|scale:100|unbabel-comet:{library.__version__}"
    return Comet(loaded, signature, gpus)


def compare_by_comet(
    comet: Comet,
    systems: Sequence[Sequence[str]],
    sources: Sequence[str],
    references: Sequence[str] | None,
    bootstrap: int | None,
) -> Comparison:
    """Scores several systems and compares each of them with the first system, which is the baseline.

    `bootstrap` is the number of resamples for the confidence intervals and the paired test (Koehn 2004). It may be None
    for a single system, whose score then has no interval.

    Raises ValueError if the numbers of lines differ, if there are no lines, or if there are fewer than 2 resamples.
    """
    texts = {f"output {number}": lines for number, lines in enumerate(systems, start=1)}
    if references is not None:
        texts["the reference"] = references
    for name, lines in texts.items():
        if len(lines) != len(sources):
            raise ValueError(f"{name} has {len(lines):,} lines and the source {len(sources):,}: give line for line")
    if not sources:
        raise ValueError("the source has no lines; there is nothing to measure")
    check_resamples(bootstrap)
    rows = [comet.sentence_scores(sources, outputs, references) for outputs in systems]
    if bootstrap is None:
        return Comparison(Score(float(rows[0].mean()), comet.signature, None, None), ())
    resampled = [np.empty(bootstrap) for _ in rows]
    for places, drawn in resample(len(sources), bootstrap):
        for row, means in zip(rows, resampled, strict=True):
            means[places] = row[drawn].mean(1)
    scores = [
        Score(float(row.mean()), comet.signature, *map(float, np.quantile(means, INTERVAL)))
        for row, means in zip(rows, resampled, strict=True)
    ]
    differences = []
    for score, means in zip(scores[1:], resampled[1:], strict=True):
        delta = score.score - scores[0].score
        differences.append(Difference(score, delta, p_value(delta, means - resampled[0], len(sources))))
    return Comparison(scores[0], tuple(differences))


def _import_library(metric: str) -> Any:
    """Imports unbabel-comet; raises ValueError if it is not installed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        import comet
    except ImportError as error:
        raise ValueError(
            f"--metric {metric} needs unbabel-comet: {install_command('comet')}, in an environment of its own, "
            f"since it needs NumPy 1 and transformers 4 ({error})"
        ) from None
    finally:  # importing the library changes the logging of the whole process
        root.handlers[:] = handlers
        root.setLevel(level)
    return comet


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """Makes torch refuse to unpickle anything but tensors and plain values, even if the library would allow more."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
