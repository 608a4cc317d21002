"""`ModelSpec`, the settings of any model: a Transformer, or one of the systems with which the paper compares it."""

from typing import Annotated

from transduce.model.transformer import Transformer
from transduce.model.translation_model import BaseModelSpec
from transduce.settings import ByKind

MODELS = ByKind(
    {
        "transformer": Transformer,
        "recurrent": "transduce.paper.models.recurrent:Recurrent",
        "convolutional": "transduce.paper.models.convolutional:Convolutional",
        "bytenet": "transduce.paper.models.bytenet:ByteNet",
        "neural_gpu": "transduce.paper.models.neural_gpu:NeuralGpu",
        "memory_network": "transduce.paper.models.memory_network:MemoryNetwork",
    }
)
ModelSpec = Annotated[BaseModelSpec, MODELS]
