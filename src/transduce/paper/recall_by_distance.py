"""Measures how well a stack of layers with a single kind of mixer recalls a symbol over a distance.

The model reads a sequence of D + 1 symbols and must predict the first symbol from its state at the last one.
"""

import copy
import datetime
import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Attention
from transduce.model.embedding import Sinusoidal
from transduce.model.feed_forward import FeedForward
from transduce.model.layers import EncoderLayer, LayerSpec
from transduce.model.local_attention import LocalAttention
from transduce.model.mixer import MixerSpec
from transduce.paper.finished_runs import Record, add_record, read_records
from transduce.paper.models.cells import Cell, FactorisedLstm, Gru, Lstm, Plain, RecurrentCell, run_cell
from transduce.paper.models.convolution_mixers import Convolution, SeparableConvolution
from transduce.paper.provenance import describe_machine, program_version
from transduce.runtime.device import describe_environment
from transduce.storage.locks import LockHeldError, exclusive_lock

_log = logging.getLogger("transduce")

D_MODEL, LAYERS, SYMBOLS = 64, 4, 16
DISTANCES = (4, 8, 16, 32, 64, 128)
BATCH, RATE, STEPS, TESTED = 64, 1e-3, 400, 1024

MIXERS: dict[str, MixerSpec | Cell] = {
    "attention": Attention(heads=4, d_k=16, d_v=16),
    "attention, 4 neighbours": LocalAttention(heads=4, d_k=16, d_v=16, neighbours=4),
    "convolution, k 5": Convolution(kernel=5),
    "separable convolution, k 5": SeparableConvolution(kernel=5),
    "tanh cell": Plain(),
    "LSTM": Lstm(),
    "GRU": Gru(),
    "factorised LSTM, rank 16": FactorisedLstm(rank=16),
}


class RecallRecord(NamedTuple):
    """The result of a mixer at a distance, as it is recorded."""

    accuracy: float
    fresh_gradient: float
    made_by: str
    when: str = ""  # in UTC


class RecallResult(NamedTuple):
    """The accuracy of a mixer at a distance, and its gradient before training."""

    mixer: str
    distance: int
    accuracy: float
    fresh_gradient: float  # of the last state with respect to the first symbol, relative to that for the last symbol
    made_by: str  # program and machine


class Recaller(nn.Module):
    """Predicts the first symbol of a sequence from the last hidden state of layers with one kind of mixer."""

    def __init__(self, mixer: MixerSpec | Cell) -> None:
        super().__init__()
        self.tokens = nn.Embedding(SYMBOLS, D_MODEL)
        self.positions = Sinusoidal().build(D_MODEL)
        self.layers = nn.ModuleList(
            _RecurrentLayer(mixer) if isinstance(mixer, Plain | Lstm | Gru | FactorisedLstm) else _AttentionLayer(mixer)
            for _ in range(LAYERS)
        )
        self.readout = nn.Linear(D_MODEL, SYMBOLS)

    def embed(self, symbols: Tensor) -> Tensor:
        """Returns the embeddings of the symbols plus those of their positions [rows, D + 1, d_model]."""
        vectors: Tensor = self.tokens(symbols) + self.positions(0, symbols.shape[1])
        return vectors

    def states(self, vectors: Tensor) -> Tensor:
        """Returns the hidden states after all layers, for the given embeddings."""
        for layer in self.layers:
            vectors = layer(vectors)
        return vectors

    def forward(self, symbols: Tensor) -> Tensor:
        """Returns a score for each symbol [rows, symbols]."""
        scores: Tensor = self.readout(self.states(self.embed(symbols))[:, -1])
        return scores


class _AttentionLayer(nn.Module):
    """An encoder layer in which all positions are visible to each other."""

    def __init__(self, mixer: MixerSpec) -> None:
        super().__init__()
        spec = LayerSpec(
            d_model=D_MODEL,
            mixer=mixer,
            cross=Attention(heads=1, d_k=1, d_v=1),  # required; encoder layers do not build it
            feed_forward=FeedForward(d_ff=2 * D_MODEL),
            norm="pre",
            norm_epsilon=1e-5,
            dropout=0.0,
        )
        self.layer = EncoderLayer(spec)

    def forward(self, states: Tensor) -> Tensor:
        visible = torch.ones(len(states), 1, states.shape[1], dtype=torch.bool, device=states.device)
        outputs: Tensor = self.layer(states, visible).states
        return outputs


