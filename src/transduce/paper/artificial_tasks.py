"""Two artificial tasks, copying and agreement, that show how translation models cope with distance.

In the copying task, a sentence is its own translation. In the agreement task, the translation is the sentence followed
by a word that names the class of its first word, regardless of the words in between.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Literal

import torch

from transduce.corpus.corpus_kinds import Files
from transduce.corpus.store.token_store import SIDES
from transduce.model_directory.model import Model
from transduce.paper import system_presets
from transduce.paper.system_presets import System, read_data
from transduce.paper.trials import Budget, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.train import TrainOptions
from transduce.search.stepper import pad_rows
from transduce.settings import merged
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import wait_for_lock
from transduce.translation.batching import sentence_batches

Task = Literal["copying", "agreement"]
TASKS: tuple[Task, ...] = ("copying", "agreement")

WORDS = [first + second for first in "bdfgklmnpr" for second in "aeiou"]  # the first half belongs to the first class
CLASSES = ("one", "two")
LONGEST = 24  # words in the longest training sentence
BINS = ((1, 8), (9, 16), (17, 24), (25, 32), (33, 48))  # words; the last two bins exceed all training sentences
PAIRS, TESTED = 20_000, 100  # number of training pairs; number of test sentences of each length
STEPS = 800


SETTINGS: dict[str, Any] = read_data("artificial_tasks.yaml")

SYSTEMS = [system for system in system_presets.SYSTEMS if system.name not in ("big", "pre-norm")]
# Transformers are initialised as in the released code, because with smaller weights they do not learn to copy.
SYSTEMS = [
    system._replace(small={**system.small, "initialisation": "fused-glorot"})
    if system.small["kind"] == "transformer"
    else system
    for system in SYSTEMS
]
_BY_NAME = {system.name: system for system in SYSTEMS}
SYSTEMS += [
    _BY_NAME[variation["of"]]._replace(name=name, changes=variation["changes"])
    for name, variation in SETTINGS["variations"].items()
]


def draw_pairs(task: Task, lengths: Iterator[int], seed: int) -> Iterator[tuple[str, str]]:
    """Yields a random source sentence and its translation for each of `lengths`, which are in words."""
    random = Random(f"{task} {seed}")
    for length in lengths:
        words = random.choices(WORDS, k=length)
        sentence = " ".join(words)
        class_of_first = CLASSES[WORDS.index(words[0]) * 2 // len(WORDS)]
        yield (f"{task} {sentence}", sentence if task == "copying" else f"{sentence} {class_of_first}")


def run_sequences(names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions) -> list[TrialResult]:
    """Trains the systems in `names`, each on both tasks at once.

    Returns the recorded results of all systems that have been trained for all steps, in this call or earlier.
    """
    work.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(work):
        for name, count, seed in ((_train_name(), PAIRS, 1), ("test", 200, 2)):
            random = Random(seed)
            pairs = [
                pair
                for task in TASKS
                for pair in draw_pairs(task, (random.randint(1, LONGEST) for _ in range(count // 2)), seed)
            ]
            for side, column in zip(SIDES, zip(*pairs, strict=True), strict=True):
                path, text = work / f"{name}.{side}", "".join(f"{line}\n" for line in column)
                if not path.exists() or path.read_text("utf-8") != text:  # another process may be training on it
                    atomic_write_text(path, text)
    shared_store(_recipe(SYSTEMS[0], work), work)
    measures = {_measure_name(*key): partial(_accuracy, *key) for key in product(TASKS, BINS)}
    test = Files(source=str(work / "test.source"), target=str(work / "test.target"))
    budget, results = Budget("steps", STEPS, minutes), []
    for system in SYSTEMS:
        trial = Trial(system.name, _recipe(system, work), test, measures)
        if system.name in names:
            run_trial(trial, work, [budget], options)
        result = read_trial(trial, work, budget)
        if result is not None and result.is_complete:
            results.append(result)
    return results


def accuracy_of(result: TrialResult, task: Task, bounds: tuple[int, int]) -> float | None:
    """Returns the accuracy on sentences with a number of words within `bounds`, or None if it was not measured.

    In the agreement task, only the last word of the translation is counted.
    """
    accuracy: float | None = result.measures.get(_measure_name(task, bounds))
    return accuracy


def _measure_name(task: Task, bounds: tuple[int, int]) -> str:
    """Returns the key under which an accuracy is recorded."""
    return f"{task}, {bounds[0]} to {bounds[1]} words, {TESTED} of each length"


def _train_name() -> str:
    """Returns the name, without a suffix, of the training files.

    The name includes every number on which the content of the files depends, because recipes are compared by file
    names.
    """
    return f"train-{PAIRS}-to-{LONGEST}-of-{len(WORDS)}"


def _recipe(system: System, work: Path) -> Recipe:
    """Returns the recipe with which a system is trained on both tasks."""
    corpus = {side: str((work / f"{_train_name()}.{side}").resolve()) for side in SIDES}
    own: Values = {
        "data": {"train": corpus},
        "model": {**system.model(small=True), "dropout": 0.0},
        "training": {"schedule": {"peak": system.peak}},
    }
    return from_values(merged(SETTINGS["recipe"], own), place=system.name)


@torch.inference_mode()
def _accuracy(task: Task, bounds: tuple[int, int], model: Model, _outputs: Sequence[str]) -> float:
    """Computes the share of tokens that the model ranks first, given the preceding tokens of the reference.

    In the agreement task, only the last token is counted.
    """
    lengths = [length for length in range(bounds[0], bounds[1] + 1) for _ in range(TESTED)]
    pairs = list(draw_pairs(task, iter(lengths), 3))
    source = model.source.encode([source for source, _ in pairs])
    target = model.target.encode([target for _, target in pairs])
    module, symbols = model.module, model.config.model.symbols
    device = next(module.parameters()).device
    correct = total = 0
    for indices in sentence_batches(torch.tensor([len(tokens) + 1 for tokens in target]).numpy(), 4096):
        rows = (
            [[*source[index], symbols.end] for index in indices],
            [[symbols.begin, *target[index]] for index in indices],
            [target[index] for index in indices],
        )
        source_ids, target_in, target_out = (pad_rows(side, symbols.pad, device) for side in rows)
        states = module(source_ids, source_ids != symbols.pad, target_in).states
        best = module.readout(states).argmax(-1)[:, :-1]
        counted = target_out != symbols.pad
        if task == "agreement":
            last = counted.sum(1, keepdim=True) - 1
            counted = counted & (torch.arange(target_out.shape[1], device=device) == last)
        correct += int((best == target_out)[counted].sum())
        total += int(counted.sum())
    return correct / total
