"""What other engines can represent: errors that name the unsupported option, and the nearest length penalties."""

from transduce.model.attention import Attention, AttentionSpec
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model_directory.model import Model
from transduce.text.token_vocabulary import tags_of

RATIO = 1.25  # (5 + 20) / 20
"""Ratio of our α to the power in other engines.

Other engines divide the log-probability of a translation by length^power; this program divides it by
((5 + length) / 6)^α. At 20 tokens both divisors grow equally fast if α = 1.25 · power.
"""


def refusal(engine: str, fault: str, remedy: str = "translate with it here, or train another") -> ValueError:
    """Builds the error for a model with a `fault` that `engine` cannot represent."""
    return ValueError(f"{engine} cannot represent this model: {fault}; {remedy}")


def check_is_transformer(model: Model, engine: str) -> Transformer:
    """Returns the settings of a translation model that has attention and feed-forward networks in all layers.

    Raises ValueError for other models, which only this program can run.
    """
    spec, fault = model.config.model, None
    if not isinstance(spec, Transformer):
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
    """Returns the settings of a Transformer whose attentions see whole sentences and do not score keys additively.

    Raises ValueError for other models.
    """
    spec = check_is_transformer(model, engine)
    if not isinstance(spec.mixer, Attention):
        raise refusal(engine, f"`model.mixer.kind` is {spec.mixer.kind}")
    for name, attention in (("mixer", spec.mixer), ("cross", spec.cross)):
        if attention.compatibility.kind == "additive":
            raise refusal(engine, f"`model.{name}.compatibility.kind` is additive")
    return spec


def check_is_untagged(model: Model, engine: str) -> None:
    """Raises ValueError if the model's sources contain tags, because other engines' tokenizers do not add tags."""
    if tags_of(model.source):
        fault = "its sources begin with tags of languages or corpora, or mark terms, and no tokenizer adds these"
        raise refusal(engine, fault, "export it with `--to ctranslate2`")


def length_penalty_of_power(power: float) -> float:
    """The α for which our length penalty is nearest to length^power."""
    return round(RATIO * power, 4)


def length_power(alpha: float) -> float:
    """The power for which length^power is nearest to our length penalty with α."""
    return round(alpha / RATIO, 4)
