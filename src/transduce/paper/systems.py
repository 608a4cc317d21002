"""The rows of Table 2: what the paper prints of each system, and the model that stands for it at either scale."""

from typing import Any, NamedTuple

from transduce.recipe.presets import PRESETS, Values
from transduce.settings import merged

__all__ = ["PUBLISHED", "SYSTEMS", "Published", "System"]


class Published(NamedTuple):
    """A row of the paper's Table 2: BLEU on newstest2014, and the training's cost in floating-point operations."""

    name: str
    bleu_de: float | None = None
    bleu_fr: float | None = None
    operations_de: float | None = None
    operations_fr: float | None = None


class System(NamedTuple):
    """A system of ours: its name, the published row it stands beside, its sizes, and the rate it learns at."""

    name: str
    published: str | None
    preset: str
    small: Values
    peak: float = 0.003  # of the learning rate, at the small scale
    changes: Values | None = None  # to its sizes at either scale
    beside: str = "named in the text"  # what stands beside it where no row does

    def model(self, small: bool) -> Values:
        """The `model` section of its recipe."""
        model: Values = merged(self.small if small else PRESETS[self.preset]["model"], self.changes or {})
        return model


PUBLISHED = [
    Published("ByteNet", 23.75),
    Published("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    Published("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    Published("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    Published("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    Published("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    Published("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    Published("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    Published("Transformer (base model)", 27.3, 38.1, 3.3e18, 3.3e18),
    Published("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19),
]

DROPOUT = 0.2  # of every system at the small scale


def _small(kind: str, d_model: int, **more: Any) -> Values:
    """A small model of a family."""
    return {"kind": kind, "d_model": d_model, "dropout": DROPOUT, **more}


def _layers(number: int) -> Values:
    return {"encoder_layers": number, "decoder_layers": number}


def _transformer(d_model: int, heads: int, network: Values) -> Values:
    """Four layers a side, with first weights as small as those of `tiny`, for trainings as short as its own."""
    attention = {"kind": "attention", "heads": heads, "d_k": 32, "d_v": 32}
    parts = {"mixer": attention, "cross": attention, "feed_forward": network, "initialisation": "normal"}
    return _small("transformer", d_model, **_layers(4), **parts)


_BASE = _transformer(128, 4, {"kind": "feed_forward", "d_ff": 256})
_BLOCKS = [{"layers": 4, "width": 192, "kernel": 3}]

SYSTEMS = [
    System("bytenet", "ByteNet", "bytenet", _small("bytenet", 256, sets=2)),
    System(
        "rnnsearch",
        None,
        "rnnsearch",
        _small("recurrent", 256, **_layers(1), cell={"kind": "gru"}, compatibility={"kind": "additive"}),
    ),
    System(
        "luong", None, "luong", _small("recurrent", 256, **_layers(2), cell={"kind": "lstm"}, directions="forwards")
    ),
    System(
        "gnmt",
        "GNMT + RL",
        "gnmt",
        _small(
            "recurrent",
            192,
            **_layers(4),
            cell={"kind": "lstm"},
            directions="both_first",
            compatibility={"kind": "additive"},
            attending="bottom",
            residual=True,
        ),
    ),
    System("convs2s", "ConvS2S", "convs2s", _small("convolutional", 128, encoder=_BLOCKS, decoder=_BLOCKS)),
    System(
        "experts",
        "MoE",
        "experts",
        _transformer(
            128, 4, {"kind": "experts", "expert": {"kind": "feed_forward", "d_ff": 256}, "number": 8, "chosen": 2}
        ),
        changes={"norm": "pre"},  # with the norm last it learns nothing in this time (docs/experiments.md)
    ),
    System("neural-gpu", None, "neural-gpu", _small("neural_gpu", 64, layers=1, height=1), 0.01),
    System("memory-network", None, "memory-network", _small("memory_network", 128, hops=4, span=16)),
    System("base", "Transformer (base model)", "base", _BASE),
    # Explains the row above where training is short.
    System("pre-norm", None, "base", _BASE, changes={"norm": "pre"}, beside="the norm as in the later code"),
    # A wider model wants a lower rate, as section 5.3 has it; at 0.003 it does not find the source in this time.
    System("big", "Transformer (big)", "big", _transformer(256, 8, {"kind": "feed_forward", "d_ff": 512}), 0.001),
]
