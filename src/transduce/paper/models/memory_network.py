"""The end-to-end memory network, which reads a memory of tokens in several hops (Sukhbaatar et al. 2015)."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention_scores import masked_softmax
from transduce.model.decoder_state import HypothesisRows
from transduce.model.embedding import Sinusoidal
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.residual import Dropout
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    Vocabulary,
    check_shared,
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

DEVIATION = 0.1  # standard deviation of initial embeddings; scales sinusoids too, which would otherwise outweigh them


class MemoryNetwork(BaseModelSpec):
    """Settings of a memory network, whose memory holds the source tokens and the last `span` target tokens.

    Each of the `hops` scores its query u against the input embedding of every token, and adds the weighted mean of the
    output embeddings to u.

    `tying` determines which hops share their embedding tables. With `adjacent`, the output embeddings of a hop are the
    input embeddings of the next hop. With `layerwise`, all hops use the same two tables, and u is multiplied by a
    matrix in every hop. With `untied`, each hop has two tables of its own.
    """

    kind: Literal["memory_network"] = "memory_network"
    d_model: int = Field(ge=2, multiple_of=2, description="Dimension of the embeddings and of the query.")
    hops: Layers = Field(default=3, description="Number of times that the memory is read for each target token.")
    span: int = Field(default=16, ge=1, description="Number of most recent target tokens in the memory.")
    tying: Literal["adjacent", "layerwise", "untied"] = Field(
        default="adjacent",
        description="Embedding tables that the hops share: `adjacent` shares one table between consecutive hops, "
        "`layerwise` shares both tables among all hops, and `untied` shares none.",
    )
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")

    def build(self, vocabulary: Vocabulary) -> "MemoryNetworkModel":
        """Builds the model, with weights that are initialised from torch's random number generator."""
        return MemoryNetworkModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications per source token and per target token; see `BaseModelSpec.multiplications`.

        Encoding needs no multiplications.
        """
        between = self.d_model**2 if self.tying == "layerwise" else 0
        return 0, self.hops * (2 * self.d_model * (length + self.span) + between)


class MemoryTable(nn.Module):
    """The embeddings of source tokens, of target tokens, and of the distance to an earlier target token."""

    def __init__(self, vocabulary: Vocabulary, d_model: int, span: int, shared: bool) -> None:
        super().__init__()
        source = nn.Parameter(torch.empty(vocabulary.source, d_model))
        target = source if shared else nn.Parameter(torch.empty(vocabulary.target, d_model))
        self.source, self.target = TokenVectors(source, DEVIATION), TokenVectors(target, DEVIATION)
        self.ago = nn.Parameter(torch.empty(span, d_model))
        if not self.ago.is_meta:
            nn.init.normal_(self.ago, std=DEVIATION)


class MemoryVectors(NamedTuple):
    """The embeddings that a hop reads: those of the source tokens and those of the preceding target tokens."""

    source: Float[Tensor, "rows source d_model"]
    written: Float[Tensor, "rows new span d_model"]


class MemoryNetworkModel(BaselineModel):
    """A memory network, which has no recurrence or layers but attends to its memory in several hops."""

    def __init__(self, spec: MemoryNetwork, vocabulary: Vocabulary) -> None:
        super().__init__()
        check_shared(spec, vocabulary)
        self.spec, self.vocabulary = spec, vocabulary
        number = {"adjacent": spec.hops + 1, "layerwise": 2, "untied": 2 * spec.hops}[spec.tying]
        shared = spec.embeddings == "shared"
        tables = [MemoryTable(vocabulary, spec.d_model, spec.span, shared) for _ in range(number)]
        self.tables = typed_module_list(tables)
        self.positions = Sinusoidal().build(spec.d_model)
        between = spec.tying == "layerwise"
        self.between = nn.Linear(spec.d_model, spec.d_model, bias=False) if between else nn.Identity()
        self.dropout = Dropout(spec.dropout)
        self.readout = spec.readout.build(tables[-1].target.weight, spec.symbols.pad)

    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns the source tokens as memory, and padding for the positions before the first target token."""
        return Encoded((source, visible), (source.new_full((len(source), self.spec.span), self.spec.symbols.pad),))

    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the query u after the last hop for each of `tokens`, and the last `span` tokens.

        If fewer than `span` tokens have been decoded so far, the earlier positions contain padding.
        """
        source, visible = memory if rows is None else (tensor[rows.sentences] for tensor in memory)
        (before,) = carried
        spec, new = self.spec, tokens.shape[1]
        # Window i ends with token i itself.
        windows = torch.cat([before[:, 1:], tokens], dim=1).unfold(1, spec.span, 1)
        visible_memory = torch.cat([visible.unsqueeze(1).expand(-1, new, -1), windows != spec.symbols.pad], dim=2)
        query = self.tables_of(0)[0].target(tokens) + DEVIATION * self.positions(first, new)
        for hop in range(spec.hops):
            inputs, outputs = (
                MemoryVectors(
                    table.source(source) + DEVIATION * self.positions(0, source.shape[1]),
                    table.target(windows.flatten(1)).unflatten(1, windows.shape[1:]) + table.ago,
                )
                for table in self.tables_of(hop)
            )
            scores = torch.cat(
                [query @ inputs.source.transpose(1, 2), torch.einsum("rnd,rnsd->rns", query, inputs.written)], dim=2
            )
            weights = masked_softmax(scores, visible_memory)
            from_source, from_written = weights.split([source.shape[1], spec.span], dim=2)
            attended = from_source @ outputs.source + torch.einsum("rns,rnsd->rnd", from_written, outputs.written)
            # ReLU is applied to one half of the features (section 5 of Sukhbaatar et al. 2015).
            linear, rectified = (self.between(query) + self.dropout(attended)).chunk(2, dim=-1)
            query = torch.cat([linear, functional.relu(rectified)], dim=-1)
        return query, (torch.cat([before, tokens], dim=1)[:, -spec.span :],)

    def tables_of(self, hop: int) -> tuple[MemoryTable, MemoryTable]:
        """Returns the tables of the input embeddings and of the output embeddings of a hop."""
        tables = list(self.tables)
        first = {"adjacent": hop, "layerwise": 0, "untied": 2 * hop}[self.spec.tying]
        return tables[first], tables[first + 1]
