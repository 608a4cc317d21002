"""Compiling the searches before a translation needs them."""

import torch

from transduce.model.attention import Attention
from transduce.model.cpu_stepper import cpu_stepper
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.search.beam import Decoding, beam_search
from transduce.search.stepper import SearchProblem


def compile_searches(*, int8: bool) -> None:
    """Translates with a model of 8 tokens, which compiles, or loads what is compiled, in float32 or in int8."""
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
    source, symbols = torch.tensor([[3]]), spec.symbols
    banned = symbols.pad, symbols.begin
    problem = SearchProblem(source, source > 0, torch.tensor([1]), symbols.begin, symbols.end, banned)
    with torch.inference_mode():
        beam_search(cpu_stepper(model, int8=int8), problem, Decoding(), compiled=True)
