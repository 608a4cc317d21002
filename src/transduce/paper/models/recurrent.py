"""Recurrent encoder-decoder models with attention (Bahdanau et al. 2015, Luong et al. 2015, Wu et al. 2016)."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from transduce.model.attention_scores import Bilinear, Compatibility, Dot, masked_softmax
from transduce.model.decoder_state import HypothesisRows
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.residual import Dropout
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    Vocabulary,
    embeddings,
    typed_module_list,
)
from transduce.paper.models.baseline import (
    BaselineModel,
    Encoded,
    Source,
    States,
    Tensors,
    Tokens,
    TokenVectors,
    Visible,
)
from transduce.paper.models.cells import Cell, run_cell

Memory = tuple[Float[Tensor, "batch source d_model"], Float[Tensor, "batch source annotation"]]
# Carried from token to token: the attention output, then the tensors of each layer of the decoder.
CarriedStates = tuple[Float[Tensor, "rows _"], ...]


class Recurrent(BaseModelSpec):
    """Settings of a recurrent encoder-decoder whose decoder attends to the encoder's hidden states.

    The encoder reads forwards, in both directions in every layer, or in both directions only in the first layer
    (`directions`). `attending` determines the decoder layer whose state is the query of the attention. With `top`, it
    is the top layer (Luong et al. 2015). With `bottom`, it is the bottom layer, and all higher layers read the
    attention output (in Wu et al. 2016, they read that of the previous step). If `input_feeding`, the bottom layer
    reads the attention output of the previous step. If `residual`, the input of a layer is added to its output from the
    third layer on.
    """

    kind: Literal["recurrent"] = "recurrent"
    d_model: int = Field(ge=1, description="Dimension of the embeddings and of the cells' hidden states.")
    encoder_layers: Layers = Field(default=2, description="Number of encoder layers.")
    decoder_layers: Layers = Field(default=2, description="Number of decoder layers.")
    cell: Cell = Field(description="Type of recurrent cell.")
    directions: Literal["forwards", "both", "both_first"] = Field(
        default="both",
        description="Whether the encoder reads forwards only, in both directions in every layer, or in both "
        "directions in the first layer only.",
    )
    compatibility: Compatibility = Field(
        default=Dot(), description="Function that computes the attention score of a decoder state and an encoder state."
    )
    attending: Literal["top", "bottom"] = Field(
        default="top",
        description="Decoder layer whose hidden state is the query of the attention: the top layer (Luong et al. "
        "2015) or the bottom layer (Wu et al. 2016).",
    )
    input_feeding: bool = Field(
        default=True, description="Whether each decoder step also reads the attention output of the previous step."
    )
    residual: bool = Field(
        default=False, description="Whether layers have residual connections, from the third layer on."
    )
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")

    @model_validator(mode="after")
    def _check_layers(self) -> "Recurrent":
        if self.attending == "bottom" and self.decoder_layers == 1:
            raise ValueError(
                "`attending: bottom` gives the attention output to the layers above, and there are none: "
                "set `decoder_layers` to 2 or more, or `attending: top`"
            )
        return self

    def build(self, vocabulary: Vocabulary) -> "RecurrentModel":
        """Builds the model, with weights that are initialised from torch's random number generator."""
        return RecurrentModel(self, vocabulary)

    def is_bidirectional(self, number: int) -> bool:
        """Returns True if layer `number` of the encoder reads in both directions."""
        return self.directions == "both" or (self.directions == "both_first" and number == 0)

    def input_width(self, number: int, annotation: int) -> int:
        """Returns the input width of decoder layer `number`; `annotation` is the width of the encoder's states."""
        bottom = self.attending == "bottom"
        reads_attention = self.input_feeding if number == 0 else bottom
        return self.d_model + (annotation if bottom else self.d_model) * reads_attention

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications per source token and per target token; see `BaseModelSpec.multiplications`."""
        source, inputs, d_model = 0, self.d_model, self.d_model
        for number in range(self.encoder_layers):
            cells = 2 if self.is_bidirectional(number) else 1
            source += cells * self.cell.multiplications(inputs, d_model)
            inputs = cells * d_model
        plain = isinstance(self.compatibility, Dot | Bilinear)
        source += 0 if plain and inputs == d_model else inputs * d_model
        target = sum(
            self.cell.multiplications(self.input_width(n, inputs), d_model) for n in range(self.decoder_layers)
        )
        target += (0 if plain else d_model**2) + self.compatibility.multiplications(1, d_model)
        target += (inputs + d_model) * d_model if self.attending == "top" else 0
        return source, target + length * (d_model + inputs)


class RecurrentEncoderLayer(nn.Module):
    """A layer with one cell that reads forwards and, if `bidirectional`, another cell that reads backwards."""

    def __init__(self, cell: Cell, inputs: int, d_model: int, bidirectional: bool) -> None:
        super().__init__()
        self.forwards = cell.build(inputs, d_model)
        self.backwards = cell.build(inputs, d_model) if bidirectional else None
        self.outputs = d_model * (2 if bidirectional else 1)

    def forward(
        self, states: Float[Tensor, "batch source inputs"], visible: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source outputs"], Float[Tensor, "batch outputs"]]:
        """Returns the hidden states of both directions, concatenated, and the last hidden state of each direction."""
        all_outputs, last = [], []
        for cell, backwards in ((self.forwards, False), (self.backwards, True)):
            if cell is not None:
                zeros = cell.begin(len(states), states)
                outputs, carried = run_cell(cell, states, zeros, visible, backwards=backwards)
                all_outputs.append(outputs)
                last.append(carried[0])
        return torch.cat(all_outputs, dim=-1), torch.cat(last, dim=-1)


class SourceAttention(nn.Module):
    """Attention with one head over the encoder's hidden states.

    The output is their weighted mean a or, if `combines`, s̄ = tanh(W_c [a; s] + b_c), where s is the decoder state.
    """

    def __init__(self, compatibility: Compatibility, d_model: int, annotation: int, combines: bool) -> None:
        super().__init__()
        self.compatibility = compatibility.build(1, d_model)
        # A dot product of states of the same width needs no projections.
        plain = isinstance(compatibility, Dot | Bilinear)
        self.query = nn.Identity() if plain else nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Identity() if plain and annotation == d_model else nn.Linear(annotation, d_model, bias=False)
        self.combine = nn.Linear(annotation + d_model, d_model) if combines else None
        self.outputs = d_model if combines else annotation

    def project_key_value(self, encoded: Float[Tensor, "batch source annotation"]) -> Memory:
        """Projects the encoder's hidden states to keys; the values are the hidden states themselves."""
        return self.key(encoded), encoded

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        rows: HypothesisRows | None = None,
    ) -> Float[Tensor, "rows new outputs"]:
        """Computes a or s̄ for each decoder state."""
        query = self.query(states)
        query = query if rows is None else rows.to_rectangle(query)
        scores = self.compatibility(query.unsqueeze(1), memory[0].unsqueeze(1)).squeeze(1)
        attended = masked_softmax(scores, visible.unsqueeze(1)) @ memory[1]
        attended = attended if rows is None else rows.from_rectangle(attended)
        if self.combine is None:
            return attended
        return torch.tanh(self.combine(torch.cat([attended, states], dim=-1)))


