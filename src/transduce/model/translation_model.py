"""What all models share: symbols, vocabularies, embeddings, settings, and the interface of a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from transduce.model.feed_forward import MixtureOfExperts
from transduce.model.readout import Readout
from transduce.settings import Spec

Layers = Annotated[int, Field(ge=1, le=1000)]  # a number of layers; bounded, since a mistyped one would build forever


class Symbols(Spec):
    """The three tokens that do not represent text."""

    pad: int = Field(default=0, description="Padding token.")
    begin: int = Field(default=1, description="First input of the decoder.")
    end: int = Field(default=2, description="Last token of every sentence.")


class Vocabulary(Spec):
    """Number of tokens on each side, including the three symbols."""

    source: int = Field(ge=4)
    target: int = Field(ge=4)


class BaseModelSpec(Spec):
    """Settings that all models have."""

    if TYPE_CHECKING:
        kind: str

    d_model: int = Field(ge=1, description="Width of embeddings and states.")
    embeddings: Literal["shared", "separate"] = Field(
        default="shared", description="One matrix for source and target, or two."
    )
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout of embeddings and of layer outputs.")
    symbols: Symbols = Field(
        default=Symbols(), description="Tokens of the three symbols; only the defaults fit the subwords."
    )

    def build(self, vocabulary: Vocabulary) -> "TranslationModel":
        """Builds the model with fresh weights, drawn from torch's generator."""
        raise NotImplementedError

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications in matrix products for one source token and for one target token.

        The count is for a forward pass over sentences of `length` tokens, without the projection to the vocabulary.
        """
        raise NotImplementedError


class Decoded(NamedTuple):
    """The decoder's states, and the experts' penalty that training adds to the loss of a token."""

    states: Float[Tensor, "batch target d_model"]
    penalty: Float[Tensor, ""] | None = None


class TranslationModel(nn.Module, ABC):
    """Interface of a model; `start` and `step` make it a stepper, which search uses.

    A model defines `start` and either `decode`, or both a `forward` that reads all tokens of a sentence at once and a
    `step` that reads the new tokens.
    """

    spec: Any
    vocabulary: Vocabulary
    readout: Readout
    max_positions: int | None = None  # most tokens of a sentence; None: unlimited

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Decoded:
        """Computes the decoder's states after each token of `target_in`, the input of `readout`."""
        states, _ = self.decode(target_in, self.start(source, visible, target_in.shape[1]))
        return Decoded(states)

    @property
    def is_compilable(self) -> bool:
        """Whether `torch.compile` can compile the whole model once for every shape.

        A model without blocks may loop over tokens and would be recompiled for each length. A mixture of experts reads
        the number of tokens of each expert on the host.
        """
        return bool(self.blocks()) and not any(isinstance(module, MixtureOfExperts) for module in self.modules())

    def blocks(self) -> list[nn.Module]:
        """The parts that run one after another; sharding gathers the weights of one part at a time."""
        return []

    @abstractmethod
    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """Returns the state before the first token.

        The state has one row for each sentence, and room for at most `max_length` tokens.
        """

    def decode(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new d_model"], Any]:
        """Returns the decoder's states after each of `tokens`, and the state with `tokens` appended."""
        raise NotImplementedError

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        states, state = self.decode(tokens, state)
        return self.readout(states), state


def build_without_weights(spec: BaseModelSpec, vocabulary: Vocabulary) -> TranslationModel:
    """Builds the model on the meta device, with shapes but without storage.

    Raises ValueError if torch cannot represent a size.
    """
    try:
        with torch.device("meta"):
            return spec.build(vocabulary)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"no machine could hold this model: {str(error).splitlines()[0]}") from None


Layer = TypeVar("Layer", bound=nn.Module)


def typed_module_list(layers: Iterable[Layer]) -> Iterable[Layer]:
    """Wraps the layers in an `nn.ModuleList` whose static type keeps the type of the layers."""
    return cast(Iterable[Layer], nn.ModuleList(layers))


def check_shared(spec: BaseModelSpec, vocabulary: Vocabulary) -> None:
    """Raises ValueError if source and target share a table but not a vocabulary."""
    if spec.embeddings == "shared" and vocabulary.source != vocabulary.target:
        raise ValueError(
            f"embeddings cannot be shared between vocabularies of {vocabulary.source} and {vocabulary.target} "
            "subwords: set `subwords.shared: true` or `model.embeddings: separate`"
        )


def embeddings(spec: BaseModelSpec, vocabulary: Vocabulary) -> tuple[nn.Parameter, nn.Parameter]:
    """Builds the uninitialised tables of source and target tokens; both are one matrix if shared (section 3.4)."""
    check_shared(spec, vocabulary)
    source = nn.Parameter(torch.empty(vocabulary.source, spec.d_model))
    shared = spec.embeddings == "shared"
    return source, source if shared else nn.Parameter(torch.empty(vocabulary.target, spec.d_model))


FLOPS_LENGTH = 25  # tokens of a sentence, about the mean of WMT; the cost of attention depends on it


def flops(spec: BaseModelSpec, vocabulary: Vocabulary, length: int = FLOPS_LENGTH) -> tuple[int, int]:
    """Counts the floating-point operations of the forward pass, for one source token and for one target token.

    Counts matrix products, with one multiplication and one addition for each term, in sentences of `length` tokens.
    Training takes three times as many.
    """
    source, target = spec.multiplications(length)
    return round(2 * source), round(2 * (target + spec.d_model * vocabulary.target))
