"""Refusals of models that another engine cannot represent; each names the option."""

from transduce.model import Attention, FeedForward, Transformer
from transduce.model.attention import AttentionSpec
from transduce.model_directory import Model
from transduce.text.token_vocabulary import tags_of

__all__ = ["check_is_transformer", "check_is_untagged", "check_products", "refusal"]


def refusal(engine: str, fault: str, remedy: str = "translate with it here, or train another") -> ValueError:
    """Returns the error for a model with a `fault` that `engine` cannot represent."""
    return ValueError(f"{engine} cannot represent this model: {fault}; {remedy}")


def check_is_transformer(model: Model, engine: str) -> Transformer:
    """Returns the settings of a translation model with attention and feed-forward networks in all layers.

    Raises ValueError for other models, which no engine but this program has.
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
    """Returns the settings of a Transformer whose attentions see whole sentences and score keys by products."""
    spec = check_is_transformer(model, engine)
    if not isinstance(spec.mixer, Attention):
        raise refusal(engine, f"`model.mixer.kind` is {spec.mixer.kind}")
    for name, attention in (("mixer", spec.mixer), ("cross", spec.cross)):
        if attention.compatibility.kind == "additive":
            raise refusal(engine, f"`model.{name}.compatibility.kind` is additive")
    return spec


def check_is_untagged(model: Model, engine: str) -> None:
    """Raises ValueError for a model whose sources have tags, which the tokenizers of other engines do not add."""
    if tags_of(model.source):
        fault = "its sources begin with tags of languages or corpora, or mark terms, and no tokenizer adds these"
        raise refusal(engine, fault, "export it with `--to ctranslate2`")
