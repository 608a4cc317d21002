"""Floating-point operations of a model, computed from its settings."""

from transduce.model.translation_model import BaseModelSpec, Vocabulary

LENGTH = 25  # tokens of a sentence, about the mean of WMT; the cost of attention depends on it


def flops(spec: BaseModelSpec, vocabulary: Vocabulary, length: int = LENGTH) -> tuple[int, int]:
    """Returns floating-point operations of the forward pass: of one source token and of one target token.

    Counts matrix products, with a multiplication and an addition each, in sentences of `length` tokens. Training takes
    three times as many.
    """
    source, target = spec.multiplications(length)
    return round(2 * source), round(2 * (target + spec.d_model * vocabulary.target))
