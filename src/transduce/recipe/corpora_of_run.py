"""Finds the corpora that the recipe of a run names: test sets, validation sets, and training corpora."""

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.readers import read_byte_pairs
from transduce.model_directory.manifest import RECIPE
from transduce.recipe.recipe_values import read_yaml
from transduce.settings import validated

MAX_PAIRS = 100_000  # from all training corpora together


def _data_of(run: Path) -> DataSpec:
    return validated(DataSpec, read_yaml(run / RECIPE).get("data", {}), place=str(run / RECIPE))


def test_sets_of(run: Path) -> dict[str, CorpusSpec]:
    """Returns the test sets in the recipe of `run` by name, followed by its validation sets.

    Languages that the corpora do not name are filled in. A single validation set is named `validation`. If there are
    several, each is named `validation-` followed by its name in the metrics log.
    """
    data = _data_of(run)
    validations = {f"validation-{key}": corpus for key, corpus in data.named_validations.items()}
    if len(validations) == 1:
        validations = {"validation": data.validations[0]}
    return {name: data.with_direction(corpus) for name, corpus in {**data.test, **validations}.items()}


def named_test_set(run: Path, name: str) -> CorpusSpec:
    """Returns the test or validation set with this name, as listed by `test_sets_of`.

    Raises ValueError if there is none, or if the run has no recipe because its model was imported.
    """
    if not (run / RECIPE).exists():
        raise ValueError(
            f"{run} has no {RECIPE}, as an imported model: it names no {name!r}. Measure it with `transduce evaluate "
            "--source FILE --reference FILE`, or fine-tune it by a recipe that names one"
        )
    corpora = test_sets_of(run)
    if name not in corpora:
        raise ValueError(f"--test {name}: {run / RECIPE} names {', '.join(corpora) or 'no validation and no test set'}")
    return corpora[name]


def training_pairs(run: Path, corpus: CorpusSpec) -> Iterator[tuple[str, str]]:
    """Yields pairs from the training corpora that have the same direction as `corpus`.

    The first pairs of each corpus are taken, up to the same number from each. Pairs that are not valid UTF-8 are
    skipped. Raises ValueError or OSError if the recipe of `run` or a corpus cannot be read.
    """
    data = _data_of(run)
    direction = data.direction_of(corpus)
    corpora = [one for one in data.train if data.direction_of(one).is_same(direction)]
    for one in corpora:
        for source, target in islice(read_byte_pairs(one), MAX_PAIRS // len(corpora)):
            with contextlib.suppress(UnicodeDecodeError):  # training drops a pair that is not UTF-8
                yield source.decode(), target.decode()
