"""Two tasks made of nothing but distance, for models that translate: copying, and an agreement of first and last.

A line of copying is its own translation. In agreement the last word of the translation says of which kind the first
word is, whatever stands between them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import torch

from transduce.corpus import Files
from transduce.corpus.token_store import SIDES
from transduce.model_directory import Model
from transduce.paper.systems import SYSTEMS, System
from transduce.paper.trials import Budget, Say, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe import Recipe, from_values
from transduce.recipe.presets import Values
from transduce.search import pad_rows
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import wait_for_lock
from transduce.trainer.train import TrainOptions
from transduce.translation.batching import sentence_batches

Task = Literal["copying", "agreement"]
TASKS: tuple[Task, ...] = ("copying", "agreement")

WORDS = [first + second for first in "bdfgklmnpr" for second in "aeiou"]  # of which the first half is of one kind
KINDS = ("one", "two")
LONGEST = 24  # words, in training
BINS = ((1, 8), (9, 16), (17, 24), (25, 32), (33, 48))  # the last two are longer than any in training
PAIRS, TESTED = 20_000, 100  # for training; for testing, a length
BUDGET = "steps"
STEPS = 800


def _begun_anew(system: System) -> System:
    """With the first weights of the released code: from smaller ones copying is not learnt in these steps."""
    if system.small["kind"] != "transformer":
        return system
    return system._replace(small={**system.small, "initialisation": "fused-glorot"})


_OF_TABLE_2 = {system.name: _begun_anew(system) for system in SYSTEMS if system.name not in ("big", "pre-norm")}


def _varied(name: str, of: str, **changes: Values) -> System:
    """A system of Table 2 with another part in it."""
    return _OF_TABLE_2[of]._replace(name=name, changes=changes)


FAMILIES = [
    *_OF_TABLE_2.values(),
    _varied("tanh", "rnnsearch", cell={"kind": "plain"}),
    _varied("neighbours", "base", mixer={"kind": "local_attention", "heads": 4, "d_k": 32, "d_v": 32, "neighbours": 4}),
    _varied("convolutions", "base", mixer={"kind": "convolution", "kernel": 5}),
    _varied("separable", "base", mixer={"kind": "separable_convolution", "kernel": 5}),
]


class SequenceAccuracy(NamedTuple):
    """How often a family was right at lengths of one bin: of all words copied, or of the last."""

    family: str
    task: Task
    shortest: int
    longest: int
    accuracy: float
    by: TrialResult


def lines(task: Task, lengths: Iterator[int], seed: int) -> Iterator[tuple[str, str]]:
    """A source and its translation for each length."""
    random = Random(f"{task} {seed}")
    for length in lengths:
        words = random.choices(WORDS, k=length)
        said = " ".join(words)
        kind = KINDS[WORDS.index(words[0]) * 2 // len(WORDS)]
        yield (f"{task} {said}", said if task == "copying" else f"{said} {kind}")


def sequences(
    names: list[str], minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> list[SequenceAccuracy]:
    """Trains the families named on both tasks at once, and measures all that had all their steps."""
    work.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(work):
        _write(work)
    shared_store(_recipe(FAMILIES[0], work), work, say)
    found, budget = [], Budget(BUDGET, STEPS, minutes)
    bins = {
        f"{task}, {ends[0]} to {ends[1]} words, {TESTED} of each length": (task, ends)
        for task in TASKS
        for ends in BINS
    }
    measures = {name: partial(_accuracy, *which) for name, which in bins.items()}
    test = Files(source=str(work / "test.source"), target=str(work / "test.target"))
    for family in FAMILIES:
        trial = Trial(family.name, _recipe(family, work), test, measures)
        if family.name in names:
            run_trial(trial, work, [budget], options, say)
        known = read_trial(trial, work, budget)
        if known is not None and known.reached:
            measured = {name: which for name, which in bins.items() if name in known.also}
            found += [
                SequenceAccuracy(family.name, task, *ends, known.also[name], known)
                for name, (task, ends) in measured.items()
            ]
    return found


def _write(work: Path) -> None:
    """The training pairs, and a few to look at, as files."""
    for name, count, seed in ((_train(), PAIRS, 1), ("test", 200, 2)):
        random = Random(seed)
        pairs = [
            pair
            for task in TASKS
            for pair in lines(task, (random.randint(1, LONGEST) for _ in range(count // 2)), seed)
        ]
        for side, column in zip(SIDES, zip(*pairs, strict=True), strict=True):
            path, text = work / f"{name}.{side}", "".join(f"{line}\n" for line in column)
            if not path.exists() or path.read_text("utf-8") != text:  # another process may be training on it
                atomic_write_text(path, text)


def _train() -> str:
    """What the training pairs are called: by what may change of them, since a recipe tells its files by name."""
    return f"train-{PAIRS}-to-{LONGEST}-of-{len(WORDS)}"


def _recipe(family: System, work: Path) -> Recipe:
    """A family on both tasks; every word is a subword of its own."""
    corpus = {side: str((work / f"{_train()}.{side}").resolve()) for side in SIDES}
    values: Values = {
        "data": {"train": corpus},
        "subwords": {"kind": "bpe", "size": 400},
        "model": {**family.model(small=True), "dropout": 0.0},
        "training": {
            "steps": None,
            "batch_tokens": 2048,
            "schedule": {"kind": "inverse_square_root", "warmup": 200, "peak": family.peak},
            "clip": 1.0,
            "validate_every": None,
            "save_every": 1000,
            "average": None,
        },
    }
    return from_values(values, place="a family")


@torch.inference_mode()
def _accuracy(task: Task, ends: tuple[int, int], model: Model, _outputs: Sequence[str]) -> float:
    """Of the words that matter, how many are the most probable ones, all before them given."""
    lengths = [length for length in range(ends[0], ends[1] + 1) for _ in range(TESTED)]
    pairs = list(lines(task, iter(lengths), 3))
    source = model.source.encode([source for source, _ in pairs])
    target = model.target.encode([target for _, target in pairs])
    module, symbols = model.module, model.config.model.symbols
    device = next(module.parameters()).device
    right = words = 0
    for places in sentence_batches(torch.tensor([len(each) + 1 for each in target]).numpy(), 4096):
        rows = (
            [[*source[place], symbols.end] for place in places],
            [[symbols.begin, *target[place]] for place in places],
            [target[place] for place in places],
        )
        reading, given, wanted = (pad_rows(side, symbols.pad, device) for side in rows)
        best = module.readout(module(reading, reading != symbols.pad, given).states).argmax(-1)[:, :-1]
        counts = wanted != symbols.pad
        if task == "agreement":
            counts = counts & (torch.arange(wanted.shape[1], device=device) == counts.sum(1, keepdim=True) - 1)
        right += int((best == wanted)[counts].sum())
        words += int(counts.sum())
    return right / words
