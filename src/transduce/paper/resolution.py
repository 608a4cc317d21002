"""Tests whether averaging reduces the resolution of attention, and whether heads counteract it (sections 2 and 3.2.2).

A single query asks for the values of several items in a memory of key-value pairs. The total width of the heads is
constant, so that the number of heads changes neither the number of parameters nor the amount of arithmetic.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Attention
from transduce.paper.counting import count_operations
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.finished_runs import Record, add_record, one_of, read_records, recorded_seeds
from transduce.paper.printing import STYLES, confidence_interval, panels, render_page
from transduce.paper.provenance import describe_machine, program_version
from transduce.runtime.device import choose_device, describe_environment
from transduce.storage.locks import LockHeldError, exclusive_lock

_log = logging.getLogger("transduce")

ITEMS, HEADS = (1, 2, 4), (1, 2, 4, 8)
ROWS = {f"items-{items}-heads-{heads}": (items, heads) for items in ITEMS for heads in HEADS}
D_MODEL, D_FF, KEYS, VALUES, MEMORY = 64, 256, 32, 16, 12
BATCH, RATE, TESTED = 64, 1e-3, 2000
STEPS = (2000, 6000)  # numbers of steps after which the recall of a run is measured
LEAST = 0.05  # a difference of recall that is smaller than this counts as none


class ItemRecall(NamedTuple):
    """The recorded result of a row with one seed."""

    row: Annotated[str, one_of(ROWS)]
    seed: int
    recalls: list[float]  # share of right values, after each number of `STEPS`
    entropy: float  # of the attention weights after the last step, in bits, averaged over heads
    parameters: int
    multiply_adds: int  # of a forward pass over one memory
    made_by: str  # program and machine


class Effect(NamedTuple):
    """The differences of recall that the paper predicts to be positive when a query asks for several items.

    `items` is the number of items. Each list has one difference per seed.
    """

    items: int
    steps: int
    fall: list[float]  # recall of one item minus recall of `items`, both with one head
    gain: list[float]  # recall with the most heads minus recall with one head, both of `items`

    @property
    def verdict(self) -> str:
        """`holds` if the intervals of both differences are above `LEAST`, `fails` if one is below, otherwise `open`."""
        intervals = [confidence_interval(differences) for differences in (self.fall, self.gain)]
        if any(mean + (math.inf if half is None else half) < LEAST for mean, half in intervals):
            return "fails"
        return (
            "holds" if all(mean - (math.inf if half is None else half) > LEAST for mean, half in intervals) else "open"
        )


class Questions(NamedTuple):
    """A batch of memories, with the items that each query asks for."""

    keys: Tensor  # [rows, MEMORY], all different within a row
    values: Tensor  # [rows, MEMORY]
    asked: Tensor  # [rows, items], the keys that the query asks for
    answers: Tensor  # [rows, items], the values of these keys


class ItemRecaller(nn.Module):
    """Predicts the values of the keys that a query asks for.

    The model consists of one attention layer with a residual connection, followed by two linear layers.
    """

    def __init__(self, items: int, heads: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(KEYS, D_MODEL), nn.Embedding(VALUES, D_MODEL)
        self.asked = nn.Embedding(items * KEYS, D_MODEL)  # a key has a different vector in each place of the query
        self.attention = Attention(heads=heads, d_k=D_MODEL // heads, d_v=D_MODEL // heads).build(D_MODEL)
        self.norm = nn.LayerNorm(D_MODEL)
        self.readout = nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.Linear(D_FF, items * VALUES))

    def embed(self, questions: Questions) -> tuple[Tensor, Tensor]:
        """Returns the query [rows, 1, d_model] and the memory [rows, MEMORY, d_model]."""
        offsets = KEYS * torch.arange(questions.asked.shape[1], device=questions.asked.device)
        query = self.asked(questions.asked + offsets).sum(1, keepdim=True)
        return query, self.keys(questions.keys) + self.values(questions.values)

    def forward(self, questions: Questions) -> Tensor:
        """Returns a score for every possible value of each requested item [rows, items, values]."""
        query, memory = self.embed(questions)
        state = self.norm(query + self.attention(query, self.attention.project_key_value(memory)))
        scores: Tensor = self.readout(state).unflatten(-1, (-1, VALUES))
        return scores[:, 0]

    def entropy(self, questions: Questions) -> float:
        """Returns the mean entropy of the attention weights, in bits."""
        weights = self.attention.weights(*self.embed(questions))
        return float(torch.special.entr(weights).sum(-1).mean()) / math.log(2)


def run_resolution(options: ExperimentOptions) -> tuple[str, list[ItemRecall]]:
    """Trains the selected rows with several seeds, and returns the recorded results of all rows.

    The description of the corpus, which is returned first, is empty because this experiment has no corpus.
    """
    work, device = options.work, choose_device(options.training.device)
    for name in options.select_rows(list(ROWS)):
        began, missing = time.monotonic(), []
        try:
            with exclusive_lock(work / name, "experiment"):
                missing = [seed for seed in range(1, options.seeds + 1) if _read_result(work, name, seed) is None]
                for seed in missing:
                    result = train_and_test(name, seed, device)
                    add_record(work, Record(f"{name}-{seed}", _settings(name, seed), result._asdict()))
        except LockHeldError:
            _log.info(f"{name}: another process trains it; run this command again when that process has ended")
        if missing:
            _log.info(f"{name}: {time.monotonic() - began:.0f} s")
    results = (_read_result(work, name, seed) for name in ROWS for seed in recorded_seeds(work, name))
    return "", [result for result in results if result is not None]


def _read_result(work: Path, name: str, seed: int) -> ItemRecall | None:
    """Returns the result that was recorded with the current settings, or None if there is none."""
    settings = _settings(name, seed)
    same = (record for record in read_records(work, f"{name}-{seed}") if record.recipe == settings)
    return next((result for record in same if (result := record.parse(ItemRecall))), None)


def _settings(name: str, seed: int) -> dict[str, object]:
    """Returns all settings on which a result depends, as they are recorded."""
    items, heads = ROWS[name]
    sizes = {"items": items, "heads": heads, "d_model": D_MODEL, "d_ff": D_FF, "memory": MEMORY}
    task = {"keys": KEYS, "values": VALUES, "batch": BATCH, "rate": RATE, "steps": list(STEPS), "tested": TESTED}
    return {**sizes, **task, "seed": seed}


def train_and_test(name: str, seed: int, device: torch.device) -> ItemRecall:
    """Trains the model of a row and measures its recall after each number of `STEPS`, on new memories."""
    items, heads = ROWS[name]
    torch.manual_seed(seed)
    model, generator = ItemRecaller(items, heads).to(device), torch.Generator().manual_seed(seed)
    optimiser, recalls = torch.optim.Adam(model.parameters(), lr=RATE, fused=True), []
    for step in range(1, max(STEPS) + 1):
        questions = draw_questions(BATCH, items, generator, device)
        optimiser.zero_grad()
        functional.cross_entropy(model(questions).flatten(0, 1), questions.answers.flatten()).backward()
        optimiser.step()
        if step in STEPS:
            with torch.inference_mode():
                questions = draw_questions(TESTED, items, generator, device)
                recalls.append(float((model(questions).argmax(-1) == questions.answers).double().mean()))
    with torch.inference_mode():
        one = draw_questions(1, items, generator, device)
        return ItemRecall(
            name,
            seed,
            recalls,
            model.entropy(questions),
            sum(parameter.numel() for parameter in model.parameters()),
            count_operations(lambda: model(one)) // 2,
            f"{program_version()}, {describe_machine(describe_environment(device))}",
        )


def draw_questions(rows: int, items: int, generator: torch.Generator, device: torch.device) -> Questions:
    """Draws memories and, for each of them, `items` different items that the query asks for."""
    keys = torch.rand(rows, KEYS, generator=generator).argsort(1)[:, :MEMORY]
    values = torch.randint(VALUES, (rows, MEMORY), generator=generator)
    places = torch.rand(rows, MEMORY, generator=generator).argsort(1)[:, :items]
    drawn = (keys, values, keys.gather(1, places), values.gather(1, places))
    return Questions(*(each.to(device) for each in drawn))


@cache
def evenly_averaged(items: int) -> float:
    """Returns the best possible recall if one head attends equally to all items that the query asks for.

    Such a head yields only the sum of their values, which does not reveal which value belongs to which item. The best
    guess for every item is then the most frequent value.
    """
    return fmean(Counter(drawn).most_common(1)[0][1] / items for drawn in product(range(VALUES), repeat=items))


def measure_effects(results: Sequence[ItemRecall]) -> list[Effect]:
    """Returns the effects for each number of steps and each number of items.

    A seed is left out if it lacks one of the rows that are compared.
    """
    recalls = {(*ROWS[result.row], result.seed): result.recalls for result in results}
    effects = []
    for (index, steps), items in product(enumerate(STEPS), ITEMS[1:]):
        rows = [(1, 1), (items, 1), (items, HEADS[-1])]
        seeds = [
            seed for seed in sorted({result.seed for result in results}) if all((*row, seed) in recalls for row in rows)
        ]
        of_seeds = [[recalls[*row, seed][index] for row in rows] for seed in seeds]
        fall, gain = [one - several for one, several, _ in of_seeds], [most - one for _, one, most in of_seeds]
        if seeds:
            effects.append(Effect(items, steps, fall, gain))
    return effects


def as_text(results: Sequence[ItemRecall]) -> str:
    """Renders the paper's sentence with its verdict, and the tables on which the verdict is based."""
    rows = {name: [result for result in results if result.row == name] for name in ROWS}
    return render_page(
        "resolution.md.jinja",
        rows={ROWS[name]: of_row for name, of_row in rows.items() if of_row},
        effects=measure_effects(results),
        makers=sorted(Counter(result.made_by for result in results).items()),
        interval=confidence_interval,
        evenly_averaged=evenly_averaged,
        steps=STEPS,
        items=ITEMS,
        heads=HEADS,
        least=LEAST,
        settings=_settings(next(iter(ROWS)), 1),
    )


