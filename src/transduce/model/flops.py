"""The arithmetic of a model, counted from its settings."""

from transduce.model.translation_model import BaseModelSpec, Vocabulary

__all__ = ["LENGTH", "flops"]

LENGTH = 25  # tokens of a sentence, about the mean of WMT: attention's share depends on it


def flops(spec: BaseModelSpec, vocabulary: Vocabulary, length: int = LENGTH) -> tuple[int, int]:
    """Floating-point operations, forward, of reading one source token and of writing one target token.

    Every product of matrices counts, a multiplication and an addition each; sentences have `length` tokens. Training
    takes three times that.
    """
    read, written = spec.products(length)
    return round(2 * read), round(2 * (written + spec.d_model * vocabulary.target))
