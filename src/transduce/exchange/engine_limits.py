"""Checks whether other engines can represent a model, and converts between our length penalty and theirs."""

from transduce.model.attention import Attention, AttentionSpec
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model_directory.model import Model
from transduce.text.token_vocabulary import tags_of

RATIO = 1.25  # (5 + 20) / 20
"""The ratio of the α of our length penalty to the exponent in other engines.

Other engines divide the log-probability of a translation by length^power, while this program divides it by
((5 + length) / 6)^α. If α = 1.25 · power, both divisors grow at the same relative rate at a length of 20 tokens.
"""


def refusal(engine: str, fault: str, remedy: str = "translate with it here, or train another") -> ValueError:
    """Returns the error to raise for a model that `engine` cannot represent because of `fault`."""
    return ValueError(f"{engine} cannot represent this model: {fault}; {remedy}")


def check_is_transformer(model: Model, engine: str) -> Transformer:
    """Returns the settings of a translation model that has attention and feed-forward networks in all layers.

    Raises ValueError for any other model, because only this program can run it.
    """
    spec, fault = model.config.model, None
    if not isinstance(spec, Transformer) or spec.kind != "transformer":
        raise refusal(engine, f"`model.kind` is {spec.kind}")
    if model.config.linearisation is not None:
        fault = "it is a parser, whose search is constrained to trees"
    elif not isinstance(spec.mixer, AttentionSpec):
        fault = f"`model.mixer.kind` is {spec.mixer.kind}"
    elif not isinstance(spec.feed_forward, FeedForward):
        fault = f"`model.feed_forward.kind` is {spec.feed_forward.kind}"
    if fault is not None:
        raise refusal(engine, fault)
    return spec


def check_products(model: Model, engine: str) -> Transformer:
    """Returns the settings of a Transformer whose attention covers the whole sentence and is not additive.

    Raises ValueError for any other model, for example one with local attention.
    """
    spec = check_is_transformer(model, engine)
    if not isinstance(spec.mixer, Attention):
        raise refusal(engine, f"`model.mixer.kind` is {spec.mixer.kind}")
    for name, attention in (("mixer", spec.mixer), ("cross", spec.cross)):
        if attention.compatibility.kind == "additive":
            raise refusal(engine, f"`model.{name}.compatibility.kind` is additive")
    return spec


def check_is_untagged(model: Model, engine: str) -> None:
    """Raises ValueError if the sources of the model contain tags, because the tokenizers of other engines add none."""
    if tags_of(model.source):
        fault = "its sources begin with tags of languages or corpora, or mark terms, and no tokenizer adds these"
        raise refusal(engine, fault, "export it with `--to ctranslate2`")


def length_penalty_of_power(power: float) -> float:
    """Returns the α for which our length penalty is closest to length^power."""
    return round(RATIO * power, 4)


def length_power(alpha: float) -> float:
    """Returns the power for which length^power is closest to our length penalty with `alpha`."""
    return round(alpha / RATIO, 4)
