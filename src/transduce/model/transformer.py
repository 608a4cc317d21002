"""The Transformer (section 3.1, Figure 1): whole for training, and word by word for search."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Attention, Keys, MultiHeadAttention, Values
from transduce.model.embedding import Embedding
from transduce.model.experts import Network
from transduce.model.family import FamilySpec, Layers, TranslationModel, Vocabulary, embeddings, stack
from transduce.model.layers import DecoderLayer, EncoderLayer, LayerSpec
from transduce.model.mixers import Mixer
from transduce.model.past import Cache, Past, room_for
from transduce.model.positions import Learned, LearnedPositions, PositionsSpec, Sinusoidal
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.rows import Rows


class Transformer(FamilySpec):
    """The settings of section 3 and of Table 3's columns; the values of `base` are in `transduce.presets`."""

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
    initialisation: Literal["fused-glorot", "glorot", "normal"] = "fused-glorot"

    def build(self, vocabulary: Vocabulary) -> "TransformerModel":
        """The model with fresh weights, drawn from torch's generator."""
        return TransformerModel(self, vocabulary)

    def products(self, length: int) -> tuple[int | float, int | float]:
        """As `FamilySpec.products`; a word of a masked sentence sees half of it on average."""
        network = self.feed_forward.products(self.d_model)
        cross = self.cross.heads * (self.cross.d_k + self.cross.d_v)
        # The keys and values that attention over the source needs are made once a source word, in every decoder layer.
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


NORMAL = 0.02  # the deviation of first weights drawn `normal`
READ_AT_ONCE = 32  # the sentences that a search on a CPU reads together
CROWDED = 0.75  # the share of a state's sentences below which those without a row are thrown out


class State(NamedTuple):
    """Where a search stands: a part by sentence, and a part by row (a row is one hypothesis of a sentence).

    `ancestors` says which slots of its sentence's caches hold the words of a row; `cleared` is how many slots were
    left when those of no row were last thrown out. A step consumes its state: caches are written in place.
    """

    memory: tuple[tuple[Keys, Values], ...]
    visible: Bool[Tensor, "batch 1 source"]
    caches: tuple[Cache, ...]
    rows: Rows
    ancestors: Bool[Tensor, "rows slots"]
    length: int
    cleared: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of the chosen rows, whose sentences are in their order."""
        sentences, ancestors = self.rows.sentences[rows], self.ancestors[rows]
        if sentences.is_cuda and len(sentences) == len(self.ancestors):
            # On a GPU the search keeps its rectangle from look to look, and to check that would wait for the device.
            return self._replace(ancestors=ancestors)
        kept = sentences.unique_consecutive()
        if len(kept) <= CROWDED * self.rows.batch:
            memory = tuple((_of(keys, kept), _of(values, kept)) for keys, values in self.memory)
            chosen = Rows.of(torch.searchsorted(kept, sentences), len(kept))
            picked = self._replace(memory=memory, visible=self.visible[kept], rows=chosen, ancestors=ancestors)
            return picked._cleared(kept)
        picked = self._replace(rows=Rows.of(sentences, self.rows.batch), ancestors=ancestors)
        if ancestors.shape[1] + picked.rows.width <= room_for(self.cleared):
            return picked
        return picked._cleared(torch.arange(self.rows.batch, device=sentences.device))

    def _cleared(self, sentences: Int[Tensor, " batch"]) -> "State":
        """With caches of `sentences` alone, which the rest is of already, and of the slots that hold a row's words."""
        needed = self.rows.spread(self.ancestors.unsqueeze(1)).any(1)
        most = int(needed.sum(1).max())
        slots = needed.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        return self._replace(
            caches=tuple(cache.keep(sentences, slots) for cache in self.caches),
            ancestors=self.ancestors.take_along_dim(slots[self.rows.sentences], dim=1),
            cleared=most,
        )


