"""Every recipe that comes with the project loads, and says what its comments say."""

from pathlib import Path

import pytest

from transduce.describe import described
from transduce.presets import PRESETS
from transduce.recipe import Recipe, load, read_yaml

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path / "nowhere"))


def test_the_recipes_are_those_that_the_documentation_promises() -> None:
    names = {path.stem for path in RECIPES}
    assert names >= {
        "own-data",
        "multi30k-en-de",
        "multi30k-en-fr",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-de-released-2017",
    }


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_loads_and_its_model_can_be_described(path: Path) -> None:
    assert isinstance(load(path), Recipe)
    assert described(str(path))["vocabulary"]["target"] == load(path).subwords.size


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_begins_with_what_it_is_for_and_how_to_run_it(path: Path) -> None:
    opening = path.read_text("utf-8").split("\n\n")[0]
    assert all(line.startswith("#") for line in opening.split("\n"))
    assert f"transduce train {'recipes/' * (path.stem != 'own-data')}{path.name} --out runs/" in opening


@pytest.mark.parametrize("name", ["base", "big", "released-2017"])
def test_a_recipe_of_the_paper_is_its_preset_and_repeats_its_values_faithfully(name: str) -> None:
    recipe = load(ROOT / "recipes" / f"wmt14-en-de-{name}.yaml").as_dictionary()
    assert read_yaml(ROOT / "recipes" / f"wmt14-en-de-{name}.yaml")["model"] == {"preset": name}
    for key, value in PRESETS[name]["training"].items():
        assert recipe["training"][key] == value


def test_the_two_languages_of_multi30k_are_trained_alike() -> None:
    german, french = (load(ROOT / "recipes" / f"multi30k-en-{code}.yaml").as_dictionary() for code in ("de", "fr"))
    assert {**german, "data": None} == {**french, "data": None}


def test_the_recipe_in_the_readme_loads(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(readme.split("```yaml\n")[1].split("```")[0], "utf-8")
    assert load(path).training.minutes == 60
