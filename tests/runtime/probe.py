"""Trains some steps, under `torchrun` or alone; rank 0 saves gradients and weights.

    python probe.py RECIPE STORE OUT STEPS MICRO_BATCHES PARALLEL [mean|draws]

`mean` plants a bug: gradients are averaged over the processes instead of added. With `draws` every process but rank 0
has drawn other weights before the training begins.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch.distributed.tensor import DTensor

from transduce.corpus.store.preparation import open_store
from transduce.recipe.recipe import load
from transduce.run.trainer import Trainer
from transduce.runtime.distributed import ProcessGroup, join_process_group
from transduce.training.loop import training_steps


class Constant(NamedTuple):
    """A constant rate."""

    value: float = 1e-3

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        return self.value


def whole(gradient):
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def local_part(parameter):
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def main(recipe: str, store: str, out: str, steps: str, micro_batches: str, parallel: str, bug: str = "") -> None:
    group, device = join_process_group(torch.device("cpu"))
    if bug == "mean":
        all_reduce = ProcessGroup.all_reduce

        def all_reduce_mean(self, *tensors):
            all_reduce(self, *tensors)
            for tensor in tensors:
                tensor.div_(self.size)

        ProcessGroup.all_reduce = all_reduce_mean
    changes = [f"training.micro_batches={micro_batches}", f"training.parallel={parallel}"]
    loaded = load(Path(recipe), [*changes, "training.batch_tokens=2048", "model.dropout=0.3"])
    training = loaded.training.model_copy(update={"schedule": Constant()})
    run = Trainer(loaded, Path(out).parent / "unused", open_store(Path(store)), device, group)
    if bug == "draws":
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.add_(group.rank)
        run._begin(None)
    names, norms, first = dict(run.model.named_parameters()), [], {}
    records = training_steps(run.objective, run.optimiser, run.planner, training, run.precision, group=group)
    for record in records:
        norms.append(record.gradient_norm)
        if record.step == 1:
            first = {name: whole(parameter.grad).clone() for name, parameter in names.items()}
        if record.step == int(steps):
            break
    weights = run.optimiser.weights()
    local_size = sum(local_part(parameter).numel() for parameter in names.values())
    if group.is_rank_zero:
        torch.save({"first": first, "norms": norms, "weights": weights, "local_size": local_size}, out)
    group.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
