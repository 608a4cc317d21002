"""Recurrent encoder and decoder with attention (Bahdanau et al. 2015, Luong et al. 2015, Wu et al. 2016)."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from transduce.model.attention_scores import Bilinear, Compatibility, Dot
from transduce.model.baselines.cells import Cell, ran
from transduce.model.baselines.token_vectors import TokenVectors
from transduce.model.decoder_state import RecurrentState
from transduce.model.dropout import Dropout
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)

Memory = tuple[Float[Tensor, "batch source d_model"], Float[Tensor, "batch source annotation"]]
# From token to token: what was attended to, then what each layer of the decoder carries.
Past = tuple[Float[Tensor, "rows _"], ...]


class Recurrent(BaseModelSpec):
    """Cells in `encoder_layers` and `decoder_layers`, between which the decoder attends to the encoder's states.

    `directions`: the encoder reads forwards, both ways in every layer, or both ways in the first layer alone.
    `attending`: the state of the decoder's top layer attends (Luong et al.), or that of its bottom layer, and all
    layers above read what it attended to (Wu et al., whose upper layers read what it attended to a step before).
    `input_feeding` gives the bottom layer what was attended to in the step before. `residual` adds a layer's input to
    its output from the third layer on.
    """

    kind: Literal["recurrent"] = "recurrent"
    d_model: int = Field(ge=1)
    encoder_layers: Layers = 2
    decoder_layers: Layers = 2
    cell: Cell
    directions: Literal["forwards", "both", "both_first"] = "both"
    compatibility: Compatibility = Dot()
    attending: Literal["top", "bottom"] = "top"
    input_feeding: bool = True
    residual: bool = False
    readout: ReadoutSpec = Tied()

    @model_validator(mode="after")
    def _something_is_above(self) -> "Recurrent":
        if self.attending == "bottom" and self.decoder_layers == 1:
            raise ValueError(
                "`attending: bottom` hands what was attended to to the layers above, and there are none: "
                "set `decoder_layers` to 2 or more, or `attending: top`"
            )
        return self

    def build(self, vocabulary: Vocabulary) -> "RecurrentModel":
        """The model with fresh weights, drawn from torch's generator."""
        return RecurrentModel(self, vocabulary)

    def both(self, number: int) -> bool:
        """Whether layer `number` of the encoder reads both ways."""
        return self.directions == "both" or (self.directions == "both_first" and number == 0)

    def reads(self, number: int, annotation: int) -> int:
        """How wide the input of layer `number` of the decoder is, if the encoder's states are `annotation` wide."""
        bottom = self.attending == "bottom"
        hears = self.input_feeding if number == 0 else bottom
        return self.d_model + (annotation if bottom else self.d_model) * hears

    def products(self, length: int) -> tuple[int | float, int | float]:
        """As `FamilySpec.products`."""
        read, inputs, d_model = 0, self.d_model, self.d_model
        for number in range(self.encoder_layers):
            cells = 2 if self.both(number) else 1
            read += cells * self.cell.products(inputs, d_model)
            inputs = cells * d_model
        plain = isinstance(self.compatibility, Dot | Bilinear)
        read += 0 if plain and inputs == d_model else inputs * d_model
        written = sum(self.cell.products(self.reads(n, inputs), d_model) for n in range(self.decoder_layers))
        written += (0 if plain else d_model**2) + self.compatibility.products(1, d_model)
        written += (inputs + d_model) * d_model if self.attending == "top" else 0
        return read, written + length * (d_model + inputs)


