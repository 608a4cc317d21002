"""Functions that build the components of a run from its recipe: optimiser, batch planner and validation."""

import math

import torch

from transduce.corpus.learned_subwords import tag_ids
from transduce.corpus.planner import Planner
from transduce.corpus.readers import read_parallel_text
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.evaluation.validation import JointValidation, Measure, Validation
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import TranslationModel
from transduce.model_directory.model import set_word_flags
from transduce.recipe.recipe import Recipe
from transduce.run.checkpoints import TrainingEnvironment
from transduce.runtime.device import gpu_memory, has_fast_bfloat16
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.torch_compile import compile_on_gpu
from transduce.training.memory_check import micro_batches_on_gpu
from transduce.training.muon import flat_optimiser
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Adam, Optimiser
from transduce.training.precision import Precision
from transduce.training.training_settings import Training


def build_optimiser(
    objective: TrainingObjective,
    settings: Training,
    device: torch.device,
    group: ProcessGroup,
) -> Optimiser:
    """Moves the model to the device and builds its optimiser.

    With `parallel: sharded` and several processes, only this process's shards of the model are moved to the device.
    """
    if settings.parallel == "sharded" and group.size > 1:
        assert isinstance(settings.optimiser, Adam)
        from transduce.training.sharded import ShardedAdam

        return ShardedAdam(objective, settings.optimiser, group, device)
    model = objective.model.to(device)
    if model.is_compilable:
        compile_on_gpu(model, device)
    return flat_optimiser(model, settings.optimiser, group)


def build_planner(
    prepared: PreparedCorpus,
    settings: Training,
    device: torch.device,
    model: TranslationModel,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Planner:
    """Builds the batch planner; all processes of `group` must call this function together.

    If `micro_batches` is "auto", micro-batches on a GPU are as large as its memory allows, because small ones leave the
    GPU idle. On a CPU they are small enough to stay in the cache. On a GPU, padded lengths are multiples of 8, as
    compiled attention requires.
    """
    micro_batches = settings.micro_batches
    if micro_batches == "auto" and device.type == "cuda":
        precision, length = Precision(settings.precision, device).name, prepared.train.max_length + 1
        estimate = micro_batches_on_gpu(model, settings, precision, gpu_memory(device), length, group.size)
        micro_batches = int(*group.all_reduce_max(estimate))  # the process whose GPU is the smallest needs the most
    return Planner(
        prepared.train,
        batch_tokens=settings.batch_tokens,
        micro_batches=micro_batches,
        seed=settings.seed,
        length_multiple=8 if device.type == "cuda" else 1,
        max_positions=model.max_positions,
    )


def check_micro_batches(micro_batches: int, processes: int, *, is_resumed: bool) -> None:
    """Raises ValueError if a step has fewer micro-batches than the run has processes.

    If the run `is_resumed`, the message also mentions --accept-changes, which is required to change the setting.
    """
    if micro_batches < processes:
        accepted = " and add --accept-changes" if is_resumed else ""
        raise ValueError(
            f"a step has {micro_batches} micro-batches for {processes} processes: set training.micro_batches: "
            f"{processes} (or more){accepted}, or start fewer processes"
        )


def build_validation(
    recipe: Recipe,
    prepared: PreparedCorpus,
    model: TranslationModel,
    smoothing: Smoothing,
    group: ProcessGroup,
    measure: Measure,
) -> Validation | JointValidation | None:
    """Builds the validation that the recipe describes, and checks that it works with `model`.

    Returns None if the recipe names no validation corpus.
    """
    data, settings = recipe.data, recipe.training
    metric = "bleu" if measure == "f1" or measure == "loss" else measure
    validations = {
        name: Validation(
            read_parallel_text(corpus),
            prepared.source,
            prepared.target,
            recipe.decoding,
            smoothing,
            group,
            data.direction_of(corpus).target,
            data.tree_linearisation,
            source_tags=tag_ids(data, corpus, prepared.source),
            metric=metric,
        )
        for name, corpus in data.named_validations.items()
    }
    if not validations:
        return None
    validation = next(iter(validations.values())) if len(validations) == 1 else JointValidation(validations)
    validation.check(model, will_translate=settings.validate_every is not None or settings.average is not None)
    return validation


def describe_start(
    model: TranslationModel, prepared: PreparedCorpus, planner: Planner, environment: TrainingEnvironment
) -> str:
    """Returns one line of text with the size of the model, the device, the precision and the amount of data."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    device, precision = (environment.environment[name] for name in ("device", "precision"))
    is_slow = precision == "bfloat16" and not has_fast_bfloat16(next(model.parameters()).device)
    warning = ", which is slower here than float32" if is_slow else ""
    return (
        f"{parameters:,} parameters on {device} in {precision}{warning}; "
        f"{len(prepared.train):,} pairs, {planner.tokens_per_epoch:,} target tokens and "
        f"{planner.steps_per_epoch:,} steps an epoch, {len(planner.shapes)} shapes, {planner.padding:.1%} padding"
    )


def gather_model(
    model: TranslationModel, prepared: PreparedCorpus, optimiser: Optimiser, group: ProcessGroup
) -> TranslationModel:
    """Returns the model to validate.

    This is the model being trained or, if its weights are sharded, an unsharded copy, which every process builds.
    Raises RuntimeError on all processes if any of them runs out of memory.
    """
    if not optimiser.lockstep:
        return model
    weights = optimiser.weights()

    def build() -> TranslationModel:
        whole: TranslationModel = model.spec.build(model.vocabulary)
        set_word_flags(whole, prepared.source, prepared.target)
        with torch.no_grad():
            for name, parameter in whole.named_parameters():
                parameter.copy_(weights[name])
        return whole.to(next(model.parameters()).device)

    return group.on_every_rank(build)


def count_steps(settings: Training, planner: Planner) -> int | None:
    """Returns the number of steps after which `steps` or `epochs` ends the run, or None if neither is set.

    The number is an estimate if `epochs` determines it.
    """
    of_epochs = None if settings.epochs is None else settings.epochs * planner.steps_per_epoch
    if of_epochs is not None and planner.ramp is not None:
        of_epochs = math.ceil(planner.ramp.steps_after(0, of_epochs))
    return min((steps for steps in (settings.steps, of_epochs) if steps is not None), default=None)
