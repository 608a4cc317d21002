"""Measures what a model loses when attention heads are removed, similarly to Michel et al. (2019).

The measures are the loss, the accuracy and BLEU.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

from transduce.corpus.readers import ParallelText
from transduce.evaluation.validation import Validation
from transduce.model.attention import MultiHeadAttention
from transduce.model.cross_entropy import Smoothing
from transduce.model.transformer import TransformerModel
from transduce.model_directory.model import Model
from transduce.paper.head_roles import Head
from transduce.search.beam import Decoding

ALL = "all three"  # stands for the three parts of a model together
QUARTERS = (1, 2, 3)  # how many quarters of the heads of a part are removed together


class Removal(NamedTuple):
    """The measurements of a model from which some heads were removed."""

    part: str  # a part of the model or `ALL`; empty if no head was removed
    heads: list[Head]
    losses: tuple[float, float]  # nats per token, on the selection sentences and on the held-out sentences
    accuracy: float  # on the held-out sentences, as is BLEU
    bleu: float | None  # with greedy search; None if a single head was removed


def output_columns(model: TransformerModel) -> dict[str, list[Tensor]]:
    """Returns the output projections by part and layer, as views [d_model heads d_v] of the weights."""
    columns: dict[str, list[Tensor]] = {}
    for name, module in model.named_modules():  # for example encoder.0.mixer and decoder.3.cross
        if isinstance(module, MultiHeadAttention):
            part = "cross" if name.endswith("cross") else name.partition(".")[0]
            columns.setdefault(part, []).append(module.output.weight.detach().unflatten(1, (module.spec.heads, -1)))
    return columns


@contextmanager
def without_heads(model: TransformerModel, heads: Iterable[Head]) -> Iterator[None]:
    """Removes heads inside a `with` block, by setting the columns of the output projections that read them to 0.

    The columns are restored at the end of the block.
    """
    columns = [output_columns(model)[part][layer][:, number] for part, layer, number in heads]
    saved = [each.clone() for each in columns]
    try:
        for each in columns:
            each.zero_()
        yield
    finally:
        for each, values in zip(columns, saved, strict=True):
            each.copy_(values)


def measure_removals(model: Model, choosing: ParallelText, reporting: ParallelText) -> list[Removal]:
    """Measures the model with all heads, without each single head, and without the least useful quarters of its heads.

    Quarters are removed from each part, and from all parts at once. Heads are ranked by removing each of them alone:
    the lower the loss on `choosing` without a head, the less useful the head. The results are measured on `reporting`,
    which is held out.
    """
    module = model.module
    assert isinstance(module, TransformerModel)
    sides = model.source, model.target, Decoding(beam=1), Smoothing(epsilon=0.0)

    def measure(part: str, heads: list[Head], translate: bool = True) -> Removal:
        with without_heads(module, heads):
            chosen = Validation(choosing, *sides)(module, translate=False)
            reported = Validation(reporting, *sides)(module, translate=translate)
        bleu = reported.score.score if reported.score else None
        return Removal(part, heads, (chosen.loss, reported.loss), reported.accuracy, bleu)

    removals, least_useful = [measure("", [])], dict[str, list[Head]]()
    for part, layers in output_columns(module).items():
        heads = [Head(part, layer, number) for layer, each in enumerate(layers) for number in range(each.shape[1])]
        single = [measure(part, [head], translate=False) for head in heads]
        least_useful[part] = [each.heads[0] for each in sorted(single, key=lambda each: each.losses[0])]
        removals += single
    for name in (*least_useful, ALL):
        for quarters in QUARTERS:
            ranked = [heads for part, heads in least_useful.items() if name in (part, ALL)]
            removals.append(measure(name, [head for heads in ranked for head in heads[: len(heads) * quarters // 4]]))
    return removals
