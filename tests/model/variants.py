"""Every variant of the model that its settings can name, found by reading the unions; no two sizes are equal."""

import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.model import Attention, FeedForward, Transformer, TransformerModel, Vocabulary
from transduce.settings import Spec, merged, validated

PAD, BEGIN = 0, 1

TEXT = Transformer(
    d_model=14,
    encoder_layers=2,
    decoder_layers=3,
    mixer=Attention(heads=3, d_k=5, d_v=6),
    cross=Attention(heads=2, d_k=4, d_v=8),
    feed_forward=FeedForward(d_ff=22),
)

# What a part of another kind needs besides its name; wide enough that every place hears of every other.
ENOUGH: dict[str, dict[str, Any]] = {
    "local_attention": {"heads": 3, "d_k": 5, "d_v": 6, "neighbours": 8},
    "convolution": {"kernel": 17},
    "separable_convolution": {"kernel": 17},
    "experts": {"expert": {"kind": "feed_forward", "d_ff": 22}, "number": 3},
}


def whole(member: type[Spec]) -> dict[str, Any]:
    """The kind of a member of a union, with what it needs."""
    kind = member.model_fields["kind"].default
    return {"kind": kind, **ENOUGH.get(kind, {})}


def changes(spec: type[Spec]) -> Iterator[dict[str, Any]]:
    """Each way to change one choice below `spec`: another literal, another member of a union, a switch."""
    for name, field in spec.model_fields.items():
        for value in alternatives(field.annotation):
            yield {name: value}


def alternatives(annotation: Any) -> Iterator[Any]:
    """The values that an annotation offers, as far as it enumerates them."""
    members = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        yield from members if len(members) > 1 else ()
    elif annotation is bool:
        yield True
    elif members:
        for member in members:
            yield whole(member)
            yield from alternatives(member)
    elif issubclass(annotation, Spec):
        begun = whole(annotation) if "kind" in annotation.model_fields else {}
        yield from (merged(begun, change) for change in changes(annotation))


def name_of(change: Any) -> str:
    """What a change says, for a test's name."""
    if not isinstance(change, dict):
        return str(change).lower()
    needed = ENOUGH.get(change.get("kind", ""), {})
    differing = {key: value for key, value in change.items() if needed.get(key) != value}
    parts = [
        f"{key}-{name_of(value)}" for key, value in differing.items() if key != "kind" or needed or len(change) == 1
    ]
    return "-".join(parts).replace("kind-", "")


def every_variant() -> dict[str, Transformer]:
    """The text's model, each change of it alone, and all changes of them at once, the last of each kind."""
    found, everything = {"text": TEXT}, TEXT.as_dictionary()
    for change in changes(Transformer):
        variant = validated(Transformer, merged(TEXT.as_dictionary(), change), place="a variant")
        if variant != TEXT:
            found[name_of(change)] = variant
            everything = merged(everything, change)
    found["everything"] = validated(Transformer, everything, place="a variant")
    return found


VARIANTS = every_variant()


class Batch(NamedTuple):
    """Sentences of unequal lengths, both sides; the visible ones are first."""

    source: Tensor
    visible: Tensor
    target_in: Tensor


def build(spec: Transformer, source: int | None = None) -> TransformerModel:
    """The model in float64, for reading; its weights are spread so that words and positions matter."""
    torch.manual_seed(1)
    source = source or (17 if spec.embeddings == "shared" else 19)
    model = spec.build(Vocabulary(source=source, target=17)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model


def batch(seed: int = 2) -> Batch:
    """Four sentences of 7, 3, 5 and 1 words and targets of 9, padded."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 17, (4, 7), generator=generator)
    visible = torch.arange(7) < torch.tensor([7, 3, 5, 1]).unsqueeze(1)
    target_in = torch.randint(3, 17, (4, 9), generator=generator)
    target_in[:, 0] = BEGIN
    return Batch(source.masked_fill(~visible, PAD), visible, target_in)
