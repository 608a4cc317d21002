"""What a recipe may change between one start of a run and the next."""

import re
from pathlib import Path

import pytest

from transduce.corpus import DataSpec
from transduce.search import Decoding
from transduce.trainer.run_directory import _differences
from transduce.training import Training

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"
SECTIONS = {"training": Training, "data": DataSpec, "decoding": Decoding}


def promised():
    """The keys that the page says may differ, each with its section."""
    text = " ".join(PAGE.read_text("utf-8").split())
    sentence = re.search(r"its recipe may differ from before only in (.*?), and in where the files", text)[1]
    section, found = "", set()
    for name in re.findall(r"`([a-z_.]+)`", sentence):
        before, _, key = name.rpartition(".")
        section = before or section  # a name alone is of the section named last
        found.add((section, key))
    return found


def test_the_page_names_keys_that_there_are():
    assert len(promised()) == 9
    assert all(key in SECTIONS[section].model_fields for section, key in promised())


@pytest.mark.parametrize(
    ("section", "key"), [(section, key) for section, spec in SECTIONS.items() for key in spec.model_fields]
)
def test_what_the_page_does_not_name_is_refused(section, key):
    found = list(_differences({section: {key: 1, "other": 3}}, {section: {key: 2, "other": 3}}))
    assert found == ([] if (section, key) in promised() else [f"`{section}.{key}` was 1 and is 2"])


@pytest.mark.parametrize("path", ["model.d_model", "subwords.size", "model.steps", "training.optimiser.steps", "steps"])
def test_a_free_key_is_free_at_its_own_place_alone(path):
    old, new = 1, 2
    for name in reversed(path.split(".")):
        old, new = {name: old}, {name: new}
    assert list(_differences(old, new)) == [f"`{path}` was 1 and is 2"]
