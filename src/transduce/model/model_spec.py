"""`ModelSpec`, the settings of any model: a Transformer, a baseline of the paper, or a custom model."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from transduce.model.transformer import Transformer
from transduce.model.translation_model import BaseModelSpec, TranslationModel, Vocabulary
from transduce.settings import ByKind

ModelBuilder = Callable[[Vocabulary], TranslationModel]


class CustomModel(BaseModelSpec):
    """A model of your own, which is built by a Python function that you pass to `train` or `Model.read`.

    Recipes and `config.json` record settings such as the name and the width, but not the function. Settings that were
    read from a file therefore cannot build the model until `with_builder` supplies the function.
    """

    kind: Literal["custom"] = "custom"
    name: str = Field(min_length=1, description="Name of the model, which is recorded in its files.")
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="For the record only: your function sets the actual dropout.",
    )

    _builder: ModelBuilder | None = PrivateAttr(default=None)

    @property
    def builder(self) -> ModelBuilder:
        """The function that builds the model.

        Raises ValueError if the settings were read from a file and have no function yet.
        """
        if self._builder is None:
            raise ValueError(
                f"the model `{self.name}` is custom, and the function that builds it is not in any file: pass it to "
                "`transduce.train(..., model=...)`, or to `Model.read(..., build=...)` for `Translator.of_models`"
            )
        return self._builder

    def with_builder(self, builder: ModelBuilder) -> "CustomModel":
        """Returns a copy of the settings that builds the model with `builder`."""
        spec = self.replaced()
        spec._builder = builder
        return spec

    def build(self, vocabulary: Vocabulary) -> TranslationModel:
        """Builds the model by calling the function.

        Raises ValueError if there is no function, or if the model has buffers that would not be saved.
        """
        model = self.builder(vocabulary)
        model.spec, model.vocabulary = self, vocabulary
        if not_saved := model.state_dict().keys() - dict(model.named_parameters(remove_duplicate=False)).keys():
            raise ValueError(
                f"the model `{self.name}` has buffers, and only parameters are saved: register {sorted(not_saved)} "
                "with persistent=False, or as parameters"
            )
        return model

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Always raises ValueError, because the number of multiplications of a custom model is unknown."""
        raise ValueError(
            f"the multiplications of the custom model `{self.name}` are not known: its FLOPs cannot be computed, and "
            "on a GPU `training.micro_batches` must be a number"
        )


MODELS = ByKind(
    {
        "transformer": Transformer,
        "custom": CustomModel,
        "ablated_transformer": "transduce.paper.models.ablated_transformer:AblatedTransformer",
        "recurrent": "transduce.paper.models.recurrent:Recurrent",
        "convolutional": "transduce.paper.models.convolutional:Convolutional",
        "bytenet": "transduce.paper.models.bytenet:ByteNet",
        "neural_gpu": "transduce.paper.models.neural_gpu:NeuralGpu",
        "memory_network": "transduce.paper.models.memory_network:MemoryNetwork",
    }
)
ModelSpec = Annotated[BaseModelSpec, MODELS]
