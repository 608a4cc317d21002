"""The base class of the paper's baseline models.

A baseline encodes the source sentence, and decodes one token after another from a state of fixed size.
"""

from abc import abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.decoder_state import HypothesisRows, RecurrentState
from transduce.model.translation_model import Decoded, TranslationModel

States = Float[Tensor, "rows new d_model"]
Source = Int[Tensor, "batch source"]
Visible = Bool[Tensor, "batch source"]
Tokens = Int[Tensor, "rows new"]
Tensors = tuple[Tensor, ...]


class Encoded(NamedTuple):
    """The output of the encoder.

    `memory` holds the tensors of each source sentence that the decoder reads. `carried` holds the initial values of the
    tensors that each row carries from one target token to the next.
    """

    memory: Tensors
    carried: Tensors


class BaselineModel(TranslationModel):
    """A model that is defined by the two methods `encode` and `decode_rows`."""

    @abstractmethod
    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns the decoder's memory of the source, and the tensors that are carried before the first token."""

    @abstractmethod
    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the hidden states after the new tokens, and the tensors that are carried to the next token.

        `first` is the position of the first new token. `rows` determines to which sentence each row belongs; if it is
        None, row n belongs to sentence n.
        """

    def forward(self, source: Source, visible: Visible, target_in: Int[Tensor, "batch target"]) -> Decoded:
        """Returns the decoder's hidden states after each token of `target_in`."""
        memory, carried = self.encode(source, visible)
        return Decoded(self.decode_rows(target_in, 0, memory, carried, None)[0])

    def start(self, source: Source, visible: Visible, max_length: int) -> RecurrentState:
        """Returns the decoder's state before the first token."""
        return RecurrentState.of(*self.encode(source, visible))

    def step(
        self, tokens: Tokens, state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Returns the log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        states, carried = self.decode_rows(tokens, state.length, state.memory, state.carried, state.rows)
        return self.readout(states), state._replace(carried=carried, length=state.length + tokens.shape[1])


class TokenVectors(nn.Module):
    """The token embeddings of the source or the target, without positions.

    The table `weight` may be shared. It is initialised with N(0, 1/d_model), or with the standard deviation `deviation`
    if that is given. The Transformer's embeddings, which have positions, are in `transduce.model.embedding`.
    """

    def __init__(self, weight: nn.Parameter, deviation: float | None = None) -> None:
        super().__init__()
        self.weight = weight
        if not weight.is_meta:
            nn.init.normal_(weight, std=deviation or weight.shape[1] ** -0.5)

    def forward(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length d_model"]:
        """Looks up the embedding of each token."""
        return functional.embedding(tokens, self.weight)
