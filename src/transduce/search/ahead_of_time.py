"""Compiling the searches before a translation needs them."""

from collections.abc import Callable

import torch

from transduce.model.attention import Attention
from transduce.model.cpu_stepper import cpu_stepper, is_compiled
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Symbols, Vocabulary
from transduce.search.beam import Decoding, beam_search
from transduce.search.stepper import SearchProblem, Stepper


def compile_search(stepper: Stepper, symbols: Symbols, report: Callable[[str], None]) -> None:
    """Searches for one token, so that numba compiles the search or loads it from its cache.

    `stepper` is a compiled stepper, or an ensemble of them. `report` is called with a message where numba compiles.
    """
    from transduce.model.compiled.compilation import report_compilation

    source, banned = torch.tensor([[symbols.end]]), (symbols.pad, symbols.begin)
    problem = SearchProblem(source, source >= 0, torch.tensor([1]), symbols.begin, symbols.end, banned)
    with report_compilation(report), torch.inference_mode():
        beam_search(stepper, problem, Decoding(), compiled=True)


def compile_searches(*, int8: bool) -> None:
    """Compiles, or loads what is compiled, in float32 or in int8, with a model of 8 tokens."""
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
    stepper = cpu_stepper(model, int8=int8)
    if is_compiled(stepper):
        compile_search(stepper, spec.symbols, lambda message: None)
        source = torch.tensor([[3]])
        with torch.inference_mode():  # what a search around other steppers needs
            stepper.step(source, stepper.start(source, source > 0, 1))
