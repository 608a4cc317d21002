"""The keys of a recipe that may change when a run is resumed."""

import re
from pathlib import Path

import pytest

from transduce.corpus.data_spec import DataSpec
from transduce.run.checkpoints import SAVED
from transduce.run.run_directory import (
    CHANGEABLE,
    CHANGEABLE_IF_ACCEPTED,
    FINE_TUNING,
    _differences,
    check_is_run_or_empty,
)
from transduce.search.beam import Decoding
from transduce.storage.atomic import unfinished_path
from transduce.training.training_settings import Training

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"
SECTIONS = {"training": Training, "data": DataSpec, "decoding": Decoding}


def documented_keys(pattern=r"its recipe may then differ only in (.*?), and in the paths"):
    """Returns the keys that the page says may differ, each with its section."""
    text = " ".join(PAGE.read_text("utf-8").split())
    sentence = re.search(pattern, text)[1]
    section, keys = "", set()
    for name in re.findall(r"`([a-z_.]+)`", sentence):
        before, _, key = name.rpartition(".")
        section = before or section  # a name alone is of the section named last
        keys.add((section, key))
    return keys


def test_the_page_names_existing_keys():
    assert len(documented_keys()) == 10
    assert all(key in SECTIONS[section].model_fields for section, key in documented_keys())


@pytest.mark.parametrize(
    ("section", "key"), [(section, key) for section, spec in SECTIONS.items() for key in spec.model_fields]
)
def test_a_change_of_any_other_key_is_refused(section, key):
    differences = list(_differences({section: {key: 1, "other": 3}}, {section: {key: 2, "other": 3}}, CHANGEABLE))
    assert differences == ([] if (section, key) in documented_keys() else [f"`{section}.{key}` was 1 and is 2"])


@pytest.mark.parametrize("path", ["model.d_model", "subwords.size", "model.steps", "training.optimiser.steps", "steps"])
def test_a_changeable_key_is_changeable_in_its_own_section_only(path):
    old, new = 1, 2
    for name in reversed(path.split(".")):
        old, new = {name: old}, {name: new}
    assert list(_differences(old, new, CHANGEABLE)) == [f"`{path}` was 1 and is 2"]


def test_the_page_names_the_keys_that_may_change_where_it_is_accepted():
    added = {(section, key) for section, keys in CHANGEABLE_IF_ACCEPTED.items() for key in keys - CHANGEABLE[section]}
    assert documented_keys(r"with `--accept-changes` also in (.*?)\.(?: |$)") == added


@pytest.mark.parametrize("name", [SAVED, FINE_TUNING])
def test_a_start_that_was_killed_at_its_first_file_may_begin_again(tmp_path, name):
    (tmp_path / "training").mkdir()
    unfinished_path(tmp_path / "training" / name).write_text("")
    check_is_run_or_empty(tmp_path)
    (tmp_path / "training" / "other").write_text("")
    unfinished_path(tmp_path / "training" / name).unlink()
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        check_is_run_or_empty(tmp_path)
