"""docs/recipe.md and docs/paper-models.md are what their generators print, and every key has a description."""

import inspect
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from transduce.model.layers import MIXERS
from transduce.model.model_spec import MODELS
from transduce.pages.recipe_page import reference_page, reference_specs
from transduce.paper.models_page import models_page, specs_of_satellite
from transduce.paper.system_presets import PRESETS
from transduce.recipe.recipe import Recipe, merge_preset
from transduce.settings import Spec, merged

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PAGE_OF_MODELS = ((DOCS / name).read_text("utf-8") for name in ("recipe.md", "paper-models.md"))
SPECS = [*reference_specs(), *specs_of_satellite(MODELS), *specs_of_satellite(MIXERS)]


def test_the_page_is_what_the_generator_prints() -> None:
    assert reference_page() == PAGE, "write it anew: python -m transduce.pages.recipe_page > docs/recipe.md"


def test_the_page_of_models_is_what_the_generator_prints() -> None:
    message = "write it anew: python -m transduce.paper.models_page > docs/paper-models.md"
    assert models_page() == PAGE_OF_MODELS, message
    assert all(f"### `kind: {kind}`" in PAGE + PAGE_OF_MODELS for table in (MODELS, MIXERS) for kind in table.table)


def test_the_page_is_short_and_begins_with_a_recipe() -> None:
    assert len(PAGE.split()) <= 4000
    assert PAGE.index(reference_page().split("```")[1].removeprefix("yaml\n")) < 400


def test_the_example_is_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(reference_page().split("```")[1].removeprefix("yaml\n"), "utf-8")
    assert Recipe.load(tmp_path / "recipe.yaml").training.minutes == 60


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_key_has_a_description_and_every_kind_a_docstring(spec: type[Spec]) -> None:
    assert not [key for key, field in spec.model_fields.items() if key != "kind" and not field.description]
    assert inspect.getdoc(spec) != inspect.getdoc(Spec)


@pytest.mark.parametrize("name", PRESETS)
def test_the_table_of_presets_gives_each_preset(name: str) -> None:
    """The settings of a preset's row, laid over `base`, make the preset."""
    row = re.search(rf"^\|`{re.escape(name)}`\|(.*)\|$", PAGE + PAGE_OF_MODELS, flags=re.MULTILINE)
    assert row is not None
    values: dict[str, object] = {}
    for key, value in re.findall(r"`([^`=]+)=([^`]*)`", row[1]):
        for path in (key.replace("{mixer,cross}", part) for part in ("mixer", "cross")):
            change: object = YAML(typ="safe", pure=True).load(value)
            for step in reversed(path.split(".")):
                change = {step: change}
            values = merged(values, change)
    assert merge_preset(values, place="the table") == merge_preset({"model": {"preset": name}}, place="the preset")
