"""What every family of models shares: symbols, vocabularies, tables of tokens, and what others know of a model."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from transduce.model.experts import MixtureOfExperts
from transduce.model.readout import Readout
from transduce.settings import Spec

Layers = Annotated[int, Field(ge=1, le=1000)]  # a model of a mistyped number of them would never be built


class Symbols(Spec):
    """The three ids that stand for no text."""

    pad: int = 0
    begin: int = 1
    end: int = 2


class Vocabulary(Spec):
    """How many ids each side has, the three symbols included."""

    source: int = Field(ge=4)
    target: int = Field(ge=4)


class BaseModelSpec(Spec):
    """The settings that every family has."""

    d_model: int = Field(ge=1)
    embeddings: Literal["shared", "separate"] = "shared"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    symbols: Symbols = Symbols()

    def build(self, vocabulary: Vocabulary) -> "TranslationModel":
        """The model with fresh weights, drawn from torch's generator."""
        raise NotImplementedError

    def products(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications of matrix products that reading a source token and writing a target token take.

        Forward only, in sentences of `length` tokens, without the projection on the vocabulary.
        """
        raise NotImplementedError


def build_without_weights(spec: BaseModelSpec, vocabulary: Vocabulary) -> "TranslationModel":
    """The model without storage, its shapes alone; a `ValueError` where it has a size that no tensor has."""
    try:
        with torch.device("meta"):
            return spec.build(vocabulary)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"no machine could hold such a model: {str(error).splitlines()[0]}") from None


Layer = TypeVar("Layer", bound=nn.Module)


def typed_module_list(layers: Iterable[Layer]) -> Iterable[Layer]:
    """The layers as a module that keeps their type."""
    return cast(Iterable[Layer], nn.ModuleList(layers))


class TranslationModel(nn.Module):
    """A model as training, search and measuring know it; `start` and `step` make it a stepper."""

    spec: Any
    vocabulary: Vocabulary
    readout: Readout
    longest: int | None = None  # the longest sentence that there are positions for; None where there are for any

    @abstractmethod
    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's states after each token of `target_in`, from which `readout` tells the next."""

    def penalty(self) -> Float[Tensor, ""] | None:
        """What its parts want added to the loss of a token, from the last call while training; None for nothing."""
        experts = (module for module in self.modules() if isinstance(module, MixtureOfExperts))
        wanted = [module.penalty for module in experts if module.penalty is not None]
        return torch.stack(wanted).sum() if wanted else None

    @property
    def is_compilable(self) -> bool:
        """Whether `torch.compile` makes code of the whole that serves every shape.

        A model without blocks may loop over tokens, and would be compiled for each length. Of experts the host must
        know how many tokens each is sent.
        """
        return bool(self.blocks()) and not any(isinstance(module, MixtureOfExperts) for module in self.modules())

    def blocks(self) -> list[nn.Module]:
        """Parts that are called whole, one after another, so that each can be in memory for its turn alone."""
        return []

    @abstractmethod
    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """The state before the first token: one row a sentence; at most `max_length` tokens will be written."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""


def check_shared(spec: BaseModelSpec, vocabulary: Vocabulary) -> None:
    """A `ValueError` where one table would have to hold two vocabularies."""
    if spec.embeddings == "shared" and vocabulary.source != vocabulary.target:
        raise ValueError(
            f"embeddings cannot be shared between vocabularies of {vocabulary.source} and {vocabulary.target} "
            "subwords: set `subwords.shared: true` or `model.embeddings: separate`"
        )


def embeddings(spec: BaseModelSpec, vocabulary: Vocabulary) -> tuple[nn.Parameter, nn.Parameter]:
    """The source's and the target's table, one matrix where they are shared (section 3.4); not drawn yet."""
    check_shared(spec, vocabulary)
    source = nn.Parameter(torch.empty(vocabulary.source, spec.d_model))
    shared = spec.embeddings == "shared"
    return source, source if shared else nn.Parameter(torch.empty(vocabulary.target, spec.d_model))
