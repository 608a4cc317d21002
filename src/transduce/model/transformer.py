"""The Transformer (section 3.1, Figure 1): whole sentences for training, token by token for search."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Attention
from transduce.model.attention_scores import Keys, Values
from transduce.model.decoder_state import DecoderState, DecodingContext, HypothesisRows, KeyValueCache
from transduce.model.embedding import Embedding, Learned, PositionsSpec, Sinusoidal
from transduce.model.feed_forward import FeedForwardSpec
from transduce.model.initialisation import Initialisation, initialise
from transduce.model.layers import DecoderLayer, EncoderLayer, LayerSpec, MixerByKind
from transduce.model.next_word_attention import NextWord, SourceWords
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.translation_model import (
    BaseModelSpec,
    Decoded,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)


class Transformer(BaseModelSpec):
    """Settings of a Transformer (section 3, columns of Table 3); `base` is in `transduce.recipe.presets`."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(ge=2, multiple_of=2, description="Width of embeddings and states.")
    encoder_layers: Layers = Field(description="Layers of the encoder.")
    decoder_layers: Layers = Field(description="Layers of the decoder.")
    mixer: MixerByKind = Field(description="Self-attention of encoder and decoder, or a rival of it.")
    cross: Attention = Field(description="Attention over the encoder's output.")
    feed_forward: FeedForwardSpec = Field(description="Position-wise network.")
    positions: PositionsSpec = Field(default=Sinusoidal(), description="Encoding of positions.")
    readout: ReadoutSpec = Field(default=Tied(), description="Projection before the softmax.")
    norm: Literal["post", "pre"] = Field(
        default="post", description="LayerNorm(x + Sublayer(x)) as in the paper, or x + Sublayer(LayerNorm(x))."
    )
    norm_epsilon: float = Field(default=1e-5, gt=0, description="Added to the variance in LayerNorm.")
    first_input: Literal["symbol", "zeros"] = Field(
        default="symbol",
        description="First input of the decoder: embedding of the begin symbol, or zeros (released code).",
    )
    next_word: bool = Field(
        default=False, description="Of parsers: the decoder's input also has the encoder's output at the next word."
    )
    initialisation: Initialisation = Field(
        default="fused-glorot",
        description="Glorot with an attention's projections as one matrix (released code), Glorot, or N(0, 0.02²).",
    )

    def build(self, vocabulary: Vocabulary) -> "TransformerModel":
        """Builds the model with fresh weights, drawn from torch's generator."""
        return TransformerModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications like `BaseModelSpec.multiplications`; masked attention sees half of a sentence."""
        network = self.feed_forward.multiplications(self.d_model)
        # Keys and values for attention over the source are computed once for each source token, in every decoder layer.
        key_value = self.d_model * self.cross.heads * (self.cross.d_k + self.cross.d_v)
        encoder_layer = self.mixer.multiplications(self.d_model, length) + network
        decoder_layer = self.mixer.multiplications(self.d_model, length / 2, causal=True) + network
        decoder_layer += self.cross.multiplications(self.d_model, length) - key_value
        source = self.encoder_layers * encoder_layer + self.decoder_layers * key_value
        source += self.next_word * self.d_model**2
        return source, self.decoder_layers * decoder_layer

    @property
    def layer(self) -> LayerSpec:
        """Settings that the layers share."""
        return LayerSpec(
            d_model=self.d_model,
            mixer=self.mixer,
            cross=self.cross,
            feed_forward=self.feed_forward,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            dropout=self.dropout,
        )


ENCODED_AT_ONCE = 32  # sentences that a search on a CPU encodes in one batch


class AttentionWeights(NamedTuple):
    """Attention weights of whole sentences, with one tensor for each layer."""

    encoder: tuple[Float[Tensor, "batch heads source source"], ...]
    decoder: tuple[Float[Tensor, "batch heads target target"], ...]
    cross: tuple[Float[Tensor, "batch heads target source"], ...]


class TransformerModel(TranslationModel):
    """Encoder, decoder and readout; training calls `forward`, search calls `start` and `step`."""

    def __init__(self, spec: Transformer, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        blank = spec.symbols.begin if spec.first_input == "zeros" else None
        self.source_embedding = Embedding(source, spec.positions.build(spec.d_model), spec.dropout)
        self.target_embedding = Embedding(target, spec.positions.build(spec.d_model), spec.dropout, blank)
        self.next_word = NextWord(spec.d_model, vocabulary.source, vocabulary.target) if spec.next_word else None
        self.encoder = typed_module_list([EncoderLayer(spec.layer) for _ in range(spec.encoder_layers)])
        self.decoder = typed_module_list([DecoderLayer(spec.layer) for _ in range(spec.decoder_layers)])
        self.encoder_norm, self.decoder_norm = self._last_norm(), self._last_norm()
        self.readout = spec.readout.build(target, spec.symbols.pad)
        self.max_positions = spec.positions.max_positions if isinstance(spec.positions, Learned) else None
        if not source.is_meta:  # a model without storage gets its weights from a file
            cross_attentions = {layer.cross for layer in self.decoder}
            initialise(self, spec.initialisation, spec.d_model, cross_attentions)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Decoded:
        """Returns the decoder's states after each token of `target_in`, and the penalty of its experts."""
        encoded, penalties = self._encode(source, visible)
        states = self._decoder_input(source, encoded, target_in)
        for layer in self.decoder:
            states, penalty = layer(states, encoded, visible.unsqueeze(1))
            penalties.append(penalty)
        of_experts = [penalty for penalty in penalties if penalty is not None]
        return Decoded(self.decoder_norm(states), torch.stack(of_experts).sum() if of_experts else None)

    def blocks(self) -> list[nn.Module]:
        """The layers of encoder and decoder."""
        return [*self.encoder, *self.decoder]

    def encode(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        """Computes the encoder's output z for tokens x (section 3.1)."""
        return self._encode(source, visible)[0]

    def attention_weights(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> AttentionWeights:
        """Returns the weights of every attention module; needs `mixer.kind: attention`."""
        states, mask = self.source_embedding(source), visible.unsqueeze(1)
        encoder, decoder, cross = [], [], []
        for layer in self.encoder:
            encoder.append(layer.attention_weights(states, mask))
            states, _ = layer(states, mask)
        encoded = self.encoder_norm(states)
        states = self._decoder_input(source, encoded, target_in)
        for decoder_layer in self.decoder:
            to_target, to_source = decoder_layer.attention_weights(states, encoded, mask)
            decoder.append(to_target)
            cross.append(to_source)
            states, _ = decoder_layer(states, encoded, mask)
        return AttentionWeights(tuple(encoder), tuple(decoder), tuple(cross))

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> DecoderState:
        """Encodes the sentences and returns the state before the first token.

        The state has one row for each sentence, and room for at most `max_length` tokens.
        """
        assert self.max_positions is None or max_length <= self.max_positions, (
            "the caller bounds `max_length` by the model's positions"
        )
        memory, words = self._memory(source, visible)
        return DecoderState(
            memory=memory,
            visible=visible.unsqueeze(1),
            caches=tuple(KeyValueCache() for _ in self.decoder),
            rows=HypothesisRows.of(torch.arange(len(source), device=source.device), len(source)),
            ancestors=visible.new_zeros(len(source), 0),
            source_words=words,
        )

    def step(
        self, tokens: Int[Tensor, "rows new"], state: DecoderState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], DecoderState]:
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        visible, ancestors = state.masks(tokens.shape[1])
        states, words = self.target_embedding(tokens, state.length), state.source_words
        if self.next_word is not None and words is not None:
            next_words, words = self.next_word.next_words(tokens, words, state.rows.sentences)
            states = states + next_words
        for layer, memory, cache in zip(self.decoder, state.memory, state.caches, strict=True):
            states, _ = layer(states, memory, state.visible, DecodingContext(cache, visible, state.rows))
        log_probabilities = self.readout(self.decoder_norm(states))
        length = state.length + tokens.shape[1]
        return log_probabilities, state._replace(ancestors=ancestors, length=length, source_words=words)

    def _decoder_input(
        self,
        source: Int[Tensor, "batch source"],
        encoded: Float[Tensor, "batch source d_model"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Embeds the target of whole sentences and, if the model has `next_word`, adds the next words."""
        states: Tensor = self.target_embedding(target_in)
        if self.next_word is None:
            return states
        sentences = torch.arange(len(source), device=source.device)
        return states + self.next_word.next_words(target_in, self.next_word.source_words(source, encoded), sentences)[0]

    def _encode(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], list[Float[Tensor, ""] | None]]:
        """Returns the encoder's output and the penalty of each layer."""
        states, penalties = self.source_embedding(source), []
        for layer in self.encoder:
            states, penalty = layer(states, visible.unsqueeze(1))
            penalties.append(penalty)
        return self.encoder_norm(states), penalties

    def _memory(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[tuple[tuple[Keys, Values], ...], SourceWords | None]:
        """Returns each layer's keys and values of attention over the source, and the source words for `next_word`.

        On a CPU it encodes `ENCODED_AT_ONCE` sentences at a time and pads them only to the longest of these sentences.
        """
        at_once = len(source) if source.is_cuda else ENCODED_AT_ONCE
        layers: list[list[tuple[Keys, Values]]] = [[] for _ in self.decoder]
        words: list[SourceWords] = []
        length = source.shape[1]
        for tokens, mask in zip(source.split(at_once), visible.split(at_once), strict=True):
            if not source.is_cuda:
                width = int(mask.any(0).nonzero().amax()) + 1
                tokens, mask = tokens[:, :width], mask[:, :width]
            encoded = self.encode(tokens, mask)
            for key_values, layer in zip(layers, self.decoder, strict=True):
                key_values.append(layer.cross.project_key_value(encoded))
            if self.next_word is not None:
                words.append(self.next_word.source_words(tokens, encoded).padded(length))
        memory = tuple(
            (_to_column_major(_concatenate(keys, length)), _concatenate(values, length))
            for keys, values in (zip(*key_values, strict=True) for key_values in layers)
        )
        return memory, SourceWords(*map(torch.cat, zip(*words, strict=True))) if words else None

    def _last_norm(self) -> nn.Module:
        """Builds the norm after the last layer: a LayerNorm for pre-norm, which leaves its last sum unnormalised."""
        if self.spec.norm == "post":
            return nn.Identity()
        return nn.LayerNorm(self.spec.d_model, eps=self.spec.norm_epsilon)


def _concatenate(
    batches: Sequence[Float[Tensor, "_ heads _ width"]], length: int
) -> Float[Tensor, "batch heads {length} width"]:
    """Concatenates the keys or values of all sentences, padded to `length`."""
    return torch.cat([functional.pad(batch, (0, 0, 0, length - batch.shape[2])) for batch in batches])


def _to_column_major(keys: Keys) -> Keys:
    """Stores the keys in column-major order on a CPU, which is fastest for products with few queries."""
    return keys.mT.contiguous().mT if keys.is_cpu else keys
