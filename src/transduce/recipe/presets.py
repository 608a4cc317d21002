"""Presets: named models with settings for training them. A recipe overrides values of the preset that it names.

`base` and `big` are the models of the paper (sections 3 and 5), and `released-2017` follows the code that its authors
released in June 2017. `tiny` is meant for small corpora (Wu et al. 2021), and `small` for medium-sized ones. `fast` is
a student that translates quickly because it has a shallow decoder (Kasai et al. 2021). `parser` is the parser of
section 6.3, and `parser-small` is a smaller one that can be trained within hours on a CPU. The models of Tables 2 and 3
are in `transduce.paper.system_presets`, which is imported only if it is needed.
"""

from typing import Any

from transduce.settings import from_satellite, merged

Values = dict[str, Any]


def attention(heads: int, d_k: int, d_v: int, **settings: object) -> Values:
    """Returns settings with the same multi-head attention for self-attention and cross-attention (section 3.2.3)."""
    attention = {"kind": "attention", "heads": heads, "d_k": d_k, "d_v": d_v, **settings}
    return {"mixer": attention, "cross": attention}


def layers(number: int) -> Values:
    """Returns settings with `number` layers in both the encoder and the decoder."""
    return {"encoder_layers": number, "decoder_layers": number}


def varied(preset: Values, model: Values | None = None, training: Values | None = None) -> Values:
    """Returns a copy of a preset with changes to its sections `model` and `training`."""
    varied: Values = merged(preset, {"model": model or {}, "training": training or {}})
    return varied


BASE: Values = {
    "model": {
        "kind": "transformer",
        "d_model": 512,
        **layers(6),
        **attention(heads=8, d_k=64, d_v=64),
        "feed_forward": {"kind": "feed_forward", "d_ff": 2048},
        "dropout": 0.1,
    },
    "training": {"steps": 100_000, "label_smoothing": 0.1, "average": 5},
}

BIG = varied(
    BASE,
    {"d_model": 1024, **attention(heads=16, d_k=64, d_v=64), "feed_forward": {"d_ff": 4096}, "dropout": 0.3},
    {"steps": 300_000, "average": 20},
)

RELEASED_2017 = varied(
    BASE,
    {
        **attention(heads=8, d_k=64, d_v=64, bias=True),
        "positions": {"kind": "sinusoidal", "layout": "halves"},
        "norm_epsilon": 1e-6,
        "first_input": "zeros",
    },
    {"label_smoothing_over": "others"},
)

TINY = varied(
    BASE,
    {
        "d_model": 128,
        **layers(4),
        **attention(heads=4, d_k=32, d_v=32),
        "feed_forward": {"d_ff": 256},
        "dropout": 0.3,
        "initialisation": "normal",  # learns from the first steps on, unlike `glorot` (docs/decisions/0015)
    },
    {
        "batch_tokens": 2048,
        "steps": 16_000,
        "optimiser": {"kind": "muon"},
        "schedule": {"kind": "linear", "warmup": 1000, "peak": 5e-3},
        "average": 3,  # few, because the learning rate ends at zero, so earlier checkpoints differ much from the last
    },
)

_ADAM = {"batch_tokens": 4096, "steps": 20_000, "optimiser": {"kind": "adam"}, "average": 10}

SMALL = varied(
    TINY,
    {"d_model": 256, **attention(heads=4, d_k=64, d_v=64), "feed_forward": {"d_ff": 1024}, "dropout": 0.1},
    {**_ADAM, "schedule": {"kind": "inverse_square_root", "warmup": 2000, "peak": 2e-3}},
)

# A decoder layer runs once for every target token of every hypothesis, but an encoder layer only once per sentence.
FAST = varied(
    TINY,
    {
        "d_model": 256,
        "encoder_layers": 6,
        "decoder_layers": 2,
        **attention(heads=4, d_k=64, d_v=64),
        "feed_forward": {"d_ff": 1024},
        "dropout": 0.1,  # a teacher's translations vary less than human translations
    },
    {**_ADAM, "schedule": {"kind": "inverse_square_root", "warmup": 1000, "peak": 2e-3}},
)


def _parser(model: Values, training: Values, decoding: Values, size: int) -> Values:
    """Builds the preset of a parser. `size` is the number of subwords on the source side, which consists of words."""
    return {
        **varied(
            BASE,
            {**model, "embeddings": "separate"},
            {**training, "validate_by": "f1"},
        ),
        "subwords": {"kind": "bpe", "size": size, "shared": False},
        "decoding": decoding,
    }


# Section 6.3.
PARSER = _parser(
    {"d_model": 1024, **layers(4), **attention(heads=8, d_k=128, d_v=128)},
    {},
    {"beam": 21, "length_penalty": 0.3, "extra_length": 300},
    size=16_000,
)

PARSER_SMALL = _parser(
    {
        "d_model": 256,
        **layers(4),
        **attention(heads=4, d_k=64, d_v=64),
        "feed_forward": {"d_ff": 1024},
        "dropout": 0.2,
        "initialisation": "normal",
        "next_word": True,
    },
    {
        "batch_tokens": 4096,
        "steps": 10_000,
        "schedule": {"kind": "inverse_square_root", "warmup": 500, "peak": 2e-3},
        "average": 10,
    },
    {"beam": 4, "length_penalty": 0.0, "extra_length": 300},
    size=4000,
)
PARSER_SMALL["subwords"]["dropout"] = 0.1

PRESETS: dict[str, Values] = {
    "base": BASE,
    "big": BIG,
    "released-2017": RELEASED_2017,
    "tiny": TINY,
    "small": SMALL,
    "fast": FAST,
    "parser": PARSER,
    "parser-small": PARSER_SMALL,
}


def find_preset(name: str) -> Values | None:
    """Returns the preset with this name from this module or from the paper's systems, or None if there is none."""
    return PRESETS[name] if name in PRESETS else all_presets().get(name)


def all_presets() -> dict[str, Values]:
    """Returns the presets of this module and, if they are installed, the presets of the paper's systems."""
    try:
        presets: dict[str, Values] = from_satellite("transduce.paper.system_presets:PRESETS")
    except ValueError:
        return PRESETS
    return presets
