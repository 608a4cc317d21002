"""Translation in int8 on a CPU by torch's products: `quantise` returns a copy of a model with its weights in int8."""

from transduce.model.int8.quantise import quantise

__all__ = ["quantise"]
