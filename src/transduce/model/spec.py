"""The closed union of model families."""

from typing import Annotated

from pydantic import Field

from transduce.model.families.bytenet import ByteNet
from transduce.model.families.convolutional import Convolutional
from transduce.model.families.memory import MemoryNetwork
from transduce.model.families.neural_gpu import NeuralGpu
from transduce.model.families.recurrent import Recurrent
from transduce.model.family import Symbols, Vocabulary
from transduce.model.transformer import Transformer

__all__ = ["ModelSpec", "Symbols", "Vocabulary"]

ModelSpec = Annotated[
    Transformer | Recurrent | Convolutional | ByteNet | NeuralGpu | MemoryNetwork, Field(discriminator="kind")
]
