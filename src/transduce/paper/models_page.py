"""Generates the page docs/paper-models.md from the settings.

Run `python -m transduce.paper.models_page` to print the page.
"""

from transduce.model.layers import MIXERS
from transduce.model.model_spec import MODELS
from transduce.pages.recipe_page import keys_table, presets_table, reference_specs, specs_below, title
from transduce.paper.system_presets import PRESETS
from transduce.recipe import presets
from transduce.settings import ByKind, Spec

INTRODUCTION = """\
# Models of the paper

For people who train a system that the paper compares with the Transformer. This page answers which kinds of `model` and
`model.mixer`, and which presets, there are in addition to those in [recipes](recipe.md).
`python -m transduce.paper.models_page` prints it from the code.

The code of these systems is in `src/transduce/paper/models`. They are trained, evaluated and used for translation like
a Transformer, but cannot be exported.
"""

PRESETS_INTRODUCTION = """\
## Presets

`A1` to `E` are the rows of the paper's Table 3; for example, `C5` is the fifth row of (C). `no-positions` to
`attention-dropout` are rows that this project adds. Presets with the same `model.kind` as `base` are shown as changes
to `base`, and all other presets are shown in full.
"""


def models_page() -> str:
    """Returns the page in Markdown.

    It describes the models, mixers and presets of the paper that are not on the page of recipes.
    """
    parts = [INTRODUCTION]
    for section, table in (("model", MODELS), ("model.mixer", MIXERS)):
        parts.append(f"## `{section}`\n")
        for spec in specs_of_satellite(table):
            parts += [f"### {title(spec)}\n", keys_table(spec)]
    own_presets = {name: preset for name, preset in PRESETS.items() if name not in presets.PRESETS}
    return "\n".join([*parts, PRESETS_INTRODUCTION, presets_table(own_presets)])


def specs_of_satellite(table: ByKind) -> list[type[Spec]]:
    """Returns the settings classes under a table of kinds, without those that are on the page of recipes."""
    below = dict.fromkeys(spec for kind in table.all_classes() for spec in specs_below(kind))
    return [spec for spec in below if spec not in reference_specs()]


if __name__ == "__main__":
    print(models_page(), end="")
