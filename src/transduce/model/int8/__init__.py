"""Translation in int8 on a CPU: `quantise` returns a stepper with the weights of a model in int8."""

from transduce.model.int8.quantise import quantise

__all__ = ["quantise"]
