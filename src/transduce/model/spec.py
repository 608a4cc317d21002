"""`ModelSpec`, the closed union of the settings of all models."""

from typing import Annotated

from pydantic import Field

from transduce.model.baselines.bytenet import ByteNet
from transduce.model.baselines.convolutional import Convolutional
from transduce.model.baselines.memory_network import MemoryNetwork
from transduce.model.baselines.neural_gpu import NeuralGpu
from transduce.model.baselines.recurrent import Recurrent
from transduce.model.transformer import Transformer

ModelSpec = Annotated[
    Transformer | Recurrent | Convolutional | ByteNet | NeuralGpu | MemoryNetwork, Field(discriminator="kind")
]
