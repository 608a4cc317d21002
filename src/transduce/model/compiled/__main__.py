"""`python -m transduce.model.compiled` compiles the searches for this processor, before a first translation does."""

from typing import Any

from transduce.model.attention import Attention
from transduce.model.cpu_stepper import cpu_stepper
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary


def compile_steppers() -> list[Any]:
    """Compiles in float32 and int8, or loads what is compiled; returns steppers of a model of 8 tokens."""
    attention = Attention(heads=1, d_k=2, d_v=2)
    spec = Transformer(
        d_model=4,
        encoder_layers=1,
        decoder_layers=1,
        mixer=attention,
        cross=attention,
        feed_forward=FeedForward(d_ff=4),
    )
    model = spec.build(Vocabulary(source=8, target=8)).eval()
    return [cpu_stepper(model, int8=int8) for int8 in (False, True)]


if __name__ == "__main__":
    compile_steppers()