class RecurrentModel(BaselineModel):
    """A recurrent encoder-decoder whose decoder attends to the encoder's hidden states."""

    def __init__(self, spec: Recurrent, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source), TokenVectors(target)
        self.dropout = Dropout(spec.dropout)
        d_model, inputs = spec.d_model, spec.d_model
        layers = []
        for number in range(spec.encoder_layers):
            layers.append(RecurrentEncoderLayer(spec.cell, inputs, d_model, spec.is_bidirectional(number)))
            inputs = layers[-1].outputs
        self.encoder = typed_module_list(layers)
        self.decoder = typed_module_list(
            spec.cell.build(spec.input_width(number, inputs), d_model) for number in range(spec.decoder_layers)
        )
        self.bridges = typed_module_list(nn.Linear(inputs, d_model) for _ in range(spec.decoder_layers))
        self.attention = SourceAttention(spec.compatibility, d_model, inputs, combines=spec.attending == "top")
        self.readout = spec.readout.build(target, spec.symbols.pad)
        self._scale_input_weights()

    @torch.no_grad()
    def _scale_input_weights(self) -> None:
        """Multiplies the weights that read tokens by √d_model, as if each feature of an embedding had variance 1.

        The initial embedding of a token has a norm of about 1, because its table is shared with the softmax; the
        Transformer multiplies embeddings by √d_model instead (section 3.4). Without this factor, the hidden states
        after different tokens are nearly equal, especially in deep models: a model with four layers did not learn to
        copy in 800 steps (docs/experiments.md).
        """
        bottom = next(iter(self.encoder))
        for cell in (bottom.forwards, bottom.backwards, next(iter(self.decoder))):
            if cell is not None:
                cell.from_input.weight[:, : self.spec.d_model] *= self.spec.d_model**0.5

    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns keys, values and visible positions as memory, and the tensors carried before the first token.

        The carried tensors are an attention output of zeros and the initial states of the decoder's cells.
        """
        states = self.dropout(self.source_embedding(source))
        for number, layer in enumerate(self.encoder):
            outputs, last = layer(states, visible)
            states = self._add_residual(states, self.dropout(outputs), number)
        carried: list[Tensor] = [last.new_zeros(len(last), self.attention.outputs)]
        for bridge, cell in zip(self.bridges, self.decoder, strict=True):
            zeros = cell.begin(len(last), last)
            carried += [torch.tanh(bridge(last)).to(last.dtype), *zeros[1:]]
        return Encoded((*self.attention.project_key_value(states), visible), tuple(carried))

    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the hidden states after the new tokens, and the tensors that are carried to the next token.

        The hidden states are s̄ if the top layer attends, and those of the top layer if the bottom layer attends.
        """
        keys, values, visible = memory
        inputs = self.dropout(self.target_embedding(tokens))
        below = slice(1 if self.spec.attending == "bottom" else None)
        states, attended = [], []
        # With input feeding each step needs the attention output of the step before.
        for piece in inputs.split(1, dim=1) if self.spec.input_feeding else (inputs,):
            fed = torch.cat([piece, carried[0].unsqueeze(1)], dim=-1) if self.spec.input_feeding else piece
            state, carried = self._run_layers(below, fed, carried)
            output = self.dropout(self.attention(state, (keys, values), visible, rows))
            carried = (output[:, -1], *carried[1:])
            states.append(state)
            attended.append(output)
        if self.spec.attending == "top":
            return torch.cat(attended, dim=1), carried
        return self._run_layers(slice(1, None), torch.cat(states, dim=1), carried, torch.cat(attended, dim=1))

    def _run_layers(
        self,
        layers: slice,
        states: Float[Tensor, "rows new inputs"],
        carried: CarriedStates,
        attended: Float[Tensor, "rows new annotation"] | None = None,
    ) -> tuple[Float[Tensor, "rows new outputs"], CarriedStates]:
        """Runs the decoder's `layers` over the new tokens.

        If the attention output `attended` is given, each layer reads it in addition to the states.
        """
        next_carried = list(carried)
        for number, cell in list(enumerate(self.decoder))[layers]:
            part = slice(1 + number * cell.parts, 1 + (number + 1) * cell.parts)
            inputs = states if attended is None else torch.cat([states, attended], dim=-1)
            outputs, next_carried[part] = run_cell(cell, inputs, tuple(next_carried[part]))
            states = self._add_residual(states, self.dropout(outputs), number)
        return states, tuple(next_carried)

    def _add_residual(
        self, states: Float[Tensor, "rows length inputs"], outputs: Float[Tensor, "rows length outputs"], number: int
    ) -> Float[Tensor, "rows length outputs"]:
        """Adds the layer's input to its output if `residual` is set, from the third layer on."""
        return states + outputs if self.spec.residual and number >= 2 else outputs
