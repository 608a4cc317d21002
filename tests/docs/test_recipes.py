"""Every recipe that comes with the project loads, and says what its comments say."""

import re
from pathlib import Path

import pytest

from transduce.fetch import read_catalogue
from transduce.paper.system_presets import PRESETS
from transduce.recipe.model_summary import summarise_model
from transduce.recipe.recipe import Recipe, load
from transduce.recipe.recipe_values import read_yaml

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
        "multi30k-both-directions",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-de-released-2017",
        "wmt14-en-fr-base",
        "wmt14-en-fr-big",
        "wmt14-en-fr-released-2017",
        "chat-en-de",
        "craft-trees",
        "embedded-trees",
    }


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_loads_and_its_model_can_be_described(path: Path) -> None:
    assert isinstance(load(path), Recipe)
    assert summarise_model(str(path))["vocabulary"]["source"] == load(path).subwords.size


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_begins_with_what_it_is_for_and_how_to_run_it(path: Path) -> None:
    opening = path.read_text("utf-8").split("\n\n")[0]
    assert all(line.startswith("#") for line in opening.split("\n"))
    assert f"transduce train {'recipes/' * (path.stem != 'own-data')}{path.name} --out runs/" in opening


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
@pytest.mark.parametrize("name", ["base", "big", "released-2017"])
def test_a_recipe_of_the_paper_is_its_preset_and_repeats_its_values_faithfully(name: str, pair: str) -> None:
    path = ROOT / "recipes" / f"wmt14-{pair}-{name}.yaml"
    recipe = load(path).as_dictionary()
    # Section 6.1: the big model has less dropout for French.
    differs = {"dropout": 0.1} if (name, pair) == ("big", "en-fr") else {}
    assert read_yaml(path)["model"] == {"preset": name, **differs}
    for key, value in PRESETS[name]["training"].items():
        assert recipe["training"][key] == value


@pytest.mark.parametrize("name", ["base", "big", "released-2017"])
def test_french_differs_from_german_in_the_text_the_subwords_and_the_dropout_alone(name: str) -> None:
    german, french = (
        load(ROOT / "recipes" / f"wmt14-{pair}-{name}.yaml").as_dictionary() for pair in ("en-de", "en-fr")
    )
    assert french["subwords"] == {"kind": "wordpiece", "size": 32000, "shared": True, "normalise": True}  # section 5.1
    for section in ("training", "decoding"):
        assert french[section] == german[section]
    assert {**french["model"], "dropout": 0} == {**german["model"], "dropout": 0}
    for key in ("max_length", "ratio"):
        assert french["data"][key] == german["data"][key]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_how_to_get_the_corpus_that_it_names(path: Path) -> None:
    text = path.read_text("utf-8")
    corpora = set(re.findall(r"\$\{TRANSDUCE_DATA\}/([\w-]+)/", text))
    fetched = set(re.findall(r"^#     transduce fetch ([\w-]+)$", text, re.MULTILINE))
    assert fetched | set(re.findall(r"^# Needs the folder ([\w-]+) .*github\.com/", text, re.MULTILINE)) == corpora
    assert fetched <= read_catalogue().corpora.keys()


def test_the_two_languages_of_multi30k_are_trained_alike() -> None:
    german, french = (load(ROOT / "recipes" / f"multi30k-en-{code}.yaml").as_dictionary() for code in ("de", "fr"))
    assert {**german, "data": None} == {**french, "data": None}
