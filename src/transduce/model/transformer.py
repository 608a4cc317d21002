"""The Transformer (section 3.1, Figure 1).

In training, the model processes whole sentences. In search, it encodes the source once and then decodes the target
token by token, with cached keys and values.
"""

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
    """Settings of a Transformer (section 3, columns of Table 3).

    The paper's configurations, such as `base`, are in `transduce.recipe.presets`.
    """

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(ge=2, multiple_of=2, description="Dimension of embeddings and hidden states.")
    encoder_layers: Layers = Field(description="Number of encoder layers.")
    decoder_layers: Layers = Field(description="Number of decoder layers.")
    mixer: MixerByKind = Field(description="Self-attention in encoder and decoder, or a layer that replaces it.")
    cross: Attention = Field(description="Cross-attention of the decoder over the encoder output.")
    feed_forward: FeedForwardSpec = Field(description="Position-wise feed-forward network, or a mixture of experts.")
    positions: PositionsSpec = Field(default=Sinusoidal(), description="Positional encoding.")
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")
    norm: Literal["post", "pre"] = Field(
        default="post",
        description="Place of layer normalisation: LayerNorm(x + Sublayer(x)), as in the paper, or x + "
        "Sublayer(LayerNorm(x)).",
    )
    norm_epsilon: float = Field(
        default=1e-5, gt=0, description="Term added to the variance in layer normalisation, for numerical stability."
    )
    first_input: Literal["symbol", "zeros"] = Field(
        default="symbol",
        description="First input of the decoder: the embedding of BOS, or zeros as in the released code.",
    )
    next_word: bool = Field(
        default=False,
        description="For parsers: adds the encoder output at the next word, multiplied by a matrix, to each decoder "
        "input.",
    )
    initialisation: Initialisation = Field(
        default="fused-glorot",
        description="Distribution of initial weights: Glorot-uniform, with an attention's query, key and value "
        "projections drawn as one matrix (`fused-glorot`, as in the released code) or separately, or N(0, 0.02²).",
    )

    def build(self, vocabulary: Vocabulary) -> "TransformerModel":
        """Builds the model with randomly initialised weights, using torch's default random generator."""
        return TransformerModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications as described in `BaseModelSpec.multiplications`.

        Masked self-attention in the decoder is counted as if each token attended to half of the sentence, which is the
        average.
        """
        network = self.feed_forward.multiplications(self.d_model)
        # Each decoder layer computes the keys and values of the source only once for each source token.
        key_value = self.d_model * self.cross.heads * (self.cross.d_k + self.cross.d_v)
        encoder_layer = self.mixer.multiplications(self.d_model, length) + network
        decoder_layer = self.mixer.multiplications(self.d_model, length / 2, causal=True) + network
        decoder_layer += self.cross.multiplications(self.d_model, length) - key_value
        source = self.encoder_layers * encoder_layer + self.decoder_layers * key_value
        source += self.next_word * self.d_model**2
        return source, self.decoder_layers * decoder_layer

    @property
    def layer(self) -> LayerSpec:
        """The settings that all layers of the encoder and the decoder share."""
        return LayerSpec(
            d_model=self.d_model,
            mixer=self.mixer,
            cross=self.cross,
            feed_forward=self.feed_forward,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            dropout=self.dropout,
        )


ENCODED_AT_ONCE = 32  # number of sentences in a batch when a search on a CPU encodes the source


class AttentionWeights(NamedTuple):
    """The attention weights of a batch of whole sentences, with one tensor for each layer."""

    encoder: tuple[Float[Tensor, "batch heads source source"], ...]
    decoder: tuple[Float[Tensor, "batch heads target target"], ...]
    cross: tuple[Float[Tensor, "batch heads target source"], ...]


class TransformerModel(TranslationModel):
    """A Transformer: an encoder, a decoder, and a readout that predicts the next token.

    Training calls `forward`. Search calls `start` once, and then `step` for each new token.
    """

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
        if not source.is_meta:  # a model on the meta device gets its weights from a file later
            cross_attentions = {layer.cross for layer in self.decoder}
            initialise(self, spec.initialisation, spec.d_model, cross_attentions)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Decoded:
        """Returns the decoder's hidden state after each token of `target_in`, and the auxiliary loss.

        The auxiliary loss is that of the mixture of experts, summed over all layers. It is None outside training, and
        if the model has no mixture of experts.
        """
        encoded, penalties = self._encode(source, visible)
        states = self._decoder_input(source, encoded, target_in)
        for layer in self.decoder:
            states, penalty = layer(states, encoded, visible.unsqueeze(1))
            penalties.append(penalty)
        of_experts = [penalty for penalty in penalties if penalty is not None]
        return Decoded(self.decoder_norm(states), torch.stack(of_experts).sum() if of_experts else None)

    def blocks(self) -> list[nn.Module]:
        """Returns the layers of the encoder and the decoder."""
        return [*self.encoder, *self.decoder]

    def encode(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        """Computes the encoder output z for the source tokens x (section 3.1)."""
        return self._encode(source, visible)[0]

    def attention_weights(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> AttentionWeights:
        """Returns the attention weights of every layer; the model must have `mixer.kind: attention`."""
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
        """Encodes the sentences and returns the state before the first target token.

        The state has one row for each sentence. At most `max_length` tokens may be appended to each row.
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
        """Returns log-probabilities of the token that follows each of `tokens`, and the state after `tokens`."""
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
        """Embeds the target tokens of whole sentences.

        If the model has `next_word`, also adds the vectors of the next words.
        """
        states: Tensor = self.target_embedding(target_in)
        if self.next_word is None:
            return states
        sentences = torch.arange(len(source), device=source.device)
        return states + self.next_word.next_words(target_in, self.next_word.source_words(source, encoded), sentences)[0]

    def _encode(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], list[Float[Tensor, ""] | None]]:
        """Returns the encoder output and a list with the auxiliary loss of each layer.

        The list holds None for a layer that has no auxiliary loss.
        """
        states, penalties = self.source_embedding(source), []
        for layer in self.encoder:
            states, penalty = layer(states, visible.unsqueeze(1))
            penalties.append(penalty)
        return self.encoder_norm(states), penalties

    def _memory(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[tuple[tuple[Keys, Values], ...], SourceWords | None]:
        """Returns the keys and values of the source for each decoder layer, and the source words for `next_word`.

        The source words are None if the model does not have `next_word`.

        On a CPU, the sentences are encoded in batches of `ENCODED_AT_ONCE`. Each batch is padded only to the length of
        its own longest sentence, which saves computation.
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
        """Builds the module that follows the last layer: a LayerNorm for pre-norm, the identity for post-norm.

        A pre-norm layer does not normalise its own output, so without this LayerNorm the final sum would be
        unnormalised.
        """
        if self.spec.norm == "post":
            return nn.Identity()
        return nn.LayerNorm(self.spec.d_model, eps=self.spec.norm_epsilon)


def _concatenate(
    batches: Sequence[Float[Tensor, "_ heads _ width"]], length: int
) -> Float[Tensor, "batch heads {length} width"]:
    """Concatenates batches of keys or values into one batch, padding each to `length` positions."""
    return torch.cat([functional.pad(batch, (0, 0, 0, length - batch.shape[2])) for batch in batches])


def _to_column_major(keys: Keys) -> Keys:
    """Stores keys that are on a CPU in column-major order, the fastest layout for multiplying them by a few queries."""
    return keys.mT.contiguous().mT if keys.is_cpu else keys
