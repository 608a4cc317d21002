"""Every variant of the Transformer that its settings allow, from the unions of the settings; all sizes differ."""

import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from pydantic.fields import FieldInfo
from torch import Tensor

from transduce.model.attention import Attention
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary
from transduce.settings import ByKind, Spec, merged, validated

PAD, BEGIN = 0, 1

TEXT = Transformer(
    d_model=14,
    encoder_layers=2,
    decoder_layers=3,
    mixer=Attention(heads=3, d_k=5, d_v=6),
    cross=Attention(heads=2, d_k=4, d_v=8),
    feed_forward=FeedForward(d_ff=22),
)

# Numbers that no change of a choice reaches.
NUMBERS = ({"positions": {"kind": "sinusoidal", "first": 2}},)

# Settings that a part of another kind requires, none for a readout; each reaches from every position to every other.
REQUIRED: dict[str, dict[str, Any]] = {
    "local_attention": {"heads": 3, "d_k": 5, "d_v": 6, "neighbours": 8},
    "convolution": {"kernel": 17},
    "separable_convolution": {"kernel": 17},
    "separate": {},
    "experts": {"expert": {"kind": "feed_forward", "d_ff": 22}, "number": 3},
}


def required_settings(member: type[Spec]) -> dict[str, Any]:
    """Returns the kind of a member of a union and the settings that it requires."""
    kind = member.model_fields["kind"].default
    return {"kind": kind, **REQUIRED.get(kind, {})}


def changes(spec: type[Spec]) -> Iterator[dict[str, Any]]:
    """Yields each change of one choice below `spec`: another literal, another member of a union, a bool."""
    for name, field in spec.model_fields.items():
        for value in alternatives(annotation_of(field)):
            yield {name: value}


def annotation_of(field: FieldInfo) -> Any:
    """Returns the annotation of a field; a table of kinds is the union of its classes."""
    tables = [mark for mark in field.metadata if isinstance(mark, ByKind)]
    return typing.Union[tuple(tables[0].all_classes())] if tables else field.annotation  # noqa: UP007


def alternatives(annotation: Any) -> Iterator[Any]:
    """Yields the values that an annotation enumerates."""
    members = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        yield from members if len(members) > 1 else ()
    elif annotation is bool:
        yield True
    elif members:
        for member in members:
            yield required_settings(member)
            yield from alternatives(member)
    elif issubclass(annotation, Spec):
        settings = required_settings(annotation) if "kind" in annotation.model_fields else {}
        yield from (merged(settings, change) for change in changes(annotation))


def name_of(change: Any) -> str:
    """Returns the name of a change for test ids."""
    if not isinstance(change, dict):
        return str(change).lower()
    kind = change.get("kind", "")
    needed = REQUIRED.get(kind, {})
    differing = {key: value for key, value in change.items() if needed.get(key) != value}
    parts = [
        f"{key}-{name_of(value)}"
        for key, value in differing.items()
        if key != "kind" or kind in REQUIRED or len(change) == 1
    ]
    return "-".join(parts).replace("kind-", "")


def every_variant() -> dict[str, Transformer]:
    """Returns the model of the paper's text, each change of it alone, and all changes, the last of each kind."""
    variants, everything = {"text": TEXT}, TEXT.as_dictionary()
    for change in (*changes(Transformer), *NUMBERS):
        variant = validated(Transformer, merged(TEXT.as_dictionary(), change), place="a variant")
        if variant != TEXT:
            variants[name_of(change)] = variant
            everything = merged(everything, change)
    variants["everything"] = validated(Transformer, everything, place="a variant")
    return variants


VARIANTS = every_variant()


class Batch(NamedTuple):
    """Sentences of unequal lengths; padding of the source is at the end."""

    source: Tensor
    visible: Tensor
    target_in: Tensor


def build(spec: Transformer, source: int | None = None) -> TransformerModel:
    """Returns the model in float64 and evaluation mode; noise on its weights makes tokens and positions matter."""
    torch.manual_seed(1)
    source = source or (17 if spec.embeddings == "shared" else 19)
    model = spec.build(Vocabulary(source=source, target=17)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model


def batch(seed: int = 2) -> Batch:
    """Returns four sources of 7, 3, 5 and 1 tokens, padded, and four targets of 9 tokens."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 17, (4, 7), generator=generator)
    visible = torch.arange(7) < torch.tensor([7, 3, 5, 1]).unsqueeze(1)
    target_in = torch.randint(3, 17, (4, 9), generator=generator)
    target_in[:, 0] = BEGIN
    return Batch(source.masked_fill(~visible, PAD), visible, target_in)
