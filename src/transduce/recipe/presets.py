"""Presets: models by name, each with the settings of its training. A recipe is merged over its preset.

`base`, `big` and Table 3's rows are those of the paper (sections 3 and 5); `released-2017` is the authors' code of June
2017; `tiny` is for small corpora (Wu et al. 2021), `small` for middle ones. `fast` is a student that translates fast:
its decoder is shallow (Kasai et al. 2021). `parser` is that of section 6.3, and `parser-small` is for hours on a CPU.
The baselines have the sizes of their own papers, where docs/departures.md does not say otherwise, and the training of
`base`.
"""

from typing import Any

from transduce.settings import merged

Values = dict[str, Any]


def _attention(heads: int, d_k: int, d_v: int, **settings: Any) -> Values:
    """Returns the same multi-head attention for all its three uses (section 3.2.3)."""
    attention = {"kind": "attention", "heads": heads, "d_k": d_k, "d_v": d_v, **settings}
    return {"mixer": attention, "cross": attention}


def _layers(number: int) -> Values:
    """Returns the settings of encoder and decoder with `number` layers each."""
    return {"encoder_layers": number, "decoder_layers": number}


def _varied(preset: Values, model: Values | None = None, training: Values | None = None) -> Values:
    """Returns a preset with changes to its model and its training."""
    varied: Values = merged(preset, {"model": model or {}, "training": training or {}})
    return varied


BASE: Values = {
    "model": {
        "kind": "transformer",
        "d_model": 512,
        **_layers(6),
        **_attention(heads=8, d_k=64, d_v=64),
        "feed_forward": {"kind": "feed_forward", "d_ff": 2048},
        "dropout": 0.1,
    },
    "training": {"steps": 100_000, "label_smoothing": 0.1, "average": 5},
}

BIG = _varied(
    BASE,
    {"d_model": 1024, **_attention(heads=16, d_k=64, d_v=64), "feed_forward": {"d_ff": 4096}, "dropout": 0.3},
    {"steps": 300_000, "average": 20},
)

RELEASED_2017 = _varied(
    BASE,
    {
        **_attention(heads=8, d_k=64, d_v=64, bias=True),
        "positions": {"kind": "sinusoidal", "layout": "halves"},
        "norm_epsilon": 1e-6,
        "first_input": "zeros",
    },
    {"label_smoothing_over": "others"},
)

TINY = _varied(
    BASE,
    {
        "d_model": 128,
        **_layers(4),
        **_attention(heads=4, d_k=32, d_v=32),
        "feed_forward": {"d_ff": 256},
        "dropout": 0.3,
        "initialisation": "normal",  # learns from the first steps on, where `glorot` does not (docs/decisions/0015)
    },
    {
        "batch_tokens": 2048,
        "steps": 16_000,
        "optimiser": {"kind": "muon"},
        "schedule": {"kind": "linear", "warmup": 1000, "peak": 5e-3},
        "average": 3,  # where the rate ends at zero, earlier checkpoints are far from the last
    },
)

_ADAM = {"batch_tokens": 4096, "steps": 20_000, "optimiser": {"kind": "adam"}, "average": 10}

SMALL = _varied(
    TINY,
    {"d_model": 256, **_attention(heads=4, d_k=64, d_v=64), "feed_forward": {"d_ff": 1024}, "dropout": 0.1},
    {**_ADAM, "schedule": {"kind": "inverse_square_root", "warmup": 2000, "peak": 2e-3}},
)

# A decoder layer computes once for each target token of each hypothesis, an encoder layer once for the sentence.
FAST = _varied(
    TINY,
    {
        "d_model": 256,
        "encoder_layers": 6,
        "decoder_layers": 2,
        **_attention(heads=4, d_k=64, d_v=64),
        "feed_forward": {"d_ff": 1024},
        "dropout": 0.1,  # a teacher's translations vary less than people's
    },
    {**_ADAM, "schedule": {"kind": "inverse_square_root", "warmup": 1000, "peak": 2e-3}},
)


def _parser(model: Values, training: Values, decoding: Values, size: int) -> Values:
    """Returns the preset of a parser, with `size` subwords on the side of the words."""
    return {
        **_varied(
            BASE,
            {**model, "embeddings": "separate"},
            {**training, "validate_by": "f1"},
        ),
        "subwords": {"kind": "bpe", "size": size, "shared": False},
        "decoding": decoding,
    }


# Section 6.3.
PARSER = _parser(
    {"d_model": 1024, **_layers(4), **_attention(heads=8, d_k=128, d_v=128)},
    {},
    {"beam": 21, "length_penalty": 0.3, "extra_length": 300},
    size=16_000,
)

