"""Presets of the paper's systems: the rows of Table 3, and the systems of Table 2.

The baselines have the sizes of their own papers, where docs/departures.md does not say otherwise, and the training of
`base`.
"""

from transduce.recipe import presets
from transduce.recipe.presets import BASE, Values, attention, layers, varied

TABLE_3: dict[str, Values] = {
    "A1": varied(BASE, attention(heads=1, d_k=512, d_v=512)),
    "A2": varied(BASE, attention(heads=4, d_k=128, d_v=128)),
    "A3": varied(BASE, attention(heads=16, d_k=32, d_v=32)),
    "A4": varied(BASE, attention(heads=32, d_k=16, d_v=16)),
    "B1": varied(BASE, attention(heads=8, d_k=16, d_v=64)),
    "B2": varied(BASE, attention(heads=8, d_k=32, d_v=64)),
    "C1": varied(BASE, layers(2)),
    "C2": varied(BASE, layers(4)),
    "C3": varied(BASE, layers(8)),
    "C4": varied(BASE, {"d_model": 256, **attention(heads=8, d_k=32, d_v=32)}),
    "C5": varied(BASE, {"d_model": 1024, **attention(heads=8, d_k=128, d_v=128)}),
    "C6": varied(BASE, {"feed_forward": {"d_ff": 1024}}),
    "C7": varied(BASE, {"feed_forward": {"d_ff": 4096}}),
    "D1": varied(BASE, {"dropout": 0.0}),
    "D2": varied(BASE, {"dropout": 0.2}),
    "D3": varied(BASE, training={"label_smoothing": 0.0}),
    "D4": varied(BASE, training={"label_smoothing": 0.2}),
    "E": varied(BASE, {"positions": {"kind": "learned", "max_positions": 512}}),
}

# Table 3 is measured without averaging.
TABLE_3 = {row: varied(preset, training={"average": None}) for row, preset in TABLE_3.items()}


def _baseline(kind: str, dropout: float = 0.2, **model: object) -> Values:
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
        **layers(1),
        cell={"kind": "gru"},
        compatibility={"kind": "additive"},
    ),
    # Luong et al. 2015.
    "luong": _baseline("recurrent", d_model=1000, **layers(4), cell={"kind": "lstm"}, directions="forwards"),
    # Wu et al. 2016.
    "gnmt": _baseline(
        "recurrent",
        d_model=1024,
        **layers(8),
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
    "experts": varied(
        BASE,
        {"feed_forward": {"kind": "experts", "expert": {"kind": "feed_forward", "d_ff": 2048}, "number": 16}},
    ),
}

PRESETS: dict[str, Values] = {**presets.PRESETS, **TABLE_3, **BASELINES}
"""All presets."""