class TransformerModel(TranslationModel):
    """Encoder, decoder and readout. `forward` is for training; `start` and `step` are what search knows."""

    def __init__(self, spec: Transformer, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        blank = spec.symbols.begin if spec.first_input == "zeros" else None
        self.source_embedding = Embedding(source, spec.positions.build(spec.d_model), spec.dropout)
        self.target_embedding = Embedding(target, spec.positions.build(spec.d_model), spec.dropout, blank)
        self.encoder = stack([EncoderLayer(spec.layer) for _ in range(spec.encoder_layers)])
        self.decoder = stack([DecoderLayer(spec.layer) for _ in range(spec.decoder_layers)])
        self.encoder_norm, self.decoder_norm = self._last_norm(), self._last_norm()
        self.readout = spec.readout.build(target, spec.symbols.pad)
        self.longest = spec.positions.longest if isinstance(spec.positions, Learned) else None
        if not source.is_meta:  # weights that are to be read are not drawn first
            self._initialise()

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's states after each word of `target_in`, from which `readout` tells the next."""
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
        """The encoder's output z for words x (section 3.1)."""
        states = self.source_embedding(source)
        for layer in self.encoder:
            states = layer(states, visible.unsqueeze(1))
        normalised: Tensor = self.encoder_norm(states)
        return normalised

    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], room: int) -> State:
        """The state before the first word: one row a sentence; at most `room` words will be written."""
        assert self.longest is None or room <= self.longest, "the caller bounds `room` by the model's positions"
        return State(
            memory=self._remembered(source, visible),
            visible=visible.unsqueeze(1),
            caches=tuple(Cache() for _ in self.decoder),
            rows=Rows.of(torch.arange(len(source), device=source.device), len(source)),
            ancestors=visible.new_zeros(len(source), 0),
            length=0,
        )

    def step(self, words: Int[Tensor, "rows new"], state: State) -> tuple[Float[Tensor, "rows new vocabulary"], State]:
        """Log-probabilities of the word after each of `words`, and the state with them written."""
        visible, ancestors = _slots(state.ancestors, state.rows, words.shape[1])
        states = self.target_embedding(words, state.length)
        for layer, memory, cache in zip(self.decoder, state.memory, state.caches, strict=True):
            states = layer(states, memory, state.visible, Past(cache, visible, state.rows))
        log_probabilities = self.readout(self.decoder_norm(states))
        return log_probabilities, state._replace(ancestors=ancestors, length=state.length + words.shape[1])

    def _remembered(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[tuple[Keys, Values], ...]:
        """What attention over the source remembers, layer by layer.

        On a CPU a few sentences are read at a time, without the padding that longer ones elsewhere ask for.
        """
        at_once = len(source) if source.is_cuda else READ_AT_ONCE
        parts: list[list[tuple[Keys, Values]]] = [[] for _ in self.decoder]
        for words, seen in zip(source.split(at_once), visible.split(at_once), strict=True):
            if not source.is_cuda:
                longest = int(seen.any(0).nonzero().amax()) + 1
                words, seen = words[:, :longest], seen[:, :longest]
            encoded = self.encode(words, seen)
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

    @torch.no_grad()
    def _initialise(self) -> None:
        """Glorot-uniform matrices, embeddings N(0, 1/d_model), zero biases, as the released code has it.

        The text is silent. `fused-glorot` draws as one matrix what the released code multiplies as one: W^Q, W^K and
        W^V, and where attention is over the encoder's output W^K and W^V. At heads · d_k = d_model those three are
        smaller by 1/√2 than with `glorot`, and with the norm last the decoder finds the source in half the steps
        (docs/decisions/0015). `normal` draws every matrix and embedding N(0, 0.02²), as BERT did.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, LearnedPositions | Embedding):
                nn.init.normal_(module.weight, std=self.spec.d_model**-0.5)
        if self.spec.initialisation == "normal":
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=NORMAL)
            return
        over_encoder = {layer.cross for layer in self.decoder}
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                self._initialise_projections(module, over_encoder=module in over_encoder)

    def _initialise_projections(self, attention: MultiHeadAttention, *, over_encoder: bool) -> None:
        """W^Q, W^K and W^V, each with the bound of the matrix that it is drawn as part of."""
        keys = attention.spec.heads * attention.spec.d_k
        query, key, value = attention.query.weight, attention.key_value.weight[:keys], attention.key_value.weight[keys:]
        if self.spec.initialisation == "glorot":
            matrices = [[query], [key], [value]]
        else:
            matrices = [[query], [key, value]] if over_encoder else [[query, key, value]]
        for matrix in matrices:
            bound = (6 / (self.spec.d_model + sum(map(len, matrix)))) ** 0.5
            for part in matrix:
                part.uniform_(-bound, bound)


def _joined(
    parts: Sequence[Float[Tensor, "_ heads _ width"]], length: int
) -> Float[Tensor, "batch heads {length} width"]:
    """All sentences' keys or values, head by head, as the products of every step want them."""
    return torch.cat([functional.pad(part, (0, 0, 0, length - part.shape[2])) for part in parts])


def _in_columns(keys: Keys) -> Keys:
    """The same keys; on a CPU they lie in memory a column each, where a few queries' products with them are fastest."""
    return keys.mT.contiguous().mT if keys.is_cpu else keys


def _of(part: Tensor, sentences: Int[Tensor, " kept"]) -> Tensor:
    """The keys or values of the chosen sentences, in rows or columns as they were."""
    return part.index_select(0, sentences) if part.is_contiguous() else part.mT.index_select(0, sentences).mT


def _slots(
    ancestors: Bool[Tensor, "rows slots"], rows: Rows, new: int
) -> tuple[Bool[Tensor, "batch target more"], Bool[Tensor, "rows more"]]:
    """Masks over the cache after `new` words a row: what each new word may look at, and whose each slot is."""
    alone = torch.eye(rows.width, dtype=torch.bool, device=ancestors.device)
    before = torch.ones(new, new, dtype=torch.bool, device=ancestors.device).tril()
    own = torch.kron(alone, before).expand(rows.batch, -1, -1)
    visible = torch.cat([rows.spread(ancestors.unsqueeze(1).expand(-1, new, -1)), own], dim=2)
    mine = alone.repeat_interleave(new, dim=1)[rows.places - rows.sentences * rows.width]
    return visible, torch.cat([ancestors, mine], dim=1)