PARSER_SMALL = _parser(
    {
        "d_model": 256,
        **_layers(4),
        **_attention(heads=4, d_k=64, d_v=64),
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

TABLE_3: dict[str, Values] = {
    "A1": _varied(BASE, _attention(heads=1, d_k=512, d_v=512)),
    "A2": _varied(BASE, _attention(heads=4, d_k=128, d_v=128)),
    "A3": _varied(BASE, _attention(heads=16, d_k=32, d_v=32)),
    "A4": _varied(BASE, _attention(heads=32, d_k=16, d_v=16)),
    "B1": _varied(BASE, _attention(heads=8, d_k=16, d_v=64)),
    "B2": _varied(BASE, _attention(heads=8, d_k=32, d_v=64)),
    "C1": _varied(BASE, _layers(2)),
    "C2": _varied(BASE, _layers(4)),
    "C3": _varied(BASE, _layers(8)),
    "C4": _varied(BASE, {"d_model": 256, **_attention(heads=8, d_k=32, d_v=32)}),
    "C5": _varied(BASE, {"d_model": 1024, **_attention(heads=8, d_k=128, d_v=128)}),
    "C6": _varied(BASE, {"feed_forward": {"d_ff": 1024}}),
    "C7": _varied(BASE, {"feed_forward": {"d_ff": 4096}}),
    "D1": _varied(BASE, {"dropout": 0.0}),
    "D2": _varied(BASE, {"dropout": 0.2}),
    "D3": _varied(BASE, training={"label_smoothing": 0.0}),
    "D4": _varied(BASE, training={"label_smoothing": 0.2}),
    "E": _varied(BASE, {"positions": {"kind": "learned", "max_positions": 512}}),
}

# Table 3 is measured without averaging.
TABLE_3 = {row: _varied(preset, training={"average": None}) for row, preset in TABLE_3.items()}


def _baseline(kind: str, dropout: float = 0.2, **model: Any) -> Values:
    """Returns the preset of a baseline, with the training of `base`."""
    return {"model": {"kind": kind, "dropout": dropout, **model}, "training": BASE["training"]}


def _blocks(*blocks: tuple[int, int, int]) -> list[Values]:
    """Returns the blocks of a convolutional stack; each has a number of layers, a width and a kernel."""
    return [dict(zip(("layers", "width", "kernel"), block, strict=True)) for block in blocks]


BASELINES: dict[str, Values] = {
    # Bahdanau et al. 2015, whose embeddings have 620 dimensions. The decoder reads the last attention output with the
    # next token.
    "rnnsearch": _baseline(
        "recurrent",
        d_model=1000,
        **_layers(1),
        cell={"kind": "gru"},
        compatibility={"kind": "additive"},
    ),
    # Luong et al. 2015.
    "luong": _baseline("recurrent", d_model=1000, **_layers(4), cell={"kind": "lstm"}, directions="forwards"),
    # Wu et al. 2016.
    "gnmt": _baseline(
        "recurrent",
        d_model=1024,
        **_layers(8),
        cell={"kind": "lstm"},
        directions="both_first",
        compatibility={"kind": "additive"},
        attending="bottom",
        residual=True,
    ),
    # Gehring et al. 2017, English–German.
    "convs2s": _baseline(
        "convolutional",
        d_model=768,
        encoder=_blocks((9, 512, 3), (4, 1024, 3), (2, 2048, 1)),
        decoder=_blocks((9, 512, 3), (4, 1024, 3), (2, 2048, 1)),
    ),
    # Kalchbrenner et al. 2016.
    "bytenet": _baseline("bytenet", d_model=1600, sets=6, dilations=[1, 2, 4, 8, 16], kernel=3),
    # Kaiser and Bengio 2016.
    "neural-gpu": _baseline("neural_gpu", d_model=512, layers=2, height=4, kernel=3),
    # Sukhbaatar et al. 2015, one of their language models.
    "memory-network": _baseline("memory_network", d_model=150, hops=7, span=100, tying="layerwise"),
    # Shazeer et al. 2017 put experts between LSTMs; here they are the feed-forward networks of the base model.
    "experts": _varied(
        BASE,
        {"feed_forward": {"kind": "experts", "expert": {"kind": "feed_forward", "d_ff": 2048}, "number": 16}},
    ),
}

PRESETS: dict[str, Values] = {
    "base": BASE,
    "big": BIG,
    "released-2017": RELEASED_2017,
    "tiny": TINY,
    "small": SMALL,
    "fast": FAST,
    "parser": PARSER,
    "parser-small": PARSER_SMALL,
    **TABLE_3,
    **BASELINES,
}