class EncoderLayer(nn.Module):
    """One cell along the sentence, or two, the second from its end."""

    def __init__(self, cell: Cell, inputs: int, d_model: int, both: bool) -> None:
        super().__init__()
        self.forwards = cell.build(inputs, d_model)
        self.backwards = cell.build(inputs, d_model) if both else None
        self.outputs = d_model * (2 if both else 1)

    def forward(
        self, states: Float[Tensor, "batch source inputs"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source outputs"], Float[Tensor, "batch outputs"]]:
        """Every state, side by side with that of the other direction, and the last of each."""
        given, ends = [], []
        for cell, backwards in ((self.forwards, False), (self.backwards, True)):
            if cell is not None:
                begun = cell.begin(len(states), states)
                outputs, carried = ran(cell, states, begun, visible, backwards=backwards)
                given.append(outputs)
                ends.append(carried[0])
        return torch.cat(given, dim=-1), torch.cat(ends, dim=-1)


class SourceAttention(nn.Module):
    """One head over the encoder's states, which gives their mean a, or with it s̄ = tanh(W_c [a; s] + b_c)."""

    def __init__(self, compatibility: Compatibility, d_model: int, annotation: int, combines: bool) -> None:
        super().__init__()
        self.compatibility = compatibility.build(1, d_model)
        # A plain dot product compares the states themselves, where they are equally wide.
        plain = isinstance(compatibility, Dot | Bilinear)
        self.query = nn.Identity() if plain else nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Identity() if plain and annotation == d_model else nn.Linear(annotation, d_model, bias=False)
        self.combine = nn.Linear(annotation + d_model, d_model) if combines else None
        self.outputs = d_model if combines else annotation

    def remember(self, encoded: Float[Tensor, "batch source annotation"]) -> Memory:
        """Keys and values, once a sentence."""
        return self.key(encoded), encoded

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        rows: HypothesisRows | None = None,
    ) -> Float[Tensor, "rows new outputs"]:
        """a or s̄ for each state."""
        query = self.query(states)
        spread = query if rows is None else rows.spread(query)
        scores = self.compatibility(spread.unsqueeze(1), memory[0].unsqueeze(1)).squeeze(1)
        scores = scores.masked_fill(~visible.unsqueeze(1), torch.finfo(scores.dtype).min / 2)
        attended = scores.softmax(-1) @ memory[1]
        attended = attended if rows is None else rows.collect(attended)
        if self.combine is None:
            return attended
        combined: Tensor = torch.tanh(self.combine(torch.cat([attended, states], dim=-1)))
        return combined


class RecurrentModel(TranslationModel):
    """Reads the source into a state a token; writes with cells that attend to them."""

    def __init__(self, spec: Recurrent, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        deviation = spec.d_model**-0.5
        self.source_embedding, self.target_embedding = TokenVectors(source, deviation), TokenVectors(target, deviation)
        self.dropout = Dropout(spec.dropout)
        d_model, inputs = spec.d_model, spec.d_model
        layers = []
        for number in range(spec.encoder_layers):
            layers.append(EncoderLayer(spec.cell, inputs, d_model, spec.both(number)))
            inputs = layers[-1].outputs
        self.encoder = typed_module_list(layers)
        self.decoder = typed_module_list(
            spec.cell.build(spec.reads(number, inputs), d_model) for number in range(spec.decoder_layers)
        )
        self.bridges = typed_module_list(nn.Linear(inputs, d_model) for _ in range(spec.decoder_layers))
        self.attention = SourceAttention(spec.compatibility, d_model, inputs, combines=spec.attending == "top")
        self.readout = spec.readout.build(target, spec.symbols.pad)
        self._hear_words()

    @torch.no_grad()
    def _hear_words(self) -> None:
        """Draws what reads tokens √d_model larger, as if each of their features had the variance 1.

        A fresh token has the length 1, for the softmax shares its table; the Transformer multiplies it by √d_model
        (section 3.4). Cells that hear it as it is say nearly the same after every token, deeper ones the more so: four
        layers learnt nothing of copying in 800 steps (docs/experiments.md).
        """
        bottom = next(iter(self.encoder))
        for cell in (bottom.forwards, bottom.backwards, next(iter(self.decoder))):
            if cell is not None:
                cell.from_input.weight[:, : self.spec.d_model] *= self.spec.d_model**0.5

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The last of the decoder's states after each token of `target_in`: s̄, or the top layer's."""
        memory, carried = self._read(source, visible)
        states, _ = self._write(target_in, memory, visible, carried, None)
        return states

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> RecurrentState:
        """The state before the first token."""
        memory, carried = self._read(source, visible)
        return RecurrentState.of((*memory, visible), carried)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""
        keys, values, visible = state.memory
        states, carried = self._write(tokens, (keys, values), visible, state.carried, state.rows)
        return self.readout(states), state._replace(carried=carried)

    def _read(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]) -> tuple[Memory, Past]:
        """What is attended to, and what is carried to the first token: zeros attended to, a state for each layer."""
        states = self.dropout(self.source_embedding(source))
        for number, layer in enumerate(self.encoder):
            raised, last = layer(states, visible)
            states = self._added(states, self.dropout(raised), number)
        carried: list[Tensor] = [last.new_zeros(len(last), self.attention.outputs)]
        for bridge, cell in zip(self.bridges, self.decoder, strict=True):
            begun = cell.begin(len(last), last)
            carried += [torch.tanh(bridge(last)).to(last.dtype), *begun[1:]]
        return self.attention.remember(states), tuple(carried)

    def _write(
        self,
        tokens: Int[Tensor, "rows new"],
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        carried: Past,
        rows: HypothesisRows | None,
    ) -> tuple[Float[Tensor, "rows new d_model"], Past]:
        """The last states of each new token and what is carried after them; a layer that no step feeds runs along."""
        inputs = self.dropout(self.target_embedding(tokens))
        below = slice(1 if self.spec.attending == "bottom" else None)
        states, attended = [], []
        # What was attended to is needed one step later, so that steps wait for each other up to the attention.
        for read in inputs.split(1, dim=1) if self.spec.input_feeding else (inputs,):
            fed = torch.cat([read, carried[0].unsqueeze(1)], dim=-1) if self.spec.input_feeding else read
            state, carried = self._along(below, fed, carried)
            found = self.dropout(self.attention(state, memory, visible, rows))
            carried = (found[:, -1], *carried[1:])
            states.append(state)
            attended.append(found)
        if self.spec.attending == "top":
            return torch.cat(attended, dim=1), carried
        return self._along(slice(1, None), torch.cat(states, dim=1), carried, torch.cat(attended, dim=1))

    def _along(
        self,
        layers: slice,
        states: Float[Tensor, "rows new inputs"],
        carried: Past,
        attended: Float[Tensor, "rows new annotation"] | None = None,
    ) -> tuple[Float[Tensor, "rows new outputs"], Past]:
        """Some layers of the decoder along the new tokens, each of which reads what was `attended` to as well."""
        after = list(carried)
        for number, cell in list(enumerate(self.decoder))[layers]:
            own = slice(1 + number * cell.parts, 1 + (number + 1) * cell.parts)
            inputs = states if attended is None else torch.cat([states, attended], dim=-1)
            raised, after[own] = ran(cell, inputs, tuple(after[own]))
            states = self._added(states, self.dropout(raised), number)
        return states, tuple(after)

    def _added(
        self, states: Float[Tensor, "rows length inputs"], raised: Float[Tensor, "rows length outputs"], number: int
    ) -> Float[Tensor, "rows length outputs"]:
        """With the layer's input added, where the spec says so and both are as wide."""
        return states + raised if self.spec.residual and number >= 2 else raised
