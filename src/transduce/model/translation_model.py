"""The interface that every translation model implements, and the symbols, settings and embeddings that models share."""

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

Layers = Annotated[int, Field(ge=1, le=1000)]  # bounded because building a model with a mistyped number would never end


class Symbols(Spec):
    """The ids of the three special tokens, which do not represent text."""

    pad: int = Field(default=0, description="Padding token.")
    begin: int = Field(default=1, description="BOS token, the first input of the decoder.")
    end: int = Field(default=2, description="EOS token, the last token of every sentence.")


class Vocabulary(Spec):
    """The sizes of the source and the target vocabulary, including the three special tokens."""

    source: int = Field(ge=4)
    target: int = Field(ge=4)


class BaseModelSpec(Spec):
    """Settings that all models share."""

    if TYPE_CHECKING:
        kind: str

    d_model: int = Field(ge=1, description="Dimension of embeddings and hidden states.")
    embeddings: Literal["shared", "separate"] = Field(
        default="shared",
        description="Whether source and target share one embedding matrix, which requires a shared vocabulary.",
    )
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="Dropout probability of embeddings and (sub-)layer outputs."
    )
    symbols: Symbols = Field(
        default=Symbols(),
        description="Ids of the special tokens; a recipe must keep the defaults.",
    )

    def build(self, vocabulary: Vocabulary) -> "TranslationModel":
        """Builds the model with randomly initialised weights, using torch's default random generator."""
        raise NotImplementedError

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications for one source token and for one target token.

        Only matrix products are counted, in a forward pass over sentences of `length` tokens and without the projection
        to the vocabulary.
        """
        raise NotImplementedError


class Decoded(NamedTuple):
    """The decoder's hidden states, and the auxiliary mixture-of-experts loss or None.

    The auxiliary loss is per token: training adds it to the loss of every target token.
    """

    states: Float[Tensor, "batch target d_model"]
    penalty: Float[Tensor, ""] | None = None


class TranslationModel(nn.Module, ABC):
    """The interface of a translation model.

    The methods `start` and `step` make every model a `Stepper`, so search can use it directly. A subclass defines
    `start` and either `decode`, or both `forward`, which processes all tokens of a sentence at once, and `step`, which
    processes only the new tokens.
    """

    spec: Any
    vocabulary: Vocabulary
    readout: Readout
    max_positions: int | None = None  # the longest sentence in tokens that the model accepts; None if unlimited

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Decoded:
        """Computes the decoder's hidden state after each token of `target_in`; these are the input of `readout`."""
        states, _ = self.decode(target_in, self.start(source, visible, target_in.shape[1]))
        return Decoded(states)

    @property
    def is_compilable(self) -> bool:
        """True if `torch.compile` can compile the whole model once for inputs of every shape.

        A model without blocks may loop over tokens, so it would be recompiled for each sentence length. A mixture of
        experts cannot be compiled as a whole either, because it reads the number of tokens of each expert on the host.
        """
        return bool(self.blocks()) and not any(isinstance(module, MixtureOfExperts) for module in self.modules())

    def blocks(self) -> list[nn.Module]:
        """Returns the parts of the model that run one after another, or an empty list.

        When the model is sharded across GPUs, the weights of only one block at a time are gathered.
        """
        return []

    @abstractmethod
    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """Encodes the sentences and returns the state before the first target token.

        The state has one row for each sentence. At most `max_length` tokens may be appended to each row.
        """

    def decode(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new d_model"], Any]:
        """Returns the decoder's hidden state after each of `tokens`, and the state with `tokens` appended."""
        raise NotImplementedError

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Returns log-probabilities of the token that follows each of `tokens`, and the state after `tokens`."""
        states, state = self.decode(tokens, state)
        return self.readout(states), state


def build_without_weights(spec: BaseModelSpec, vocabulary: Vocabulary) -> TranslationModel:
    """Builds the model on torch's meta device, where parameters have a shape but no storage.

    Raises ValueError if a size is too large for torch.
    """
    try:
        with torch.device("meta"):
            return spec.build(vocabulary)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"no machine could hold this model: {str(error).splitlines()[0]}") from None


Layer = TypeVar("Layer", bound=nn.Module)


def typed_module_list(layers: Iterable[Layer]) -> Iterable[Layer]:
    """Wraps layers in an `nn.ModuleList`, and keeps their type for the type checker."""
    return cast(Iterable[Layer], nn.ModuleList(layers))


def check_shared(spec: BaseModelSpec, vocabulary: Vocabulary) -> None:
    """Raises ValueError if source and target share one embedding matrix but have vocabularies of different sizes."""
    if spec.embeddings == "shared" and vocabulary.source != vocabulary.target:
        raise ValueError(
            f"embeddings cannot be shared between vocabularies of {vocabulary.source} and {vocabulary.target} "
            "subwords: set `subwords.shared: true` or `model.embeddings: separate`"
        )


def embeddings(spec: BaseModelSpec, vocabulary: Vocabulary) -> tuple[nn.Parameter, nn.Parameter]:
    """Creates the uninitialised embedding matrices of the source and the target tokens.

    If the embeddings are shared (section 3.4), both are the same parameter. Raises ValueError if they are shared but
    the vocabularies differ in size.
    """
    check_shared(spec, vocabulary)
    source = nn.Parameter(torch.empty(vocabulary.source, spec.d_model))
    shared = spec.embeddings == "shared"
    return source, source if shared else nn.Parameter(torch.empty(vocabulary.target, spec.d_model))


FLOPS_LENGTH = 25  # tokens in a sentence, about the mean of WMT; the cost of attention grows with it


def flops(spec: BaseModelSpec, vocabulary: Vocabulary, length: int = FLOPS_LENGTH) -> tuple[int, int]:
    """Counts the floating-point operations of a forward pass, for one source token and for one target token.

    Only matrix products are counted, for sentences of `length` tokens and including the projection to the vocabulary.
    Each multiplication comes with an addition and so counts as two operations. Training takes three times as many
    operations, because of the backward pass.
    """
    source, target = spec.multiplications(length)
    return round(2 * source), round(2 * (target + spec.d_model * vocabulary.target))
