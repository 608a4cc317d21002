"""Defines the systems of the paper: presets for the rows of Table 3, and the systems of Table 2 from `systems.yaml`."""

from importlib.resources import files
from typing import Any, NamedTuple

from transduce.recipe import presets
from transduce.recipe.presets import BASE, Values, attention, layers, varied
from transduce.recipe.recipe_values import parse_yaml
from transduce.settings import merged

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

# Rows beside Table 3: each leaves out a part of the Transformer, or applies dropout to attention weights.
ABLATIONS: dict[str, Values] = {
    f"no-{part.replace('_', '-')}": varied(BASE, {**BASE["model"], "kind": "ablated_transformer", "without": part})
    for part in ("positions", "norm", "residual", "feed_forward")
} | {"attention-dropout": varied(BASE, attention(heads=8, d_k=64, d_v=64, dropout=0.1))}

# Table 3 is measured without checkpoint averaging.
TABLE_3, ABLATIONS = (
    {row: varied(preset, training={"average": None}) for row, preset in rows.items()} for rows in (TABLE_3, ABLATIONS)
)


# `transformer_parsing_base_dr6` of the released code. The peak is 5 · d_model^−0.5 · warmup^−0.5.
RELEASED_PARSER: Values = {
    **presets.PARSER,
    **varied(
        presets.RELEASED_2017,
        {
            "d_model": 1024,
            **attention(heads=8, d_k=128, d_v=128, bias=True, dropout=0.2),
            "dropout": 0.2,
            "embeddings": "separate",
            "readout": {"kind": "separate"},
        },
        {
            "schedule": {"kind": "inverse_square_root", "warmup": 16_000, "peak": 5 * 1024**-0.5 * 16_000**-0.5},
            "validate_by": "f1",
        },
    ),
}


class System(NamedTuple):
    """A system that we train, with its model at both scales and the row of the paper to which it corresponds."""

    name: str
    published: str | None  # row of the paper's table
    preset: str  # of its model at the paper's scale
    small: Values  # settings of its model at the small scale
    peak: float = 0.003  # of the learning rate, at the small scale
    changes: Values | None = None  # applied to its model at both scales
    remark: str = "named in the text"  # printed if the system has no row in the paper

    def model(self, small: bool) -> Values:
        """Returns the `model` section of the system's recipe, at the small scale or at the paper's scale."""
        model: Values = merged(self.small if small else PRESETS[self.preset]["model"], self.changes or {})
        return model


def read_data(name: str) -> Any:
    """Reads a YAML file of this package."""
    return parse_yaml(files(__package__).joinpath(name).read_bytes(), place=name)


_SYSTEMS: dict[str, dict[str, Any]] = read_data("systems.yaml")

BASELINES = {name: varied(BASE, values["model"]) for name, values in _SYSTEMS.items() if "model" in values}

PRESETS: dict[str, Values] = {
    **presets.PRESETS,
    **TABLE_3,
    **ABLATIONS,
    **BASELINES,
    "parser-released-2017": RELEASED_PARSER,
}
"""All presets: those of recipes, of Table 3, of the ablations, of the baselines and of the released code's parser."""

SYSTEMS: list[System] = []
for _name, _values in _SYSTEMS.items():
    _of_training = {key: value for key, value in _values.items() if key != "model"}
    SYSTEMS.append(System(**{"name": _name, "published": None, "preset": _name, **_of_training}))
