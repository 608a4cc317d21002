"""The rows of Table 2: the paper's figures of each system, and the models that we train beside them."""

from typing import NamedTuple

from transduce.paper.system_presets import PRESETS
from transduce.recipe.presets import Values
from transduce.settings import merged


class Published(NamedTuple):
    """A row of the paper's Table 2: BLEU on newstest2014, and floating-point operations of training."""

    name: str
    bleu_de: float | None = None
    bleu_fr: float | None = None
    operations_de: float | None = None
    operations_fr: float | None = None


class System(NamedTuple):
    """A system that we train: its model at either scale, and the paper's row beside it."""

    name: str
    published: str | None  # row of the paper's table
    preset: str  # of its model at the paper's scale
    small: Values  # settings of its model at the small scale
    peak: float = 0.003  # of the learning rate, at the small scale
    changes: Values | None = None  # to its model at either scale
    remark: str = "named in the text"  # printed in the place of a row of the paper

    def model(self, small: bool) -> Values:
        """Returns the `model` section of its recipe."""
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


def _small(kind: str, d_model: int, **settings: object) -> Values:
    return {"kind": kind, "d_model": d_model, "dropout": DROPOUT, **settings}


def _layers(number: int) -> Values:
    return {"encoder_layers": number, "decoder_layers": number}


def _transformer(d_model: int, heads: int, feed_forward: Values) -> Values:
    """Returns a Transformer of four layers a side, with the small initial weights of `tiny`: trainings are short."""
    attention = {"kind": "attention", "heads": heads, "d_k": 32, "d_v": 32}
    parts = {"mixer": attention, "cross": attention, "feed_forward": feed_forward, "initialisation": "normal"}
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
    # Short trainings depend on the place of the norm: this row is to be compared with the one above.
    System("pre-norm", None, "base", _BASE, changes={"norm": "pre"}, remark="the norm as in the later code"),
    # A wider model needs a lower rate (section 5.3); at 0.003 it learns no attention to the source in this time.
    System("big", "Transformer (big)", "big", _transformer(256, 8, {"kind": "feed_forward", "d_ff": 512}), 0.001),
]
