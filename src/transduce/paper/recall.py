"""What a mixer alone can carry over a distance: the first of D + 1 symbols, asked for at the last."""

import copy
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from transduce.model import Attention, FeedForward
from transduce.model.baselines.cells import Cell, FactorisedLstm, Gru, Lstm, Plain, RecurrentCell, run_cell
from transduce.model.layers import EncoderLayer, LayerSpec
from transduce.model.mixers import Convolution, LocalAttention, Mixer, SeparableConvolution
from transduce.model.positions import Sinusoidal
from transduce.paper.provenance import on, program
from transduce.paper.record import Record, add_record, records
from transduce.runtime.device import describe_environment
from transduce.settings import validated
from transduce.storage.locks import LockHeldError, exclusive_lock

D_MODEL, LAYERS, SYMBOLS = 64, 4, 16
DISTANCES = (4, 8, 16, 32, 64, 128)
BATCH, RATE, STEPS, TESTED = 64, 1e-3, 400, 1024

MIXERS: dict[str, Mixer | Cell] = {
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
    """What is found of a mixer at a distance."""

    accuracy: float
    fresh_gradient: float
    made: str
    when: str = ""  # in UTC


class Recalled(NamedTuple):
    """What a mixer recalled at a distance, and how large the gradient of the last state by the first symbol was."""

    mixer: str
    distance: int
    accuracy: float
    fresh_gradient: float  # before training, by that of the last state by the last symbol
    made: str  # by which program, on what


class Recaller(nn.Module):
    """Symbols in, layers of one mixer, the first symbol out of the last state."""

    def __init__(self, mixer: Mixer | Cell) -> None:
        super().__init__()
        self.tokens = nn.Embedding(SYMBOLS, D_MODEL)
        self.positions = Sinusoidal().build(D_MODEL)
        self.layers = nn.ModuleList(_layer(mixer) for _ in range(LAYERS))
        self.readout = nn.Linear(D_MODEL, SYMBOLS)

    def states(self, vectors: Tensor) -> Tensor:
        """The layers over vectors of words and positions."""
        for layer in self.layers:
            vectors = layer(vectors)
        return vectors

    def vectors(self, words: Tensor) -> Tensor:
        """Words and where they stand."""
        placed: Tensor = self.tokens(words) + self.positions(0, words.shape[1])
        return placed

    def forward(self, words: Tensor) -> Tensor:
        """Scores of each symbol."""
        scores: Tensor = self.readout(self.states(self.vectors(words))[:, -1])
        return scores


class _Attending(nn.Module):
    """A layer of the encoder."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        spec = LayerSpec(
            d_model=D_MODEL,
            mixer=mixer,
            cross=Attention(heads=1, d_k=1, d_v=1),  # the encoder has none
            feed_forward=FeedForward(d_ff=2 * D_MODEL),
            norm="pre",
            norm_epsilon=1e-5,
            dropout=0.0,
        )
        self.layer = EncoderLayer(spec)

    def forward(self, states: Tensor) -> Tensor:
        """Everything is visible."""
        visible = torch.ones(len(states), 1, states.shape[1], dtype=torch.bool, device=states.device)
        raised: Tensor = self.layer(states, visible).states
        return raised


class _Recurrent(nn.Module):
    """A cell along the sequence."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell: RecurrentCell = cell.build(D_MODEL, D_MODEL)

    def forward(self, states: Tensor) -> Tensor:
        """Its outputs."""
        return run_cell(self.cell, states, self.cell.begin(len(states), states))[0]


def _layer(mixer: Mixer | Cell) -> nn.Module:
    """One layer of whichever."""
    return _Recurrent(mixer) if isinstance(mixer, Plain | Lstm | Gru | FactorisedLstm) else _Attending(mixer)


def recall(work: Path, train: bool, device: torch.device, say: Callable[[str], None]) -> list[Recalled]:
    """Every mixer at every distance, each trained from fresh weights for as many steps, unless that was done before."""
    if train:
        try:
            with exclusive_lock(work / "mixers", "experiment"):
                _recall_all(work, device, say)
        except LockHeldError:
            say("the mixers are left to the process that trains them; give the command again when that has ended")
    known = (_known(work, name, distance) for name in MIXERS for distance in DISTANCES)
    return [each for each in known if each is not None]


def _recall_all(work: Path, device: torch.device, say: Callable[[str], None]) -> None:
    """Trains what is not known yet, and writes it down, one distance after the other."""
    for name, mixer in MIXERS.items():
        began, missing = time.monotonic(), [each for each in DISTANCES if _known(work, name, each) is None]
        for distance in missing:
            torch.manual_seed(1)
            model = Recaller(mixer).to(device)
            fresh = _fresh_gradient(model, distance)
            when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            found = RecallRecord(
                _learnt(model, distance), fresh, f"{program()}, {on(describe_environment(device))}", when
            )
            add_record(work, Record(name, _settings(name, distance), found._asdict()))
        if missing:
            say(f"{name}: {time.monotonic() - began:.0f} s")


def _known(work: Path, name: str, distance: int) -> Recalled | None:
    """What was found before, with the settings of today; the latest where it was found more than once."""
    same = (record for record in records(work, name) if _are_of(name, record.recipe) == _settings(name, distance))
    known = [found for record in same if (found := record.told(RecallRecord))]
    if not known:
        return None
    last = max(known, key=lambda found: found.when)
    return Recalled(name, distance, last.accuracy, last.fresh_gradient, last.made)


def _are_of(name: str, settings: Any) -> Any:
    """Settings as they were written; what they do not say yet of the mixer is as by default."""
    try:
        mixer = validated(type(MIXERS[name]), settings["mixer"], place=name)
    except (KeyError, TypeError, ValueError):
        return None
    return {**settings, "mixer": mixer.as_dictionary()}


def _settings(name: str, distance: int) -> dict[str, Any]:
    """All that decides on what is recalled."""
    sizes = {"d_model": D_MODEL, "layers": LAYERS, "symbols": SYMBOLS, "mixer": MIXERS[name].as_dictionary()}
    return {**sizes, "distance": distance, "batch": BATCH, "rate": RATE, "steps": STEPS, "tested": TESTED}


def _learnt(model: Recaller, distance: int) -> float:
    """Trains; gives the share of new sequences whose first symbol is recalled."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(distance)

    def drawn(rows: int) -> Tensor:
        return torch.randint(SYMBOLS, (rows, distance + 1), generator=generator).to(device)

    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        words = drawn(BATCH)
        optimiser.zero_grad()
        functional.cross_entropy(model(words), words[:, 0]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    with torch.inference_mode():
        words = drawn(TESTED)
        return float((model(words).argmax(-1) == words[:, 0]).double().mean())


def _fresh_gradient(model: Recaller, distance: int) -> float:
    """‖∂ last state / ∂ first vector‖ by that of the last vector; in float64, since the square of a small one is 0."""
    model = copy.deepcopy(model).double()
    words = torch.randint(SYMBOLS, (8, distance + 1), generator=torch.Generator().manual_seed(distance))
    vectors = model.vectors(words.to(next(model.parameters()).device)).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.states(vectors)[:, -1].square().sum(), vectors)
    sizes = gradient.norm(dim=-1).mean(0)
    return float(sizes[0] / sizes[-1])
