"""The Transformer (section 3.1, Figure 1): whole for training, and token by token for search."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Attention, Values
from transduce.model.attention_scores import Keys
from transduce.model.decoder_state import DecoderState
from transduce.model.embedding import Embedding
from transduce.model.experts import Network
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.initialisation import Initialisation, initialise
from transduce.model.kv_cache import DecodingContext, KeyValueCache
from transduce.model.layers import DecoderLayer, EncoderLayer, LayerSpec
from transduce.model.mixers import Mixer
from transduce.model.positions import Learned, PositionsSpec, Sinusoidal
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)


class Transformer(BaseModelSpec):
    """The settings of section 3 and of Table 3's columns; the values of `base` are in `transduce.recipe.presets`."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(ge=2, multiple_of=2)
    encoder_layers: Layers
    decoder_layers: Layers
    mixer: Mixer
    cross: Attention
    feed_forward: Network
    positions: PositionsSpec = Sinusoidal()
    readout: ReadoutSpec = Tied()
    norm: Literal["post", "pre"] = "post"
    norm_epsilon: float = Field(default=1e-5, gt=0)
    first_input: Literal["symbol", "zeros"] = "symbol"
    initialisation: Initialisation = "fused-glorot"

    def build(self, vocabulary: Vocabulary) -> "TransformerModel":
        """The model with fresh weights, drawn from torch's generator."""
        return TransformerModel(self, vocabulary)

    def products(self, length: int) -> tuple[int | float, int | float]:
        """As `FamilySpec.products`; a token of a masked sentence sees half of it on average."""
        network = self.feed_forward.products(self.d_model)
        cross = self.cross.heads * (self.cross.d_k + self.cross.d_v)
        # The keys and values that attention over the source needs are made once a source token, in every decoder layer.
        remembered = self.d_model * cross
        read = self.encoder_layers * (self.mixer.products(self.d_model, length) + network)
        written = self.mixer.products(self.d_model, length / 2, causal=True) + network
        written += self.cross.products(self.d_model, length) - remembered
        return read + self.decoder_layers * remembered, self.decoder_layers * written

    @property
    def layer(self) -> LayerSpec:
        """What the layers need to know."""
        return LayerSpec(
            d_model=self.d_model,
            mixer=self.mixer,
            cross=self.cross,
            feed_forward=self.feed_forward,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            dropout=self.dropout,
        )


READ_AT_ONCE = 32  # the sentences that a search on a CPU reads together


class TransformerModel(TranslationModel):
    """Encoder, decoder and readout. `forward` is for training; `start` and `step` are what search knows."""

    def __init__(self, spec: Transformer, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        blank = spec.symbols.begin if spec.first_input == "zeros" else None
        self.source_embedding = Embedding(source, spec.positions.build(spec.d_model), spec.dropout)
        self.target_embedding = Embedding(target, spec.positions.build(spec.d_model), spec.dropout, blank)
        self.encoder = typed_module_list([EncoderLayer(spec.layer) for _ in range(spec.encoder_layers)])
        self.decoder = typed_module_list([DecoderLayer(spec.layer) for _ in range(spec.decoder_layers)])
        self.encoder_norm, self.decoder_norm = self._last_norm(), self._last_norm()
        self.readout = spec.readout.build(target, spec.symbols.pad)
        self.longest = spec.positions.longest if isinstance(spec.positions, Learned) else None
        if not source.is_meta:  # weights that are to be read are not drawn first
            over_encoder = {layer.cross for layer in self.decoder}
            initialise(self, spec.initialisation, spec.d_model, over_encoder)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's states after each token of `target_in`, from which `readout` tells the next."""
        encoded = self.encode(source, visible)
        states = self.target_embedding(target_in)
        for layer in self.decoder:
            states = layer(states, encoded, visible.unsqueeze(1))
        normalised: Tensor = self.decoder_norm(states)
        return normalised

    def blocks(self) -> list[nn.Module]:
        """The layers."""
        return [*self.encoder, *self.decoder]

    def encode(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        """The encoder's output z for tokens x (section 3.1)."""
        states = self.source_embedding(source)
        for layer in self.encoder:
            states = layer(states, visible.unsqueeze(1))
        normalised: Tensor = self.encoder_norm(states)
        return normalised

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> DecoderState:
        """The state before the first token: one row a sentence; at most `max_length` tokens will be written."""
        assert self.longest is None or max_length <= self.longest, (
            "the caller bounds `max_length` by the model's positions"
        )
        return DecoderState(
            memory=self._remembered(source, visible),
            visible=visible.unsqueeze(1),
            caches=tuple(KeyValueCache() for _ in self.decoder),
            rows=HypothesisRows.of(torch.arange(len(source), device=source.device), len(source)),
            ancestors=visible.new_zeros(len(source), 0),
        )

    def step(
        self, tokens: Int[Tensor, "rows new"], state: DecoderState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], DecoderState]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""
        visible, ancestors = state.masks(tokens.shape[1])
        states = self.target_embedding(tokens, state.length)
        for layer, memory, cache in zip(self.decoder, state.memory, state.caches, strict=True):
            states = layer(states, memory, state.visible, DecodingContext(cache, visible, state.rows))
        log_probabilities = self.readout(self.decoder_norm(states))
        return log_probabilities, state._replace(ancestors=ancestors, length=state.length + tokens.shape[1])

    def _remembered(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[tuple[Keys, Values], ...]:
        """What attention over the source remembers, layer by layer.

        On a CPU a few sentences are read at a time, without the padding that longer ones elsewhere ask for.
        """
        at_once = len(source) if source.is_cuda else READ_AT_ONCE
        parts: list[list[tuple[Keys, Values]]] = [[] for _ in self.decoder]
        for tokens, seen in zip(source.split(at_once), visible.split(at_once), strict=True):
            if not source.is_cuda:
                longest = int(seen.any(0).nonzero().amax()) + 1
                tokens, seen = tokens[:, :longest], seen[:, :longest]
            encoded = self.encode(tokens, seen)
            for part, layer in zip(parts, self.decoder, strict=True):
                part.append(layer.cross.remember(encoded))
        length = source.shape[1]
        return tuple(
            (_in_columns(_joined(keys, length)), _joined(values, length))
            for keys, values in (zip(*part, strict=True) for part in parts)
        )

    def _last_norm(self) -> nn.Module:
        """Pre-norm leaves the last sum unnormalised and needs one more at the top."""
        if self.spec.norm == "post":
            return nn.Identity()
        return nn.LayerNorm(self.spec.d_model, eps=self.spec.norm_epsilon)


def _joined(
    parts: Sequence[Float[Tensor, "_ heads _ width"]], length: int
) -> Float[Tensor, "batch heads {length} width"]:
    """All sentences' keys or values, head by head, as the products of every step want them."""
    return torch.cat([functional.pad(part, (0, 0, 0, length - part.shape[2])) for part in parts])


def _in_columns(keys: Keys) -> Keys:
    """The same keys; on a CPU they lie in memory a column each, where a few queries' products with them are fastest."""
    return keys.mT.contiguous().mT if keys.is_cpu else keys
