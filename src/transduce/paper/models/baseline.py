"""The base of the paper's baselines: a model that encodes a sentence and decodes tokens from a state of fixed size."""

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
    """Tensors of each sentence, and the tensors that a row carries from token to token, before the first token."""

    memory: Tensors
    carried: Tensors


class BaselineModel(TranslationModel):
    """A model that is defined by its two halves, `encode` and `decode_rows`."""

    @abstractmethod
    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns the source's tensors that the decoder reads, and the tensors carried before the first token."""

    @abstractmethod
    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the states after new tokens, and the tensors carried on; `first` is the index of the first new token.

        `rows` has the sentence of each row; if it is None, row n belongs to sentence n.
        """

    def forward(self, source: Source, visible: Visible, target_in: Int[Tensor, "batch target"]) -> Decoded:
        """The decoder's states after each token of `target_in`."""
        memory, carried = self.encode(source, visible)
        return Decoded(self.decode_rows(target_in, 0, memory, carried, None)[0])

    def start(self, source: Source, visible: Visible, max_length: int) -> RecurrentState:
        """The state before the first token."""
        return RecurrentState.of(*self.encode(source, visible))

    def step(
        self, tokens: Tokens, state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        states, carried = self.decode_rows(tokens, state.length, state.memory, state.carried, state.rows)
        return self.readout(states), state._replace(carried=carried, length=state.length + tokens.shape[1])


class TokenVectors(nn.Module):
    """The token table of source or target, which may be shared, drawn from N(0, 1/d_model) or with another `deviation`.

    It has no positions; the Transformer's table with positions is in `transduce.model.embedding`.
    """

    def __init__(self, weight: nn.Parameter, deviation: float | None = None) -> None:
        super().__init__()
        self.weight = weight
        if not weight.is_meta:
            nn.init.normal_(weight, std=deviation or weight.shape[1] ** -0.5)

    def forward(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length d_model"]:
        """Looks up the vector of each token."""
        return functional.embedding(tokens, self.weight)