def draw(results: Sequence[ItemRecall], path: Path) -> None:
    """Plots recall against the number of heads.

    There is a panel for each number of steps and a line for each number of items.
    """
    titles = [f"recall after {steps:,} steps (dotted: even averaging)" for steps in STEPS]
    with panels(path, titles, columns=2, share_y=True) as axes:
        for (index, panel), (number, items) in product(enumerate(axes), enumerate(ITEMS)):
            by_heads = {heads: [r.recalls[index] for r in results if ROWS[r.row] == (items, heads)] for heads in HEADS}
            intervals = {heads: confidence_interval(recalls) for heads, recalls in by_heads.items() if recalls}
            means, errors = [mean for mean, _ in intervals.values()], [half or 0.0 for _, half in intervals.values()]
            label = f"{items} item{'s at once' if items > 1 else ''}"
            panel.errorbar(list(intervals), means, yerr=errors, fmt=STYLES[number], capsize=3, label=label)
            panel.axhline(evenly_averaged(items), color=f"C{number}", linestyle=":", linewidth=1)
        for panel in axes:
            panel.set(xscale="log", xlabel="heads", xticks=HEADS, xticklabels=HEADS, ylim=(0, 1.06))
            panel.minorticks_off()
        axes[-1].legend(frameon=False, loc="lower right")