class _RecurrentLayer(nn.Module):
    """A layer that runs a recurrent cell along the sequence."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell: RecurrentCell = cell.build(D_MODEL, D_MODEL)

    def forward(self, states: Tensor) -> Tensor:
        return run_cell(self.cell, states, self.cell.begin(len(states), states))[0]


def run_recall(work: Path, train: bool, device: torch.device) -> list[RecallResult]:
    """Returns the recorded results of every mixer and distance; if `train`, first trains those that are missing."""
    if train:
        try:
            with exclusive_lock(work / "mixers", "experiment"):
                for name, mixer in MIXERS.items():
                    began = time.monotonic()
                    missing = [distance for distance in DISTANCES if _read_result(work, name, distance) is None]
                    for distance in missing:
                        torch.manual_seed(1)
                        model = Recaller(mixer).to(device)
                        gradient = _fresh_gradient(model, distance)
                        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                        made_by = f"{program_version()}, {describe_machine(describe_environment(device))}"
                        result = RecallRecord(_train_and_test(model, distance), gradient, made_by, when)
                        add_record(work, Record(name, _settings(name, distance), result._asdict()))
                    if missing:
                        _log.info(f"{name}: {time.monotonic() - began:.0f} s")
        except LockHeldError:
            _log.info("another process trains the mixers; run this command again when that process has ended")
    results = (_read_result(work, name, distance) for name in MIXERS for distance in DISTANCES)
    return [result for result in results if result is not None]


def _read_result(work: Path, name: str, distance: int) -> RecallResult | None:
    """Returns the latest result that was recorded with the current settings, or None if there is none."""
    settings = _settings(name, distance)
    same = (record for record in read_records(work, name) if record.recipe == settings)
    results = [result for record in same if (result := record.parse(RecallRecord))]
    if not results:
        return None
    latest = max(results, key=lambda result: result.when)
    return RecallResult(name, distance, latest.accuracy, latest.fresh_gradient, latest.made_by)


def _settings(name: str, distance: int) -> dict[str, Any]:
    """Returns all settings on which a result depends, as they are recorded."""
    sizes = {"d_model": D_MODEL, "layers": LAYERS, "symbols": SYMBOLS, "mixer": MIXERS[name].as_dictionary()}
    return {**sizes, "distance": distance, "batch": BATCH, "rate": RATE, "steps": STEPS, "tested": TESTED}


def _train_and_test(model: Recaller, distance: int) -> float:
    """Trains the model, and returns the share of new sequences whose first symbol it recalls."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(distance)

    def draw(rows: int) -> Tensor:
        return torch.randint(SYMBOLS, (rows, distance + 1), generator=generator).to(device)

    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        symbols = draw(BATCH)
        optimiser.zero_grad()
        functional.cross_entropy(model(symbols), symbols[:, 0]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    with torch.inference_mode():
        symbols = draw(TESTED)
        return float((model(symbols).argmax(-1) == symbols[:, 0]).double().mean())


def _fresh_gradient(model: Recaller, distance: int) -> float:
    """Computes ‖∂ last state / ∂ first vector‖ divided by ‖∂ last state / ∂ last vector‖.

    The computation uses float64, because the square of a small gradient is rounded to 0 in float32.
    """
    model = copy.deepcopy(model).double()
    symbols = torch.randint(SYMBOLS, (8, distance + 1), generator=torch.Generator().manual_seed(distance))
    vectors = model.embed(symbols.to(next(model.parameters()).device)).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.states(vectors)[:, -1].square().sum(), vectors)
    sizes = gradient.norm(dim=-1).mean(0)
    return float(sizes[0] / sizes[-1])
